"""Train a small model in this process and print how much memory it took: `python -m tests.helpers.memory_run JSON`."""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
from dataclasses import replace
from typing import Any


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def peak() -> int:
    """The most there was. `ru_maxrss` will not do: it begins with what the process had that started this one."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) * 1024


def main(case: dict[str, Any]) -> int:
    """Bytes at the peak, above those before the model was built."""
    import torch
    from transformers import PrinterCallback, Qwen2Config, Qwen2ForCausalLM

    from agent_r1_trainer import StepPOConfig, StepPOTrainer
    from agent_r1_trainer.flows import AgentFlowBase, FlowTimes
    from agent_r1_trainer.trajectory import Step, StopReason, Trajectory
    from tests.helpers.training import make_model, make_tokenizer

    rng = random.Random(0)
    prompt, reply = case["prompt"], case["reply"]

    class Given(AgentFlowBase):
        def __init__(self) -> None:
            self.times = FlowTimes()

        def run(self, assignments: Any, *args: Any, **kwargs: Any) -> list[Trajectory]:
            made = []
            for a in assignments:
                ids, said = ([rng.randrange(3, 500) for _ in range(n)] for n in (prompt, reply))
                one = Trajectory("", [Step(ids, said, reward=rng.random(), terminated=True)], StopReason.TERMINATED)
                made.append(replace(one, group=a.group, sample=a.sample))
            return made

    torch.set_num_threads(1)
    make_model()(torch.zeros(1, 1, dtype=torch.long))  # what the first pass of any model sets up
    before = resident()
    with tempfile.TemporaryDirectory() as folder:
        config = StepPOConfig(
            folder, max_steps=2, num_minibatches=1, rollout_batch_size=case["episodes"], logging_steps=100,
            use_cpu=True, save_strategy="no", eval_on_start=False, report_to=[], disable_tqdm=True,
            max_prompt_length=prompt, max_completion_length=reply, **case["settings"],
        )  # fmt: skip
        trainer = StepPOTrainer(
            Qwen2ForCausalLM(Qwen2Config(**case["model"])), config, flow=Given(), processing_class=make_tokenizer()
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return peak() - before


if __name__ == "__main__":
    print(main(json.loads(sys.argv[1])))
