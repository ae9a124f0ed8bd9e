"""A training run: exam, training, exam, report."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from rich.console import Console
from transformers import PrinterCallback, ProgressCallback, TrainerState

from agent_r1_envs.files import write_json
from agent_r1_trainer.algorithms import ALGORITHMS
from agent_r1_trainer.learning.distributed import held_by_main
from agent_r1_trainer.model_folders import check_model_folder
from agent_r1_trainer.steppo_config import StepPOConfig
from agent_r1_trainer.tiny_policy import CHECKPOINTS
from agent_r1_trainer.train.curve import draw_curve
from agent_r1_trainer.train.exam import Exam, ExamResult, exam_table
from agent_r1_trainer.train.folder import RunFolder
from agent_r1_trainer.train.progress import ProgressReporter
from agent_r1_trainer.train.settings import TrainSettings
from agent_r1_trainer.train.warm import WarmStart, adapters
from agent_r1_trainer.trainer.checkpointing import last_whole_checkpoint
from agent_r1_trainer.trainer.steppo_trainer import StepPOTrainer

__all__ = ["TrainRun"]


class TrainRun:
    """What `agent-r1 train` does.

    A run that was interrupted goes on from its last checkpoint; a complete one is only shown.

    Args:
        settings: The run; `training` says the folder, as `output_dir`.
        console: Where tables and progress go.

    Raises:
        ValueError: A setting that cannot work, or a folder that holds another run.
    """

    def __init__(self, settings: TrainSettings, console: Console) -> None:
        self.settings = settings
        self.folder = RunFolder(Path(settings.training["output_dir"]), dataclasses.asdict(settings))
        self._console = console
        self._reporter = ProgressReporter(self.folder, console)
        self._warm = WarmStart(settings, self.folder, console) if settings.warm_start else None
        self._exam: Exam | None = None

    def run(self) -> bool:
        """Run to the end. Returns whether it got there: a SIGTERM stops it at a checkpoint."""
        if self.folder.complete:
            done = f"{self.folder.path} holds this run, complete. Remove it to train again."
            self._console.print(done, markup=False, soft_wrap=True)
            self._show(_read_results(self.folder))
            return True
        self._config()  # refuses what cannot work before anything is written, and joins the processes
        with held_by_main(PartialState(), self.folder.lock):
            return self._run()

    def _run(self) -> bool:
        started = time.perf_counter()
        if self.settings.threads is not None:
            torch.set_num_threads(self.settings.threads)
        model = str(CHECKPOINTS.get(self.settings.model, self.settings.model))
        check_model_folder(model)  # before any demonstration is played
        if self._warm is not None:
            warmed = self._warm.run(model)
            if warmed is None:
                return False
            model = warmed
        trainer = self._build(model)
        main = trainer.is_world_process_zero()
        if main:
            self.folder.open()
            if self.folder.changed:
                changed = "".join(f"\n  {difference}" for difference in self.folder.changed)
                self._console.print(f"New settings for the rest of the run:{changed}", markup=False, soft_wrap=True)
        results: list[ExamResult] = []
        exam = self._exam = Exam(trainer, self.settings, self.settings.exam) if self.settings.exam else None
        if exam:
            temperatures = (trainer.args.temperature, 0.0, self.settings.exam.low_temperature)  # type: ignore[union-attr]
            for temperature in dict.fromkeys(temperatures):
                results += self._examine(trainer, exam, "untrained", temperature)
            if main:
                self._show(results)
        begun = time.perf_counter()
        if not self._train(trainer):
            return False
        trained = time.perf_counter() - begun
        trainer.save_model(str(self.folder.model))
        if exam:
            for temperature in dict.fromkeys(temperatures[:2]):
                results += self._examine(trainer, exam, "trained", temperature)
        if main:
            seconds = {"training": round(trained, 1), "total": round(time.perf_counter() - started, 1)}
            self._finish(trainer, results, seconds)
        return True

    def _train(self, trainer: StepPOTrainer) -> bool:
        """Train from the last checkpoint, if there is one. Returns whether all steps were done."""
        checkpoint = last_whole_checkpoint(self.folder.path)
        reached = TrainerState() if checkpoint is None else _state(checkpoint)
        if trainer.is_world_process_zero():
            if checkpoint is not None:
                self._console.print(f"Going on from {checkpoint}.", markup=False, soft_wrap=True)
            self.folder.forget_after(-1 if checkpoint is None else reached.global_step)
        trainer.train(resume_from_checkpoint=checkpoint)
        return trainer.state.global_step >= trainer.state.max_steps

    def close(self) -> None:
        """Give the terminal back, and close the environments of the exam."""
        self._reporter.close()
        if self._exam is not None:
            self._exam.close()
        if self._warm is not None:
            self._warm.close()

    @property
    def _title(self) -> str:
        name = self.settings.algorithm
        return self.settings.training.get("advantage_estimator", "StepPO") if name is None else ALGORITHMS[name].title

    def _config(self) -> StepPOConfig:
        return StepPOConfig(**{"disable_tqdm": True, **self.settings.training})

    def _build(self, model: str) -> StepPOTrainer:
        settings = self.settings
        trainer = StepPOTrainer(
            model=model,
            args=self._config(),
            env=settings.envs or settings.env,
            eval_env=settings.eval_env,
            callbacks=[self._reporter],
            peft_config=adapters(settings),
        )
        for callback in (PrinterCallback, ProgressCallback):  # they print raw dictionaries
            trainer.remove_callback(callback)
        trainer.run_lock = self.folder.lock
        trainer.flow.watch = self._reporter.watch_rollout
        return trainer

    def _examine(self, trainer: StepPOTrainer, exam: Exam, policy: str, temperature: float) -> list[ExamResult]:
        results, trajectories = exam.take(policy, temperature)
        if trainer.is_world_process_zero():
            name = f"{policy}-greedy" if temperature == 0 else f"{policy}-temperature-{temperature:g}"
            self.folder.write_trajectories(name, trajectories, trainer.processing_class)
        return results

    def _finish(self, trainer: StepPOTrainer, results: list[ExamResult], seconds: dict[str, float]) -> None:
        args = trainer.args
        draw_curve(
            self.folder.rows(),
            [result for result in results if not result.env],
            self.folder.curve,
            title=f"{self._title} on {self.settings.env or ', '.join(self.settings.envs)}, seed {args.seed}",
            episodes_per_step=args.rollout_batch_size / args.updates_per_rollout,
        )
        report: dict[str, Any] = {
            "updates": trainer.state.global_step,
            "episodes": trainer.state.global_step // args.updates_per_rollout * args.rollout_batch_size,
            "seconds": seconds,
            "exam": [result.to_json() for result in results],
        }
        write_json(self.folder.report, report)
        self._show(results)
        took = f"{report['episodes']} episodes, {report['updates']} updates, {seconds['total']:.0f} s"
        names = ("metrics.jsonl", "curve.png", "trajectories/", "model/", "report.json")
        files = ", ".join(name for name in names if (self.folder.path / name).exists())
        self._console.print(f"{took}\n{self.folder.path}: {files}", markup=False, soft_wrap=True)

    def _show(self, results: list[ExamResult]) -> None:
        exam = self.settings.exam
        if exam is None:
            return
        before = "untrained" if self._warm is None else "warm start"
        for env in dict.fromkeys(result.env for result in results):
            part = [result for result in results if result.env == env]
            where = f"{env or exam.env or self.settings.env} {exam.env_kwargs.get('split', '')}".strip()
            title = f"{len(part[0].tasks)} tasks of {where}, 95 % intervals"
            self._console.print(exam_table(part, title, before=before))


def _state(checkpoint: str) -> TrainerState:
    return TrainerState.load_from_json(str(Path(checkpoint) / "trainer_state.json"))


def _read_results(folder: RunFolder) -> list[ExamResult]:
    import json

    report = json.loads(folder.report.read_text(encoding="utf-8"))
    return [ExamResult.from_json(data) for data in report["exam"]]
