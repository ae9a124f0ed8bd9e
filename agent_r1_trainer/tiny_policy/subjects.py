"""What tiny policies are made for, and all that differs between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agent_r1_trainer.tiny_policy import hotpotqa, household
from agent_r1_trainer.tiny_policy.architecture import TinyArchitecture
from agent_r1_trainer.tiny_policy.cloning import CloningConfig, Teach
from agent_r1_trainer.tiny_policy.tokenizer import COMMANDS

__all__ = ["SUBJECTS", "Subject"]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a tiny policy is made for.

    Attributes:
        model: What settings of a run call the shipped policy.
        folder: Its package; the checkpoint lies in it.
        words: Gives every word of the environment.
        commands: Names of commands that a bracket follows without a space.
        architecture: Sizes of the model.
        cloning: Settings of the cloning.
        teach: Gives its demonstrations.
        measure: Called with model and tokenizer; returns a dataclass of shares.
    """

    model: str
    folder: Path
    words: Callable[[], Sequence[str]]
    commands: Sequence[str]
    architecture: TinyArchitecture
    cloning: CloningConfig
    teach: Teach
    measure: Callable[[Any, Any], Any]

    @property
    def checkpoint(self) -> Path:
        """Folder of the shipped checkpoint."""
        return self.folder / "checkpoint"


SUBJECTS: Final = {
    "hotpotqa": Subject(
        model="tiny",
        folder=Path(hotpotqa.__file__).parent,
        words=hotpotqa.environment_words,
        commands=COMMANDS,
        architecture=TinyArchitecture(),
        cloning=CloningConfig(),
        teach=hotpotqa.teach,
        measure=hotpotqa.measure_quality,
    ),
    "household": Subject(
        model="tiny-household",
        folder=Path(household.__file__).parent,
        words=household.environment_words,
        commands=(),
        architecture=TinyArchitecture(layers=2, feed_forward_size=128),
        cloning=CloningConfig(
            copy_steps=250, expert_steps=1500, habit_steps=80, batch_size=12, pool=8, muon_learning_rate=0.02
        ),
        teach=household.teach,
        measure=household.measure_quality,
    ),
}
"""By the name that `python -m agent_r1_trainer.tiny_policy` takes."""
