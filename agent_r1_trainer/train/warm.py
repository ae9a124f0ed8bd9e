"""The warm start of a run: demonstrations, fine-tuning, a line on how it went."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Console

from agent_r1_trainer.demos.run import DemoRun, DemoSettings, describe, run_with_bar
from agent_r1_trainer.prompts.context_settings import ContextSettings
from agent_r1_trainer.sft.data import Limits
from agent_r1_trainer.sft.run import WarmStartStopped, warm_start
from agent_r1_trainer.sft.settings import make_sft_config
from agent_r1_trainer.steppo_config import StepPOConfig, options
from agent_r1_trainer.train.folder import RunFolder
from agent_r1_trainer.train.progress import WarmProgress
from agent_r1_trainer.train.settings import TrainSettings

__all__ = ["WarmStart", "adapters"]

_INHERITED = ("seed", "use_cpu", "bf16", "fp16", "model_init_kwargs")


class WarmStart:
    """Makes the model that reinforcement learning starts from, in `<run>/warm_start/`.

    Args:
        settings: Of the run.
        folder: Of the run.
        console: Where bar and line go.
    """

    def __init__(self, settings: TrainSettings, folder: RunFolder, console: Console) -> None:
        self._settings = settings
        self._folder = folder
        self._console = console
        self.path = folder.path / "warm_start"
        self._progress = WarmProgress(self.path / "metrics.jsonl", console)

    def run(self, model: str) -> str | None:
        """Return the path of the warm-started model; None when a SIGTERM stopped it at a checkpoint.

        Args:
            model: Name or path of the one to begin with.

        Raises:
            ValueError: Settings that cannot work, those of reinforcement learning included.
            DemoError: Demonstrations that cannot be made or used.
        """
        training, warm = self._settings.training, self._settings.warm_start
        assert warm is not None
        args = StepPOConfig(**{"disable_tqdm": True, **training})  # before an hour of fine-tuning, not after
        values = {**{name: training[name] for name in _INHERITED if name in training}, **warm.sft}
        config = make_sft_config(str(self.path), {k: v for k, v in values.items() if k != "model_init_kwargs"})
        if config.process_index == 0:
            self._folder.open()
        if (self.path / "model").exists():
            return str(self.path / "model")
        data = Path(warm.data) if warm.data is not None else self.path / "demonstrations.jsonl"
        with config.main_process_first(local=False, desc="demonstrations"):
            if warm.episodes is not None and config.process_index == 0:
                self._demonstrate(args, data)
        started = time.perf_counter()
        try:
            path = warm_start(
                model,
                data,
                self.path,
                peft_config=adapters(self._settings),
                context=ContextSettings(
                    args.recipe,
                    args.history_thinking,
                    options(args.chat_template_kwargs),
                    list(args.stop_token_ids or ()),
                    list(args.stop_strings or ()),
                ),
                limits=Limits(args.max_prompt_length, args.max_completion_length),
                callbacks=[self._progress],
                **values,
            )
        except WarmStartStopped:
            return None
        if config.process_index == 0:
            self._say(f"warm start: {self._progress.summary}, {time.perf_counter() - started:.0f} s")
        return str(path)

    def close(self) -> None:
        """Give the terminal back."""
        self._progress.close()

    def _demonstrate(self, args: StepPOConfig, path: Path) -> None:
        settings, warm = self._settings, self._settings.warm_start
        assert warm is not None
        if not settings.env:
            raise ValueError(
                "warm_start: `episodes` are played in one environment. For a mixture write a file for each with "
                "`agent-r1 demos`, put them one after the other into one file, and name it as `data`"
            )
        wanted = DemoSettings(
            env=settings.env,
            env_kwargs=options(args.env_kwargs),
            episodes=warm.episodes,
            recipe=args.recipe,
            max_turns=args.max_turns,
            seed=args.seed,
            only_successful=warm.only_successful,
        )
        counts = run_with_bar(DemoRun(wanted, path, resume=True), self._console)
        self._say(f"demonstrations: {describe(counts)}")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)


def adapters(settings: TrainSettings) -> Any | None:
    """Return the `peft.LoraConfig` of a run, or None."""
    if settings.peft is None:
        return None
    from peft import LoraConfig

    return LoraConfig(**{"task_type": "CAUSAL_LM", **settings.peft})
