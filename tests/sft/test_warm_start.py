"""Fine-tuning on demonstrations: the loss it reports, what it does to the policy, and that it can be interrupted."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, TrainerCallback

from agent_r1_trainer import warm_start
from agent_r1_trainer.demos import DemoRun, DemoSettings, read_rows
from agent_r1_trainer.prompts.context_settings import ContextSettings
from agent_r1_trainer.tiny_policy import CHECKPOINT, load_tiny_policy
from agent_r1_trainer.tiny_policy.hotpotqa.demonstrations import ENV_ID, ENV_KWARGS
from agent_r1_trainer.tiny_policy.hotpotqa.quality import play

FAST: dict[str, Any] = {"use_cpu": True, "lr_scheduler_type": "constant", "weight_decay": 0.0, "learning_rate": 5e-4}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demos") / "d.jsonl"
    DemoRun(DemoSettings(ENV_ID, {**ENV_KWARGS, "split": "train"}, 64, "native"), path).run()
    return path


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Log(TrainerCallback):
    """Keeps the losses, and stops the run as Ctrl-C does after some step."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.losses: list[float] = []
        self.stop_after = stop_after

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        self.losses += [logs["loss"]] if "loss" in logs else []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.stop_after:
            raise KeyboardInterrupt


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def completion_loss(model: Any, tokenizer: Any, rows: Any) -> float:
    """Mean cross-entropy over replies and ends of turns, one turn and one token at a time, in float64."""
    total, count = 0.0, 0
    model = model.double().eval()
    for row in rows:
        text = tokenizer.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True)
        prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
        reply = tokenizer(row["completion"][0]["content"], add_special_tokens=False)["input_ids"]
        ids = [*prompt, *reply, tokenizer.eos_token_id]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0].tolist()
        for place in range(len(prompt), len(ids)):
            scores = torch.tensor(logits[place - 1], dtype=torch.float64)
            total += float(scores.logsumexp(0) - scores[ids[place]])
            count += 1
    return total / count


def test_the_loss_is_that_of_the_replies_alone(data: Path, tmp_path: Path) -> None:
    rows = list(read_rows(data))[:9]
    wanted = completion_loss(*load_tiny_policy(), rows)
    for number, given in enumerate([rows, [{k: row[k] for k in ("prompt", "completion")} for row in rows]]):
        log = Log()
        warm_start(
            str(CHECKPOINT),
            given,
            tmp_path / str(number),
            callbacks=[log],
            max_steps=1,
            per_device_train_batch_size=9,
            **FAST,
        )
        assert log.losses == [pytest.approx(wanted, rel=1e-4)]  # the log rounds


def test_it_lowers_the_loss_and_raises_success_on_held_out_tasks(data: Path, tmp_path: Path) -> None:
    held_out = tmp_path / "held_out.jsonl"
    DemoRun(DemoSettings(ENV_ID, {**ENV_KWARGS, "split": "test"}, 12, "native"), held_out).run()
    rows = list(read_rows(held_out))

    def measure(model: Any, tokenizer: Any) -> tuple[float, float]:
        solved = sum(episode.success for episode in play(model, tokenizer, tasks=60, temperature=0.0)) / 60
        return completion_loss(model, tokenizer, rows), solved

    path = warm_start(
        str(CHECKPOINT),
        data,
        tmp_path / "warm",
        context=ContextSettings("native"),
        max_steps=16,
        per_device_train_batch_size=8,
        save_strategy="no",
        **FAST,
    )
    (loss, success), (new_loss, new_success) = measure(*load_tiny_policy()), measure(*load_tiny_policy(path))
    assert new_loss < 0.5 * loss and new_success > success + 0.4
    assert ContextSettings.load(path) == ContextSettings("native")
    assert not list((tmp_path / "warm").glob("checkpoint-*"))


def test_an_interrupted_call_goes_on_and_a_finished_one_is_not_repeated(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**FAST, "max_steps": 6, "save_steps": 2, "lr_scheduler_type": "linear"}
    whole = warm_start(str(CHECKPOINT), data, tmp_path / "whole", **settings)
    broken = tmp_path / "broken"
    with pytest.raises(KeyboardInterrupt):
        warm_start(str(CHECKPOINT), data, broken, callbacks=[Log(5)], **settings)
    assert (broken / "checkpoint-4").exists() and not (broken / "model").exists()
    log = Log()
    path = warm_start(str(CHECKPOINT), data, broken, callbacks=[log], **settings)
    assert len(log.losses) == 2
    assert all(torch.equal(tensor, weights(whole)[name]) for name, tensor in weights(path).items())

    monkeypatch.setattr("agent_r1_trainer.sft.run.encode_demonstrations", None)  # would be called
    assert warm_start(str(CHECKPOINT), data, broken, **settings) == path
    for other in ({"learning_rate": 1e-3}, {"context": ContextSettings("native")}):
        with pytest.raises(
            ValueError, match="(?s)warm start with other settings; choose another folder.*(settings|context).* there, "
        ):
            warm_start(str(CHECKPOINT), data, broken, **{**settings, **other})


def test_a_call_that_was_killed_while_it_saved_trains_no_further(data: Path, tmp_path: Path) -> None:
    settings = {**FAST, "max_steps": 2, "save_steps": 1}

    class Killed(Log):
        def on_train_end(self, *args: Any, **kwargs: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        warm_start(str(CHECKPOINT), data, tmp_path, callbacks=[Killed()], **settings)
    reached = weights(tmp_path / "checkpoint-2")
    log = Log()
    path = warm_start(str(CHECKPOINT), data, tmp_path, callbacks=[log], **settings)
    assert log.losses == [] and all(torch.equal(tensor, reached[name]) for name, tensor in weights(path).items())


def test_adapters_are_trained_and_merged(data: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, PromptTuningConfig, get_peft_model

    lora = LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"])
    settings = {**FAST, "max_steps": 3, "learning_rate": 1e-2, "save_strategy": "no"}
    log, rows = Log(), [row for row in read_rows(data) if row["episode"] < 8]  # one batch, the same each time
    path = warm_start(str(CHECKPOINT), rows, tmp_path / "lora", peft_config=lora, callbacks=[log], **settings)
    assert not list(path.glob("adapter*")) and log.losses[-1] < log.losses[0]
    before, after = weights(CHECKPOINT), weights(path)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert before.keys() == after.keys() and changed
    assert all(name.split(".")[-2] in ("q_proj", "v_proj") for name in changed)
    model = AutoModelForCausalLM.from_pretrained(path)
    assert not hasattr(model, "peft_config")

    with pytest.raises(ValueError, match="has PEFT adapters already: merge them"):
        warm_start(get_peft_model(load_tiny_policy()[0], lora), data, tmp_path / "a", **settings)
    prompt = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    with pytest.raises(ValueError, match="that learn a prompt cannot be merged"):
        warm_start(str(CHECKPOINT), data, tmp_path / "b", peft_config=prompt, **settings)
    with pytest.raises(ValueError, match="rounds in a quantised model"):
        quantised = {"load_in_4bit": True}
        warm_start(
            str(CHECKPOINT), data, tmp_path / "c", peft_config=lora, **{**settings, "model_init_kwargs": quantised}
        )


def test_mistakes_are_named_before_anything_is_written(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for wrong, message in (
        ({"learning_rte": 1.0}, "there is no setting 'learning_rte'; did you mean learning_rate"),
        ({"completion_only_loss": False}, "completion_only_loss cannot be set: the loss is on the expert's replies"),
        ({"eos_token": "x"}, "must keep the tokenizer"),
    ):
        with pytest.raises(ValueError, match=message):
            warm_start(str(CHECKPOINT), data, folder, **wrong)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        warm_start(str(CHECKPOINT), tmp_path / "nowhere.jsonl", folder, **FAST)
    with pytest.raises(ValueError, match="tokenizer is needed"):
        warm_start(load_tiny_policy()[0], data, folder, **FAST)
    assert not folder.exists()


def test_what_is_not_trained_on_is_said(data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from agent_r1_trainer.sft.data import Limits

    rows = [row for row in read_rows(data) if row["episode"] < 4]
    limits = Limits(completion=5)  # an answer of one word, and nothing longer
    rows[0]["completion"][0]["content"] = "answer[yes]"
    warm_start(str(CHECKPOINT), rows, tmp_path, limits=limits, max_steps=1, save_strategy="no", **FAST)
    long = sum(len(row["completion"][0]["content"].split()) > 1 for row in rows)
    assert 0 < long < len(rows) and f"{long} of the demonstrated turns are not trained on: the reply is" in caplog.text


def test_a_model_in_memory_is_trained_in_place(data: Path, tmp_path: Path) -> None:
    model, tokenizer = load_tiny_policy()
    rows = list(read_rows(data))[:6]
    path = warm_start(model, rows, tmp_path, tokenizer=tokenizer, max_steps=1, save_strategy="no", **FAST)
    saved = weights(path)
    assert all(torch.equal(tensor, saved[name]) for name, tensor in model.state_dict().items() if name in saved)
    manifest = json.loads((tmp_path / "warm_start.json").read_text(encoding="utf-8"))
    assert manifest["settings"]["max_steps"] == 1
