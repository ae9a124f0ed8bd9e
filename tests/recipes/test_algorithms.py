"""Every algorithm makes a valid config, with a critic exactly where its estimator reads values."""

import dataclasses

import pytest

from agent_r1_trainer import credit
from agent_r1_trainer.algorithms import ALGORITHMS, algorithm_settings, without_other_algorithm
from agent_r1_trainer.steppo_config import StepPOConfig

FIELDS = {f.name for f in dataclasses.fields(StepPOConfig) if f.init}
CRITIC = {"critic", "critic_learning_rate", "critic_max_grad_norm", "critic_warmup_steps"} | {
    "vf_coef",
    "value_clip",
    "value_grad_to_trunk",
}


def test_the_algorithms_are_those_that_were_promised():
    assert list(ALGORITHMS) == [
        *("steppo", "token_ppo", "grpo", "dr_grpo", "rloo", "reinforce_pp", "reinforce_pp_baseline"),
        *("gigpo", "pspo", "gspo"),
    ]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_makes_a_valid_config(name, tmp_path):
    algorithm = ALGORITHMS[name]
    config = StepPOConfig.for_algorithm(name, output_dir=str(tmp_path), use_cpu=True, beta=0.01)
    for field, value in algorithm.settings.items():
        assert field in FIELDS and getattr(config, field) == value
    assert all(len(paper) == 10 and paper[4] == "." for paper in algorithm.papers)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_only_algorithms_that_read_values_have_a_critic(name):
    settings = ALGORITHMS[name].settings
    assert credit.get(settings["advantage_estimator"]).needs_values == ("critic" in settings)
    assert not CRITIC & set(settings) or "critic" in settings


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_is_given_wins(name, tmp_path):
    given = {"rollout_batch_size": 12, "num_generations": 3, "loss_aggregation": "trajectory_step_sum", "gamma": 0.5}
    config = StepPOConfig.for_algorithm(name, output_dir=str(tmp_path), use_cpu=True, **given)
    assert {field: getattr(config, field) for field in given} == given
    assert config.advantage_estimator == ALGORITHMS[name].settings["advantage_estimator"]


def test_half_of_a_pair_does_not_meet_the_other_half_of_the_algorithm():
    assert algorithm_settings("gspo", {})["epsilon_high"] == 4e-4
    assert "epsilon_high" not in algorithm_settings("gspo", {"epsilon": 0.2})
    assert "kl_estimator" not in algorithm_settings("rloo", {"kl_in": "loss"})
    assert "advantage_kwargs" not in algorithm_settings("gigpo", {"advantage_estimator": "grpo"})


def test_the_table_cannot_be_changed_through_a_result():
    algorithm_settings("gigpo", {})["advantage_kwargs"]["step_weight"] = 7.0
    assert ALGORITHMS["gigpo"].settings["advantage_kwargs"]["step_weight"] == 1.0
    with pytest.raises(TypeError):
        ALGORITHMS["gigpo"].settings["gamma"] = 1.0


def test_another_algorithm_drops_what_defined_the_former_and_keeps_the_rest():
    given = {"epsilon": 3e-4, "epsilon_high": 4e-4, "critic": "value_head", "critic_warmup_steps": 4, "gamma": 0.9}
    given |= {"learning_rate": 1e-5, "num_generations": 4}
    assert without_other_algorithm("token_ppo", given, "steppo") == {
        "critic": "value_head",
        "critic_warmup_steps": 4,
        "gamma": 0.9,
        "learning_rate": 1e-5,
    }
    assert without_other_algorithm("grpo", given, "steppo") == {"gamma": 0.9, "learning_rate": 1e-5}
    assert without_other_algorithm("grpo", given, "gigpo") == {"learning_rate": 1e-5}  # gamma was one of GiGPO's own


@pytest.mark.parametrize(("name", "hint"), [("grop", "grpo"), ("GRPO", "grpo"), ("dr-grpo", "dr_grpo"), (3, "steppo")])
def test_an_unknown_algorithm_is_answered_by_near_ones(name, hint):
    with pytest.raises(ValueError, match=hint):
        algorithm_settings(name, {})
