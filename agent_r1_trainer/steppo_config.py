"""The settings of `StepPOTrainer`, and those that it refuses, with the reason and what to do instead.

Longer than other files, so that whoever looks for a setting, its default, its bounds or what derives from it has one
place to look in.
"""

from __future__ import annotations

import logging
import math
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import torch

from agent_r1_trainer import credit
from agent_r1_trainer._compat import BaseConfig, reporting_fault
from agent_r1_trainer.environments.factory import EnvWorkers, Recipe
from agent_r1_trainer.fields import (
    Bounds,
    Budget,
    Count,
    NonNegative,
    NonNegativeInt,
    Positive,
    Share,
    check_fields,
    setting,
)
from agent_r1_trainer.generation.vllm_settings import VLLMSettings, check_vllm
from agent_r1_trainer.losses import Aggregation, LossConfig, check_loss_estimator

if TYPE_CHECKING:
    from transformers import TrainingArguments


__all__ = [
    "StepPOConfig",
    "check_config",
    "check_credit",
    "check_reporting",
    "check_schedule",
    "loss_config",
    "options",
]

logger = logging.getLogger(__name__)


_DEFAULT_SAVE_STEPS = 500

# Name of a field of TrainingArguments, the values it may have, and why no other.
_INHERITED = (
    (
        "gradient_accumulation_steps",
        (1,),
        "an optimizer step already sums as many micro-batches as micro_batch_tokens makes necessary; to accumulate "
        "over more episodes raise rollout_batch_size or lower num_minibatches",
    ),
    ("per_device_train_batch_size", (8,), "set rollout_batch_size (episodes) and micro_batch_tokens (memory) instead"),
    ("per_device_eval_batch_size", (8,), "set eval_episodes instead"),
    (
        "auto_find_batch_size",
        (False,),
        "a rollout cannot be restarted with another batch size; lower micro_batch_tokens",
    ),
    (
        "ignore_data_skip",
        (False,),
        "the tasks of a rollout follow from the step, so a resumed run must skip to its step",
    ),
    ("include_num_input_tokens_seen", ("no", False), "there are no input batches to count; see the metric num_tokens"),
    ("label_smoothing_factor", (0, 0.0), "there are no labels to smooth"),
    ("neftune_noise_alpha", (None,), "noise in the embeddings makes the policy ratios meaningless"),
    ("deepspeed", (None,), "DeepSpeed is not supported yet; use `accelerate launch` with plain data parallelism"),
    (
        "torch_compile",
        (False,),
        "micro-batches come in many shapes, and each would be compiled anew; bf16 and flash attention are what helps",
    ),
    ("fp16", (False,), "loss scaling would hide which updates are skipped; use bf16"),
    ("ddp_static_graph", (None, False), "the number of micro-batches changes from step to step"),
    (
        "use_liger_kernel",
        (False,),
        "it replaces the forward pass that scores replies, whose logits are read in blocks already",
    ),
    ("enable_jit_checkpoint", (False,), "a SIGTERM always saves, once the updates of the rollout are done"),
    ("dataloader_num_workers", (0,), "there is nothing to load"),
)


def check_config(config: StepPOConfig) -> None:
    """Refuse settings that are out of range, contradict each other or would be ignored.

    Raises:
        ValueError: The setting's name, why it is refused and what to do instead.
    """
    for name, allowed, reason in _INHERITED:
        value = getattr(config, name)
        if value not in allowed:
            raise ValueError(f"{name}={value!r} is not supported: {reason}")
    if config.fsdp:
        raise ValueError("fsdp is not supported yet; use `accelerate launch` with plain data parallelism")
    check_fields(config, leave_out=BaseConfig.__dataclass_fields__.keys() - StepPOConfig.__annotations__.keys())
    for name in ("micro_batch_tokens", "generation_batch_tokens", "generation_cache_tokens"):
        if getattr(config, name) is not None:  # vLLM has no budgets of the own sampler
            config.budget(name)
    _check_stops(config)
    _check_together(config)
    check_vllm(config)
    credit.get(config.advantage_estimator)
    loss_config(config)
    check_schedule(config)


def check_reporting(config: TrainingArguments) -> None:
    """Refuse to report where nobody is: transformers would say so once the model is loaded.

    Raises:
        ValueError: The name in `report_to`, and the package that it needs.
    """
    for name in config.report_to or ():
        fault = reporting_fault(name)
        if fault is not None:
            raise ValueError(f"report_to={name!r} cannot work: {fault}")


def loss_config(config: StepPOConfig) -> LossConfig:
    """The part of the settings that the loss reads."""
    in_loss = config.kl_in == "loss"
    if config.beta and in_loss:
        check_loss_estimator(config.kl_estimator)
    if config.beta and not in_loss and config.kl_estimator != "k1":
        raise ValueError(
            "kl_in='reward' takes kl_estimator='k1' (its sum over a reply is the log-ratio), "
            f"got {config.kl_estimator!r}"
        )
    return LossConfig(
        ratio_level=config.importance_sampling_level,
        epsilon_low=config.epsilon,
        epsilon_high=config.upper_epsilon,
        dual_clip=config.dual_clip,
        beta=config.beta if in_loss else 0.0,
        kl_estimator="k3" if config.kl_estimator == "k1" else config.kl_estimator,
        entropy_coef=config.entropy_coef,
        value_clip=config.value_clip,
    )


def options(value: dict[str, Any] | str | None) -> dict[str, Any]:
    """A field of arguments as a dict; transformers has parsed JSON strings by the time that it is read.

    Raises:
        TypeError: If it is a string still, that is, no JSON object.
    """
    if isinstance(value, str):
        raise TypeError(f'expected a JSON object such as \'{{"split": "train"}}\', got the string {value!r}')
    return dict(value or {})


def check_schedule(config: StepPOConfig) -> None:
    """Check that the run ends and saves where a rollout's updates end.

    A checkpoint between two updates of the same rollout would have to hold the rollout. So checkpoints lie at multiples
    of `updates_per_rollout`; the default of `save_steps` is rounded up to one, another value is refused if it is none.

    Raises:
        ValueError: `max_steps`, `save_steps`, or with `load_best_model_at_end` `eval_steps`, is no multiple.
    """
    unit = config.updates_per_rollout
    if config.save_steps == _DEFAULT_SAVE_STEPS:
        config.save_steps = -(-_DEFAULT_SAVE_STEPS // unit) * unit
    checked = {"max_steps": config.max_steps if config.max_steps > 0 else None}
    if str(getattr(config.save_strategy, "value", config.save_strategy)) == "steps" and config.save_steps >= 1:
        checked["save_steps"] = int(config.save_steps)
    best = str(getattr(config.save_strategy, "value", config.save_strategy)) == "best"
    if (config.load_best_model_at_end or best) and config.eval_steps is not None and config.eval_steps >= 1:
        checked["eval_steps"] = int(config.eval_steps)
    for name, value in checked.items():
        if value is not None and value % unit:
            lower, upper = value // unit * unit, -(-value // unit) * unit
            nearest = f"{lower} or {upper}" if lower else f"{upper}"
            raise ValueError(
                f"{name}={value} must be a multiple of num_ppo_epochs * num_minibatches = {unit}, the optimizer steps "
                f"after each rollout; take {nearest}"
            )


def _check_stops(config: StepPOConfig) -> None:
    ids, strings = config.stop_token_ids, config.stop_strings
    if ids is not None and not all(type(token) is int for token in ids):
        raise ValueError(f"stop_token_ids must be a list of token ids or None, got {ids!r}")
    if strings is not None and not all(isinstance(string, str) and string for string in strings):
        raise ValueError(f"stop_strings must be a list of strings, none of them empty, or None, got {strings!r}")


def check_credit(config: StepPOConfig) -> None:
    """Refuse options that the estimator does not take, and settings with which it would teach nothing.

    Call it once JSON strings have been parsed.

    Raises:
        ValueError: The options, and those that there are; or the setting, and what to do instead.
    """
    estimator = credit.get(config.advantage_estimator)
    kwargs = options(config.advantage_kwargs)
    try:
        estimator.check(kwargs)
    except (TypeError, ValueError) as error:
        raise ValueError(f"advantage_kwargs={kwargs!r} does not fit: {error}") from error
    if config.critic_warmup_steps and not estimator.needs_values:
        raise ValueError(
            f"critic_warmup_steps={config.critic_warmup_steps} would keep the policy still for nothing: "
            f"{config.advantage_estimator!r} has no critic. Set it to 0"
        )
    if config.num_generations == 1 and estimator.needs_groups:
        raise ValueError(
            f"num_generations=1 leaves {config.advantage_estimator!r} nothing to compare an episode with: every "
            "advantage would be 0. Set it to 2 or more, such as 8"
        )


def _check_together(config: StepPOConfig) -> None:
    """Refuse settings that are fine by themselves and make no sense together."""
    if config.env_timeout is not None and config.env_workers not in ("threads", "processes"):
        raise ValueError(
            f"env_timeout={config.env_timeout:g} cannot be kept with env_workers={config.env_workers!r}: nobody is "
            "left to look at the clock while an environment works. Set env_workers='threads' or 'processes'"
        )
    if config.rollout_batch_size % config.num_generations:
        raise ValueError(
            f"rollout_batch_size={config.rollout_batch_size} must be a multiple of num_generations="
            f"{config.num_generations}: a rollout holds whole groups"
        )
    if config.eval_num_generations > 1 and config.eval_temperature == 0:
        raise ValueError(
            f"eval_num_generations={config.eval_num_generations} with eval_temperature=0 plays the same greedy episode "
            "again and again, so that pass@k says nothing: evaluate at a temperature above 0"
        )
    if config.loss_divisor is not None and config.loss_aggregation != "token_sum":
        raise ValueError(
            f"loss_divisor={config.loss_divisor} has no meaning with loss_aggregation={config.loss_aggregation!r}, "
            "which divides by what the batch holds: leave it out, or set loss_aggregation='token_sum'"
        )


@dataclass
class StepPOConfig(VLLMSettings, BaseConfig):
    r"""Settings of [`StepPOTrainer`]; a `transformers.TrainingArguments` with the fields below.

    One rollout collects `rollout_batch_size` episodes and is followed by exactly
    `updates_per_rollout = num_ppo_epochs * num_minibatches` optimizer steps, whatever the number of turns in it. Steps
    of the trainer (`max_steps`, `save_steps`, `logging_steps`, schedules) are optimizer steps.

    Differences from the defaults of `TrainingArguments`: `learning_rate` 1e-6, `logging_steps` 10; on a CPU neither
    bf16 nor activation checkpointing; `metric_for_best_model` is `eval_success`.

    The meaning of every field is in its `help` metadata and, grouped, in `docs/training.md`.
    """

    _VALID_DICT_FIELDS = BaseConfig._VALID_DICT_FIELDS + [
        "advantage_kwargs",
        "env_kwargs",
        "eval_env_kwargs",
        "chat_template_kwargs",
        "model_init_kwargs",
    ]

    # Environment
    env_kwargs: dict[str, Any] | str | None = setting(None, "Arguments of the training environment's constructor.")
    eval_env_kwargs: dict[str, Any] | str | None = setting(
        None, "Arguments of the evaluation environment's constructor."
    )
    recipe: Recipe = setting(
        "default",
        "Wrappers around an environment with plain text observations: 'default' (an action format and the chat "
        "history), 'tools' (tool calls, whose schemas go to the chat template, and the chat history), 'native' (the "
        "chat history; a reply is a command) or 'none'.",
    )
    task_sampler: str | None = setting(
        None, "Curriculum as 'module:factory'; see `TaskSampler`. None walks through shuffled epochs."
    )
    max_turns: Count | None = setting(None, "Most turns of an episode. None keeps the limit of the environment's spec.")
    rollout_concurrency: Count | None = setting(None, "Most episodes at a time on each process. None runs all at once.")
    env_workers: EnvWorkers | None = setting(
        None,
        "Where environments work: 'threads' (side by side as far as they wait for something), 'processes' (Python code "
        "side by side too, and one may crash) or 'inline' (one after another, in the process that trains). None: "
        "'threads' with vLLM's servers, else inline, and all episodes take their turns in step.",
    )
    max_env_workers: Count = setting(
        64, "Most threads or processes with environments on each process, and so most episodes at a time with them."
    )
    env_timeout: Positive | None = setting(
        None,
        "Seconds that a reset, a step or a close may take; a longer one costs its episode. It needs env_workers="
        "'threads' or 'processes'. None waits for ever.",
    )
    env_retries: NonNegativeInt = setting(
        0, "How often an episode whose environment failed is played again, in another environment and from its seeds."
    )
    env_failure: Literal["mask", "raise"] = setting(
        "mask",
        "Whether an episode that failed for good, or one of whose replies could not be had, is masked or ends the run. "
        "A flow of your own has a `FailurePolicy` instead.",
    )

    # Rollout
    rollout_batch_size: Count = setting(
        64, "Episodes collected before each round of updates, over all processes together."
    )
    num_generations: Count = setting(1, "Episodes of the same task in a rollout.")
    max_prompt_length: Count = setting(
        8192, "Longest prompt in tokens. An episode whose next prompt is longer stops; nothing is cut."
    )
    max_completion_length: Count = setting(1024, "Longest reply of one turn, in tokens.")
    temperature: Positive = setting(1.0, "Sampling temperature; ratios are taken at it too.")
    top_p: float = setting(1.0, "Nucleus sampling. Below 1 the trained ratios are biased; see the importance weights.")
    top_k: int = setting(0, "Sample among this many tokens; 0 keeps all.")
    stop_token_ids: list[int] | None = setting(
        None,
        "Ids that end a reply beside the tokenizer's end token, those of the model's generation_config and the one "
        "with which the chat template closes a turn (vLLM's name and meaning: they add to these). The one that was "
        "sampled is no part of the text that the environment gets.",
    )
    stop_strings: list[str] | None = setting(
        None,
        "Strings that end a reply at the sampled token which completes one, e.g. ['</search>', '</answer>']; they stay"
        " part of the reply. Those that an environment's action format asks for are added.",
    )
    generation_batch_rows: Count = setting(512, "Most replies decoded at once on a process.")
    generation_batch_tokens: Count | str | None = setting(
        None,
        "Most tokens decoded at once: replies times the longest prompt with the longest reply. Or the memory of their "
        "keys and values, such as '12GiB', or 'auto', two fifths of what is free. None: 'auto', or 262144 on a CPU.",
    )
    generation_cache_tokens: NonNegativeInt | str | None = setting(
        None,
        "Most tokens whose keys and values a process keeps from turn to turn of a rollout, so that prompts which grow "
        "by appending are not read again. 0 keeps none. Or their memory, or 'auto', two fifths of what is free. None: "
        "'auto', or 131072 on a CPU.",
    )
    history_thinking: Literal["keep", "strip"] = setting(
        "keep",
        "Whether thinking in earlier replies stays in the prompt. 'keep' lets the turns of an episode be trained as "
        "one sequence; 'strip' renders every prompt afresh.",
    )
    chat_template_kwargs: dict[str, Any] | str | None = setting(
        None, "Arguments of the chat template, e.g. {'enable_thinking': false}."
    )
    model_init_kwargs: dict[str, Any] | str | None = setting(
        None, "Arguments of `from_pretrained` when the model is given by name."
    )

    # Credit
    advantage_estimator: str = setting("step_gae", "Name of a registered advantage estimator.")
    advantage_kwargs: dict[str, Any] | str | None = setting(
        None, "Further arguments of the estimator, e.g. {'normalize_std': false} for grpo."
    )
    gamma: Share = setting(1.0, "Discount per step (turn); of token_gae per token.")
    lam: Share = setting(1.0, "Lambda of GAE over steps; of token_gae over tokens.")
    bootstrap: Literal["auto", "none", "value"] = setting(
        "auto",
        "Value after a truncated episode: 'auto' asks the critic only at limits foreign to the task, 'none' never, "
        "'value' at the turn limit too (with gamma 1 that lets stalling justify itself).",
    )
    step_anchor: Literal["state", "observation"] = setting(
        "state",
        "What gigpo takes for the same state within a group: 'state' (a hash of the environment's state, turn counters"
        " left out; of the observation where it has none) or 'observation' (what it said, before wrappers).",
    )
    whitening_scope: Literal["environment", "batch"] = setting(
        "environment", "Whether each environment of a mixture has its credit assigned (and whitened) by itself."
    )
    filter_zero_variance_groups: bool = setting(
        False, "Leave groups whose episodes all have the same return out of the update."
    )

    # Policy loss
    mask_truncated_completions: bool = setting(False, "Leave replies that ran out of tokens out of the policy loss.")
    mask_overlong_episodes: bool = setting(
        False,
        "Leave episodes that ended because the next prompt was too long out of the policy loss (overlong filtering).",
    )
    num_ppo_epochs: Count = setting(1, "Passes over each rollout.")
    num_minibatches: Count = setting(4, "Optimizer steps in each pass. The published runs take about one per turn.")
    importance_sampling_level: Literal["token", "sequence"] = setting(
        "sequence", "Policy ratio per token, or one (geometric mean) per reply."
    )
    epsilon: float = setting(0.2, "The ratio is clipped below 1 - epsilon.")
    epsilon_high: float | None = setting(None, "The ratio is clipped above 1 + epsilon_high. None takes epsilon.")
    dual_clip: float | None = setting(None, "Bound (above 1) on the ratio of negative advantages. None sets no bound.")
    loss_aggregation: Aggregation = setting(
        "step_mean", "How steps are weighted in the policy loss, that is, what it is the mean of."
    )
    loss_divisor: Positive | None = setting(
        None,
        "What 'token_sum' (Dr. GRPO) divides the sum over an episode's tokens by. None: max_completion_length times "
        "the turn limit.",
    )
    beta: NonNegative = setting(0.0, "Weight of the KL to the starting policy. 0 keeps no reference.")
    kl_estimator: Literal["k1", "k2", "k3"] = setting(
        "k3", "Estimator of the KL: k2 or k3 in the loss, k1 in the reward."
    )
    kl_in: Literal["loss", "reward"] = setting("loss", "Where the KL enters.")
    entropy_coef: NonNegative = setting(0.0, "Weight of an entropy bonus.")
    target_kl: Annotated[float, Bounds(above=0, at_most=math.inf)] | None = setting(
        None,
        "The policy skips the remaining updates of a rollout once its KL to the rollout's policy is above this.",
    )
    importance_sampling_correction: Literal["none", "token", "sequence"] | None = setting(
        None,
        "Truncated importance weights between the sampler's log-probabilities and the trainer's. None: 'token' with "
        "use_vllm, else 'none'.",
    )
    importance_sampling_cap: Annotated[float, Bounds(at_least=1, at_most=math.inf)] = setting(
        2.0, "Largest of those weights."
    )

    # Critic
    critic: Literal["value_head", "separate"] = setting(
        "value_head", "A linear head on the policy's trunk, or a copy of the policy with an optimizer of its own."
    )
    vf_coef: NonNegative = setting(0.5, "Weight of the value loss.")
    value_grad_to_trunk: Literal["full", "detach"] = setting(
        "full", "Whether the value head's gradient reaches the policy's trunk."
    )
    value_clip: float | None = setting(
        None, "Clip of the value around its old one, in deviations of the returns. None: no clip."
    )
    critic_learning_rate: Positive | None = setting(
        None, "Learning rate of the value head or critic. None: 10 times learning_rate."
    )
    critic_max_grad_norm: Annotated[float, Bounds(at_least=0, at_most=math.inf)] | None = setting(
        None, "Gradient clip of the value head or critic. None takes max_grad_norm."
    )
    critic_warmup_steps: NonNegativeInt = setting(
        0, "First optimizer steps in which only the critic learns; the policy stands still."
    )

    # Batching and robustness
    micro_batch_tokens: Count | str | None = setting(
        None,
        "Most tokens, padding included, in one forward pass. Or the memory of a forward and backward pass, such as "
        "'12GiB', or 'auto', what is free at the start. None: 'auto', or 4096 on a CPU.",
    )
    merge_steps: bool = setting(True, "Train turns whose prompt extends the previous one as one sequence.")
    max_skipped_updates: Count = setting(
        10, "Stop after this many updates in a row were skipped for a loss or gradient that is not finite."
    )
    max_masked_ratio: Share = setting(
        0.5,
        "Stop when a larger share of a rollout's or an evaluation's episodes failed and is masked: what is left is no "
        "fair sample. 1 goes on whatever fails.",
    )

    # Evaluation and logs
    eval_episodes: Count | None = setting(
        None, "Held-out tasks in an evaluation. None: all of the panel, or 100 without a panel."
    )
    eval_num_generations: Count = setting(
        1, "Episodes of each held-out task; above 1, pass@k is reported for k up to it."
    )
    eval_temperature: NonNegative | None = setting(
        None, "Temperature of the evaluation. None takes the one of training."
    )
    eval_greedy: bool = setting(False, "Evaluate greedily as well, as metrics `eval_greedy_...`.")
    entropy_steps: NonNegativeInt | None = setting(
        None,
        "Updates from one that measures the metric `entropy` to the next. None: those that are logged; 0: none, but "
        "with entropy_coef, where all do.",
    )
    log_completions: bool = setting(False, "Print a sample of episodes with every log, and keep tables in output_dir.")
    num_completions_to_print: int = setting(4, "Episodes in that sample.")

    # Other defaults than those of TrainingArguments
    learning_rate: NonNegative = setting(1e-6, "Learning rate of the policy.")
    eval_on_start: bool = setting(True, "Evaluate before the first update, if there is an evaluation environment.")
    activation_checkpointing: bool | None = setting(None, "Trade compute for memory. None: on, except on a CPU.")
    activation_offloading: bool = setting(
        False, "Keep what the backward pass needs of the trunk in the CPU's memory until then. Not on a CPU."
    )
    gradient_checkpointing: bool | None = setting(None, "Older name of activation_checkpointing.")
    remove_unused_columns: bool = setting(False, "Has no use here.")

    reward_scaling: InitVar[bool | None] = None  # no field: settings from before may hold it, and mean nothing by it

    def __post_init__(self, reward_scaling: bool | None) -> None:
        """Fill in what depends on the machine and refuse what cannot work.

        Args:
            reward_scaling: Has no effect any more; a warning says what happens instead.

        Raises:
            ValueError: A setting out of its range, or one that this trainer would silently ignore.
        """
        if reward_scaling is not None:
            logger.warning(
                "reward_scaling=%s has no effect any more, leave it out: rewards stay as they are, and a critic "
                "predicts returns less their running mean, divided by their running deviation",
                reward_scaling,
            )
        if torch.backends.mps.is_available() and not torch.cuda.is_available():
            self.use_cpu = True  # Apple's GPUs have no float64, which sampling and metrics need
        on_cpu = self.use_cpu or not torch.cuda.is_available()
        derived = {
            "bf16": False if on_cpu else None,
            "micro_batch_tokens": 4096 if on_cpu else "auto",
            "generation_batch_tokens": None if self.use_vllm else 262_144 if on_cpu else "auto",
            "generation_cache_tokens": None if self.use_vllm else 131_072 if on_cpu else "auto",
            "importance_sampling_correction": "token" if self.use_vllm else "none",
            "env_workers": "threads" if self.use_vllm and self.vllm_mode == "server" else None,
            "metric_for_best_model": "eval_success",
            "ddp_find_unused_parameters": False,  # every parameter takes part in every micro-batch
        }
        for name, value in derived.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        if self.activation_offloading and on_cpu:
            raise ValueError(
                "activation_offloading=True moves activations to the CPU, where this run has them: leave it out"
            )
        if self.activation_checkpointing is None and self.gradient_checkpointing is None:
            self.activation_checkpointing = not on_cpu
        # transformers would replace a NaN loss by the average of the others in the log, and go on.
        self.logging_nan_inf_filter = False
        check_config(self)
        super().__post_init__()
        check_reporting(self)
        check_credit(self)

    @classmethod
    def for_algorithm(cls, algorithm: str, output_dir: str | None = None, **overrides: Any) -> Self:
        """The settings of an algorithm; see [`~agent_r1_trainer.algorithms.ALGORITHMS`].

        Args:
            algorithm: Its name, such as `"grpo"`.
            output_dir: As for `StepPOConfig`.
            overrides: Any field; they win over those of the algorithm.

        Raises:
            ValueError: There is no such algorithm, or a setting cannot work.
        """
        from agent_r1_trainer.algorithms import algorithm_settings

        return cls(output_dir=output_dir, **algorithm_settings(algorithm, overrides))

    def budget(self, name: str) -> Budget:
        """A budget of tokens or memory, by the name of its field."""
        return Budget.read(name, getattr(self, name))

    @property
    def updates_per_rollout(self) -> int:
        """Optimizer steps after each rollout."""
        return self.num_ppo_epochs * self.num_minibatches

    @property
    def groups_per_rollout(self) -> int:
        """Different tasks in each rollout."""
        return self.rollout_batch_size // self.num_generations

    @property
    def uses_critic(self) -> bool:
        """Whether the advantage estimator reads values. If not, no critic is built, run or trained."""
        return credit.get(self.advantage_estimator).needs_values

    @property
    def anchors(self) -> Literal["state", "observation"] | None:
        """What episodes record as a step's state: `step_anchor`, or None for an estimator that does not ask for it."""
        return self.step_anchor if credit.get(self.advantage_estimator).needs_anchors else None

    @property
    def upper_epsilon(self) -> float:
        """The ratio is clipped above 1 plus this."""
        return self.epsilon if self.epsilon_high is None else self.epsilon_high

    @property
    def evaluation_temperature(self) -> float:
        """Temperature of the evaluation; 0 is greedy."""
        return self.temperature if self.eval_temperature is None else self.eval_temperature

    @property
    def critic_lr(self) -> float:
        """Learning rate of the value head or critic."""
        return 10 * self.learning_rate if self.critic_learning_rate is None else self.critic_learning_rate

    @property
    def critic_clip(self) -> float:
        """Largest gradient norm of the value head or critic; 0 does not clip."""
        return self.max_grad_norm if self.critic_max_grad_norm is None else self.critic_max_grad_norm
