"""What the pages on algorithms and recipes say is what there is."""

from pathlib import Path

import pytest

from agent_r1_trainer.algorithms import ALGORITHMS
from agent_r1_trainer.train.recipes import find_recipe, load_recipe, recipe_names

DOCS = Path(__file__).parents[2] / "docs"
COLUMNS = {"HotpotQA": "hotpotqa", "ALFWorld": "alfworld", "WebShop": "webshop", "paper search": "paper_search"}


def rows(page: str) -> list[list[str]]:
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_the_table_of_algorithms_is_the_table_of_the_code():
    found = {row[0].strip("`"): row[1:] for row in rows("algorithms.md") if len(row) == 10 and row[0].startswith("`")}
    assert list(found) == list(ALGORITHMS)
    for name, algorithm in ALGORITHMS.items():
        s = algorithm.settings
        std = (s.get("advantage_kwargs") or {}).get("normalize_std", True)
        clip = f"{s['epsilon']:g}" + ("" if s["epsilon_high"] is None else f" / {s['epsilon_high']:g}")
        assert found[name] == [
            algorithm.title,
            f"`{s['advantage_estimator']}`" + ("" if std else ", no std"),
            "yes" if "critic" in s else "no",
            s["importance_sampling_level"],
            clip,
            f"`{s['loss_aggregation']}`",
            str(s["num_generations"]),
            f"{s['kl_estimator']} in the {s['kl_in']}",
            ", ".join(algorithm.papers),
        ]


def test_only_the_recipes_for_models_take_the_clip_of_the_published_runs():
    own = {"epsilon": 0.2, "epsilon_high": None, "gamma": None}
    small = {"epsilon": 3e-4, "epsilon_high": 4e-4, "gamma": 1.0}
    expected = {"demo": own, "household": own}
    expected |= {"webshop_cpu": small, "paper_search_cpu": small}
    for name, settings in expected.items():
        recipe = load_recipe(find_recipe(name))
        assert {key: recipe.get(key) for key in settings} == settings
    assert load_recipe(find_recipe("alfworld_warm"))["epsilon"] == 3e-4


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_on_the_page(name):
    assert f"`{name}`" in (DOCS / "recipes.md").read_text(encoding="utf-8")


def test_the_figures_of_the_page_are_those_of_the_recipes():
    table = {row[0]: dict(zip(COLUMNS.values(), row[1:], strict=True)) for row in rows("recipes.md") if len(row) == 5}
    for task in COLUMNS.values():
        base, steppo = load_recipe(find_recipe(task), fill=False), load_recipe(find_recipe(task))
        lengths = f"{base['max_prompt_length']:,}, {base['max_completion_length']:,}"
        assert table["tokens of a prompt, a reply"][task] == lengths
        assert table["environment"][task] == f"`{base['env']}`"
        assert table["episodes of a rollout"][task] == str(base["rollout_batch_size"])
        assert table["`num_minibatches`"][task] == str(base["num_minibatches"])
        assert table["gamma of StepPO"][task] == f"{steppo['gamma']:g}" == "0.99"
        others = {
            load_recipe(find_recipe(task), algorithm=name).get("gamma", 1.0) for name in ("token_ppo", "reinforce_pp")
        }
        assert {float(table["gamma of the others (GiGPO: 0.95)"][task])} == others
        assert table["clip of StepPO"][task] == "3e-4"
        assert (steppo["epsilon"], steppo.get("epsilon_high")) == (3e-4, None)
        beta = "RLOO, REINFORCE++, GiGPO: 0.001" if "beta" not in base else f"{base['beta']:g}"
        assert table["KL (`beta`)"][task] == beta
        for algorithm in ("rloo", "reinforce_pp", "gigpo"):
            assert load_recipe(find_recipe(task), algorithm=algorithm)["beta"] == 0.001
