"""`agent-r1 bench` with vLLM's engine plays what it plays with transformers."""

from __future__ import annotations

import subprocess
import sys

from agent_r1_trainer.bench.episode import read_log
from agent_r1_trainer.prompts.context_settings import ContextSettings
from agent_r1_trainer.tiny_policy import TinyArchitecture, build_model
from agent_r1_trainer.tiny_policy.hotpotqa.demonstrations import environment_words
from agent_r1_trainer.tiny_policy.loading import save_tiny_policy
from agent_r1_trainer.tiny_policy.tokenizer import build_tokenizer


def test_greedy_episodes_are_those_of_transformers(tmp_path):
    """Heads of 32 features, which is the least that vLLM's attention on a CPU takes; in processes of their own."""
    tokenizer = build_tokenizer(environment_words())
    save_tiny_policy(build_model(TinyArchitecture(heads=2), tokenizer, seed=0), tokenizer, tmp_path / "model")
    ContextSettings(recipe="native").save(tmp_path / "model")
    found = {}
    for kind in ("hf", "vllm"):
        options = ["--env", "AgentR1/HotpotQA-v0", "--episodes", "6", "--max-tokens", "12", "--max-turns", "2"]
        command = [sys.executable, "-m", "agent_r1_trainer", "bench", *options, "--agent", f"{kind}:{tmp_path}/model"]
        done = subprocess.run([*command, "--out", str(tmp_path / kind)], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
        records = read_log(tmp_path / kind / "episodes.jsonl")
        found[kind] = [(r.episode, r.task_id, r.reward, r.stop, [turn.action for turn in r.steps]) for r in records]
    assert len(found["hf"]) == 6 and found["vllm"] == found["hf"]
