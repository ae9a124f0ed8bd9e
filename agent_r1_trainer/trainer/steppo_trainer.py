"""Step-level policy optimisation on TRL's trainer.

The trainer makes its own data, so its dataset is nothing but the numbers of its optimizer steps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import PreTrainedTokenizerBase, TrainerCallback, TrainerControl, get_scheduler
from transformers.trainer_utils import TrainOutput

from agent_r1_envs.files import write_json
from agent_r1_trainer._compat import recompute_activations, view_gradients
from agent_r1_trainer.curriculum.sampler import TaskSampler, group_assignments, group_results, rollouts_per_epoch
from agent_r1_trainer.environments.contract import error_text
from agent_r1_trainer.environments.mixture import EnvironmentsArgument
from agent_r1_trainer.files import run_lock
from agent_r1_trainer.flows import AgentFlowBase
from agent_r1_trainer.flows.collect import collect
from agent_r1_trainer.flows.failures import FailureWatch, commonest
from agent_r1_trainer.flows.player import refuse_in_worker
from agent_r1_trainer.generation import Generator, SamplingParams
from agent_r1_trainer.generation.transformers_generator import free_memory
from agent_r1_trainer.learning.critic import CriticModel, SeparateCritic
from agent_r1_trainer.learning.distributed import gather_items, held_by_main
from agent_r1_trainer.learning.experience import Experience
from agent_r1_trainer.learning.make_experience import ExperienceMaker
from agent_r1_trainer.learning.memory import micro_batch_limit, pending_bytes
from agent_r1_trainer.learning.probe import Probe
from agent_r1_trainer.learning.scoring import Reference
from agent_r1_trainer.learning.update import Updater
from agent_r1_trainer.metrics import mixture_metrics, summarize
from agent_r1_trainer.steppo_config import StepPOConfig, options
from agent_r1_trainer.trainer.checkpointing import CheckpointedTrainer, last_whole_checkpoint
from agent_r1_trainer.trainer.completions import episode_rows, log_tables, show_rows, write_rows
from agent_r1_trainer.trainer.evaluation import Evaluator
from agent_r1_trainer.trainer.generation_backends import choose_backend
from agent_r1_trainer.trainer.models import build_models, stop_token_ids
from agent_r1_trainer.trainer.setup import make_task_sampler, set_up_flows, trained_environments

__all__ = ["StepNumbers", "StepPOTrainer", "single_item"]

_LOGGER = logging.getLogger(__name__)


class StepNumbers(Dataset[dict[str, int]]):
    """Numbers the optimizer steps of an epoch: one item is one step, and the step decides what is trained on.

    Args:
        count: Steps of an epoch.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, int]:
        return {"step": index}


def single_item(batch: list[dict[str, int]]) -> dict[str, int]:
    """Collate a batch of one item: the item."""
    return batch[0]


class StepPOTrainer(CheckpointedTrainer):
    """Trains a language-model agent with step-level PPO (StepPO, published as CAPO, arXiv 2604.18401).

    A rollout runs episodes of an environment; each turn is one step of a Markov decision process whose value is read
    at the last prompt token. Step GAE gives every turn its advantage; a fixed number of clipped updates follows.

    Example:
        trainer = StepPOTrainer(
            model="Qwen/Qwen3-1.7B",
            args=StepPOConfig("runs/hotpotqa", gamma=0.99, max_steps=400, eval_env_kwargs={"split": "validation"}),
            env="AgentR1/HotpotQA-v0",
        )
        trainer.train()

    Args:
        model: Name or path, or a causal language model, possibly with PEFT adapters.
        args: The settings.
        env: A registered id, an `EnvSpec`, or a function that returns a new environment at every call; or a mapping of
            names to these or to `MixtureEntry`, which makes a mixture.
        eval_env: The same for evaluation. None uses `env` with `args.eval_env_kwargs` if those are given, of a mixture
            the entries with `eval_kwargs`; else there is no evaluation.
        processing_class: Tokenizer; None loads the model's.
        flow: Runs the episodes instead of `AgentEnvLoop` over `env`.
        eval_flow: The same for evaluation.
        task_sampler: Chooses the tasks of every rollout, instead of `args.task_sampler`; see `TaskSampler`.
        callbacks: Callbacks of transformers.
        optimizers: Optimizer and schedule of the policy (and its value head); None makes them from `args`.
        peft_config: Adapters to train instead of the weights.

    Raises:
        ValueError: A setting that cannot work, with what to do instead.
    """

    _tag_names = ["trl", "steppo", "capo", "agent-r1"]
    _name = "StepPO (published as CAPO)"
    _paper = {
        "title": "CAPO: Critic-Guided Action-Aligned Policy Optimization for Advancing LLM Agent Capabilities",
        "id": "2604.18401",
    }
    loss_is_scaled_for_ga = True

    args: StepPOConfig
    control: TrainerControl

    def __init__(
        self,
        model: str | nn.Module,
        args: StepPOConfig | None = None,
        env: EnvironmentsArgument | None = None,
        eval_env: EnvironmentsArgument | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        *,
        flow: AgentFlowBase | None = None,
        eval_flow: AgentFlowBase | None = None,
        task_sampler: TaskSampler | None = None,
        callbacks: list[TrainerCallback] | None = None,
        optimizers: tuple[torch.optim.Optimizer | None, torch.optim.lr_scheduler.LambdaLR | None] = (None, None),
        peft_config: Any | None = None,
    ) -> None:
        refuse_in_worker("StepPOTrainer")
        args = StepPOConfig("steppo") if args is None else args
        models = build_models(model, args, processing_class, peft_config, trained_environments(env, flow))
        setup = set_up_flows(args, models, env, eval_env, flow, eval_flow)
        panels = setup.flow.panels
        self._loss_divisors = setup.loss_divisors(args)
        sampler = make_task_sampler(args, panels, setup.weights(), task_sampler)
        epoch = rollouts_per_epoch(panels, args.groups_per_rollout)
        if epoch is None and args.max_steps <= 0:
            raise ValueError("an environment has no panel of tasks, so there are no epochs to count: set max_steps")
        super().__init__(
            models,
            setup,
            sampler,
            args,
            data_collator=single_item,
            train_dataset=StepNumbers((epoch or 1) * args.updates_per_rollout),
            eval_dataset=None if setup.eval_flow is None else StepNumbers(1),
            callbacks=callbacks,
            optimizers=optimizers,
        )
        if self.is_deepspeed_enabled or self.is_fsdp_enabled:
            raise ValueError("DeepSpeed and FSDP are not supported yet: use accelerate with plain data parallelism")
        if args.n_gpu > 1:
            raise ValueError("start one process per GPU (accelerate launch): nn.DataParallel is not supported")
        view_gradients(self.accelerator)
        self.run_lock = run_lock(args.output_dir)
        probe = Probe(models.policy, models.tokenizer)
        keeps_rows = not args.use_vllm and probe.find_reading(rows=args.generation_cache_tokens != 0)
        probe.check_scoring(temperature=args.temperature, merge=models.merge)
        self._backend = choose_backend(args, self.accelerator, models.policy, models.tokenizer, keeps_rows=keeps_rows)
        self.sampling = SamplingParams(
            max_new_tokens=args.max_completion_length,
            stop_token_ids=stop_token_ids(
                models.policy,
                models.tokenizer,
                more=args.stop_token_ids or (),
                chat_template_kwargs=options(args.chat_template_kwargs),
            ),
            temperature=args.temperature,
            top_p=args.top_p,
            top_k=args.top_k,
            stop_strings=tuple(args.stop_strings or ()),
        )
        for each in (self.flow, self.eval_flow):
            if each is not None:
                each.check(self.sampling)
        self._watch, self._eval_watch = (
            FailureWatch(args.max_masked_ratio, speaks=self.is_world_process_zero()) for _ in range(2)
        )
        self._maker: ExperienceMaker | None = None
        self._experience: Experience | None = None
        self._completions_of = -1  # the rollout whose episodes were shown last
        self._noted_tasks = self._training = False
        self._grad_norm = 0.0
        self._evaluator = (
            None
            if self.eval_flow is None
            else Evaluator(
                self.eval_flow,
                self.accelerator,
                episodes=args.eval_episodes,
                seed=args.seed,
                samples=args.eval_num_generations,
                watch=self._eval_watch,
                vocabulary=self._vocabulary,
            )
        )

    # Set-up

    def get_train_dataloader(self) -> DataLoader:
        """One item a step, the same on every rank; nothing is sharded, since the items only count."""
        return DataLoader(self.train_dataset, batch_size=1, collate_fn=single_item)

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Make the optimizer of the policy, with the value head in a group of its own learning rate."""
        head = self.value_head
        if head is None:
            return super().create_optimizer(model)
        if self.optimizer is not None:
            self._check_optimizer(self.optimizer, head)
            return super().create_optimizer(model)
        head.requires_grad_(False)
        optimizer = super().create_optimizer(model)
        head.requires_grad_(True)
        optimizer.add_param_group({"params": list(head.parameters()), "lr": self.args.critic_lr, "weight_decay": 0.0})
        return optimizer

    @staticmethod
    def _check_optimizer(optimizer: torch.optim.Optimizer, head: nn.Module) -> None:
        known = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        if not all(id(parameter) in known for parameter in head.parameters()):
            raise ValueError(
                "the optimizer given does not hold the value head, which would stay at 0. Leave it out, or set "
                "critic='separate', or put trainer.value_head.parameters() into it before train()"
            )

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """Make the schedule, and what takes the steps that it counts."""
        scheduler = super().create_scheduler(num_training_steps, optimizer)
        if num_training_steps % self.args.updates_per_rollout:
            raise ValueError(
                f"the run would end after {num_training_steps} steps, inside a rollout of "
                f"{self.args.updates_per_rollout} updates: choose num_train_epochs or max_steps accordingly"
            )
        self._make_learners(num_training_steps)
        return scheduler

    def _make_learners(self, num_training_steps: int) -> None:
        """Make the separate critic, the updater and the maker of experience; they need the model on its device."""
        if self._models.critic is not None and self.critic is None:
            self.critic = self._make_critic(self._models.critic, num_training_steps)
        policy = self.accelerator.unwrap_model(self.model_wrapped)
        self._updater = Updater(self.args, self.accelerator, policy, self.critic)
        self._maker = ExperienceMaker(
            self.args,
            self.accelerator,
            policy,
            critic=self.critic,
            reference=self._reference(),
            scales=self._models.scales,
            pad_id=self.processing_class.pad_token_id,
            token_budget=self._token_budget(policy),
            merge=self._models.merge,
            envs=self.entries,
            loss_divisors=self._loss_divisors,
            foreign=self._backend.foreign,
        )

    def _token_budget(self, policy: nn.Module) -> int:
        """Most tokens of a forward pass: what the settings say, or what fits beside all that the first update makes."""
        learning = [policy, *([] if self.critic is None else [self.critic.model])]
        pending = pending_bytes(parameter for model in learning for parameter in model.parameters())
        with self.accelerator.autocast():
            policy.train()
            free = free_memory(self.accelerator.device)
            limit = micro_batch_limit(self.args.budget("micro_batch_tokens"), policy, free, pending)
        if limit != self.args.micro_batch_tokens:
            _LOGGER.info("micro_batch_tokens=%s comes to %d tokens", self.args.micro_batch_tokens, limit)
        return limit

    def _make_critic(self, model: CriticModel, num_training_steps: int) -> SeparateCritic:
        model.to(self.accelerator.device).train()  # recomputes activations in training mode only; has no dropout
        if self.args.activation_checkpointing:
            recompute_activations(model.trunk)
        cls, kwargs = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = cls(parameters, **{**kwargs, "lr": self.args.critic_lr, "weight_decay": self.args.weight_decay})
        scheduler = get_scheduler(
            self.args.lr_scheduler_type,
            optimizer=optimizer,
            num_warmup_steps=self.args.get_warmup_steps(num_training_steps),
            num_training_steps=num_training_steps,
            scheduler_specific_kwargs=self.args.lr_scheduler_kwargs,
        )
        return SeparateCritic(model, self.accelerator, optimizer, scheduler)

    def _reference(self) -> Reference | None:
        reference = self._models.reference
        if reference is not None and reference.copy is not None:
            reference.copy.to(self.accelerator.device)
        return reference

    # Training

    def train(self, resume_from_checkpoint: str | bool | None = None, **kwargs: Any) -> TrainOutput:
        """Train; see `transformers.Trainer.train`. However it ends, the environments are closed.

        Args:
            resume_from_checkpoint: A checkpoint's path, or True for the newest whole one in `output_dir`. The run
                continues as if it had not stopped. New learning rates and schedules, another length, and settings of
                logging, saving, evaluation, memory and speed are applied and said in the log.
            **kwargs: As for `transformers.Trainer.train`.

        Raises:
            ValueError: There is no checkpoint, or it was written with settings that make another run of it.
            LockError: Another run is in `output_dir`.
        """
        self._training = True
        try:
            with held_by_main(self.accelerator, self.run_lock):
                return self._train(resume_from_checkpoint, **kwargs)
        finally:
            self._boundary.release()
            self._training = False
            self.close_environments()
            self._backend.close()

    def _train(self, resume_from_checkpoint: str | bool | None, **kwargs: Any) -> TrainOutput:
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_whole_checkpoint(self.args.output_dir)
            if resume_from_checkpoint is None:
                raise ValueError(f"there is no whole checkpoint in {self.args.output_dir}")
        if resume_from_checkpoint:
            self._check_checkpoint(str(resume_from_checkpoint))
            self._watch.trust(self.panels)
            if self.eval_flow is not None:
                self._eval_watch.trust(self.eval_flow.panels)
            if self._is_done(str(resume_from_checkpoint)):
                return self._take_over(str(resume_from_checkpoint))
        return super().train(resume_from_checkpoint=resume_from_checkpoint, **kwargs)

    def training_step(
        self, model: nn.Module, inputs: dict[str, int], num_items_in_batch: Any | None = None
    ) -> torch.Tensor:
        """Run one optimizer step's forward and backward passes, after a rollout where one is due."""
        assert self._updater is not None
        step = self.state.global_step
        index = step % self.args.updates_per_rollout
        if index == 0 or self._experience is None:
            self._experience = self._collect(step // self.args.updates_per_rollout)
        model.train()
        started = time.perf_counter()
        result = self._updater.run(
            model,
            self._experience,
            index,
            warmup=step < self.args.critic_warmup_steps,
            entropy=self._measures_entropy(step),
        )
        if self.critic is not None:
            self.critic.step()
        self._totals["loss"] += result.loss
        self._totals["steps"] += 1
        self._grad_norm = result.grad_norm
        self._store.add({**result.metrics, "loss": result.loss, "time/update": time.perf_counter() - started})
        self._store.add({"skipped_updates": float(self._updater.skipped)})
        return torch.tensor(result.loss, device=self.accelerator.device)

    def _measures_entropy(self, step: int) -> bool:
        """Whether the update after so many steps reports the entropy."""
        every = self.args.entropy_steps
        if every is None:
            return (step + 1) % self.state.logging_steps == 0 or (step == 0 and self.args.logging_first_step)
        return every > 0 and (step + 1) % every == 0

    def _clip_grad_norm(self, model: nn.Module) -> float:
        """Gradients were clipped, policy and critic apart, when `training_step` decided about the update."""
        return self._grad_norm

    def _get_grad_norm(self, model: nn.Module, grad_norm: float | None = None) -> float:
        return self._grad_norm

    def floating_point_ops(self, inputs: Any) -> int:
        """Not counted: the items of the dataloader hold no tokens."""
        return 0

    def _collect(self, rollout: int) -> Experience:
        """Run a rollout and make it into experience."""
        assert self._maker is not None
        tasks = self.task_sampler.assignments(rollout)
        assignments = group_assignments(
            tasks,
            rollout=rollout,
            panels=self.panels,
            groups=self.args.groups_per_rollout,
            samples=self.args.num_generations,
            seed=self.args.seed,
        )
        started = time.perf_counter()
        with self.generator() as generator:
            trajectories = collect(
                self.flow,
                self.accelerator,
                assignments,
                generator,
                self.sampling,
                policy_version=self.state.global_step,
                vocabulary=self._vocabulary,
            )
        collected = time.perf_counter()
        episodes = gather_items(self.accelerator, [summarize(trajectory) for trajectory in trajectories])
        self._watch.check(episodes, f"rollout {rollout}")
        self.task_sampler.observe(rollout, group_results(tasks, episodes))
        metrics = mixture_metrics(episodes)
        experience, more = self._maker.make(rollout, trajectories)
        metrics.update(more)
        if all(episode.masked for episode in episodes):
            experience.failure = commonest(episodes)
        self._totals["tokens"] += sum(sum(episode.lengths) for episode in episodes)
        metrics.update(self._backend.metrics())
        metrics["num_tokens"] = self._totals["tokens"]
        metrics["policy_version"] = float(self.state.global_step)
        metrics["time/rollout"] = collected - started
        metrics["time/generation"] = self.flow.times.generation
        metrics["time/environment"] = self.flow.times.environment
        metrics.update(self._rollout_metrics())
        metrics["time/experience"] = time.perf_counter() - collected
        self._store.add(metrics)
        return experience

    def _rollout_metrics(self) -> dict[str, float]:
        """What the flow says of the last rollout: its speed here, and what went wrong on all ranks together."""
        progress = self.flow.progress
        if progress is None:
            return {}
        failures = gather_items(self.accelerator, [progress.failures])
        return {**progress.rates, **{name: sum(rank[name] for rank in failures) for name in progress.failures}}

    # Evaluation and reports

    @contextmanager
    def generator(self) -> Iterator[Generator]:
        """The policy as it is, ready to answer prompts: by itself, or by vLLM with its weights.

        The weights must not change within the block.
        """
        with self._backend.generator(self.model_wrapped, self.state.global_step) as generator:
            yield generator

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
        temperature = self.args.evaluation_temperature
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
                self._backend.close()
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
