"""The part of the trainer that evaluates and logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import TrainerControl

from agent_r1_trainer._compat import generation_model
from agent_r1_trainer.environments.contract import error_text
from agent_r1_trainer.files import write_json
from agent_r1_trainer.flows import AgentFlowBase
from agent_r1_trainer.generation import Generator, SamplingParams, TransformersGenerator
from agent_r1_trainer.learning.experience import Experience
from agent_r1_trainer.trainer.checkpointing import CheckpointedTrainer
from agent_r1_trainer.trainer.completions import episode_rows, log_tables, show_rows, write_rows
from agent_r1_trainer.trainer.evaluation import Evaluator

__all__ = ["ReportingTrainer"]

_LOGGER = logging.getLogger(__name__)


class ReportingTrainer(CheckpointedTrainer):
    """Evaluates on held-out episodes, and adds to every log what was measured since the last one."""

    control: TrainerControl
    sampling: SamplingParams
    flow: AgentFlowBase
    eval_flow: AgentFlowBase | None
    _evaluator: Evaluator | None
    _experience: Experience | None
    _completions_of: int
    _noted_tasks = False
    _training = False
    _keeps_rows: bool

    @contextmanager
    def generator(self) -> Iterator[Generator]:
        """The policy as it is, ready to answer prompts within the memory of the settings, in training's precision.

        The weights must not change within the block.
        """
        with generation_model(self.model_wrapped, self.accelerator) as policy, self.accelerator.autocast():
            yield TransformersGenerator(
                policy,
                pad_token_id=self.processing_class.pad_token_id,
                max_rows=self.args.generation_batch_rows,
                max_tokens=self.args.generation_batch_tokens,
                max_cached_tokens=self.args.generation_cache_tokens if self._keeps_rows else 0,
                tokenizer=self.processing_class,
            )

    def _evaluate(self, trial: Any, ignore_keys_for_eval: Any, skip_scheduler: bool = False) -> dict[str, float]:
        # transformers evaluates "on start" after a resume too; the interrupted run did not evaluate there.
        if self._evaluator is None or (skip_scheduler and self.state.global_step > 0):
            return {}
        return super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler=skip_scheduler)

    def evaluate(
        self, eval_dataset: Any | None = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Run the held-out episodes with the policy as it is. Outside of `train` the environments are closed after it.

        Args:
            eval_dataset: Has no meaning here.
            ignore_keys: Has no meaning here.
            metric_key_prefix: Put before the names of the metrics.

        Returns:
            The metrics: `eval_success`, `eval_reward`, `eval_turns/mean` and so on.

        Raises:
            ValueError: If the trainer has no evaluation environment.
        """
        if self._evaluator is None:
            raise ValueError("there is nothing to evaluate on: pass eval_env or set eval_env_kwargs")
        temperature = self.args.temperature if self.args.eval_temperature is None else self.args.eval_temperature
        try:
            with self.generator() as generator:
                results, _ = self._evaluator.run(
                    generator,
                    replace(self.sampling, temperature=temperature),
                    greedy=self.args.eval_greedy,
                    policy_version=self.state.global_step,
                )
        finally:
            if not self._training:
                self.close_environments()
        self._note_tasks(self._evaluator)
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in results.items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def close_environments(self) -> None:
        """Close the environments of training and of evaluation; what needs them next builds new ones."""
        for flow in (self.flow, self.eval_flow):
            if flow is None:
                continue
            try:
                flow.close()
            except Exception as error:  # of a user's flow; what was trained is worth more
                _LOGGER.warning("closing %s failed: %s", type(flow).__name__, error_text(error))

    @property
    def _vocabulary(self) -> int:
        """Ids that the policy can read are below this."""
        return self.model.get_input_embeddings().num_embeddings

    def _note_tasks(self, evaluator: Evaluator) -> None:
        """Write down which tasks were evaluated on, once."""
        if self._noted_tasks or not self.is_world_process_zero():
            return
        self._noted_tasks = True
        ids = evaluator.task_ids
        if ids:
            write_json(Path(self.args.output_dir) / "evaluation_tasks.json", ids[""] if set(ids) == {""} else ids)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the metrics since the last log.

        The losses are this trainer's own sums: those of transformers start from nothing after a resume.
        """
        if "train_loss" in logs:
            logs["train_loss"] = self._totals["loss"] / max(self._totals["steps"], 1)
        elif "loss" in logs:
            logs.update(self._store.flush())
            self._log_completions()
        super().log(logs, start_time)

    def _log_completions(self) -> None:
        """Show and keep the latest rollout's episodes of this rank, once."""
        if not self.args.log_completions or not self.is_world_process_zero() or self._experience is None:
            return
        if self._experience.rollout == self._completions_of:
            return
        self._completions_of = self._experience.rollout
        rows = episode_rows(self._experience, self.processing_class, self.state.global_step)
        write_rows(rows, Path(self.args.output_dir), self.state.global_step)
        show_rows(rows, self.args.num_completions_to_print)
        log_tables(rows, self.args.report_to)
