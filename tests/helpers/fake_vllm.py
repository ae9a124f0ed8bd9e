"""A server with the JSON of `vllm serve`, which answers by `TransformersGenerator`, and fails on demand.

What it takes and gives was written down from vLLM 0.31; `tests/vllm_cpu` runs the same contract against the real one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import torch
from safetensors.torch import load_file

from agent_r1_trainer.generation import Generation, SamplingParams, TransformersGenerator

HANG_UP = object()
"""What a fault returns to close the connection without an answer."""
Fault = Callable[[dict[str, Any]], Any]


class FakeVLLM(ThreadingHTTPServer):
    """The server.

    Attributes:
        faults: Each is given the answer of one request for a reply, and returns another one, a status, or `HANG_UP`.
        model: Holds the weights.
        requests: Paths, with what was posted.
        answered: Replies that were sampled.
        config: What `/server_info` says.
        refused: What is said, with a status of 500, instead of doing what a path asks for.
        received: What comes over NCCL, given its description: named tensors.
        down: Whether connections are closed without an answer.
        spoiled: Threads whose answers a fault has, so that they count as such, whatever else befalls them.
        cut: Other requests for replies that met with a closed connection, because the server was down or began again.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, make_model: Callable[[], Any], tokenizer: Any, **config: Any) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._make_model, self.tokenizer = make_model, tokenizer
        self.config = {"max_model_len": 256, "dtype": "float32", "logprobs_mode": "processed_logprobs"} | config
        self.version = "0.31.0"
        self.dev_mode = True
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, Any]] = []
        self.answered = 0
        self.refused: dict[str, str] = {}
        self.received: Callable[[dict[str, Any]], Iterator[tuple[str, torch.Tensor]]] | None = None
        self.down = False
        self.boots = 0
        self.cut = 0
        self.spoiled: set[int] = set()
        self._lock = threading.RLock()
        self.restart()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def restart(self) -> None:
        """Begin again with the weights that it was started with; all connections are lost."""
        self.boots += 1
        self.model = self._make_model().eval()
        self.adapters: dict[str, Any] = {}
        self.weight_version = "default"
        self.paused = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""

    def get(self, path: str, query: dict[str, list[str]]) -> Any:
        match path:
            case "/health":
                return {}
            case "/version":
                return {"version": self.version}
            case "/v1/models":
                return {"data": [{"id": "served", "max_model_len": self.config["max_model_len"]}]}
            case "/server_info" if self.dev_mode and query.get("config_format") == ["json"]:
                return {
                    "vllm_config": {
                        "model_config": {**self.config, "dtype": f"torch.{self.config['dtype']}"},
                        "parallel_config": {"world_size": 1, "data_parallel_size": 1},
                        "lora_config": {"max_lora_rank": 16} if self.config.get("adapters") else None,
                        "weight_transfer_config": (
                            {"backend": self.config["transfer"]} if self.config.get("transfer") else None
                        ),
                    }
                }
            case "/weight_info" if self.dev_mode:
                return {"weight_version": self.weight_version}
            case "/get_world_size" if self.dev_mode:
                return {"world_size": 1}
        return 404

    def post(self, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> Any:
        if path in self.refused:
            return 500, {"error": {"message": self.refused[path]}}
        match path:
            case "/v1/completions":
                with self._lock:
                    answer = self._complete(body)
                asked_for_reply = isinstance(answer, dict) and body.get("prompt_logprobs") is None
                return self.faults.pop(0)(answer) if asked_for_reply and self.faults else answer
            case "/pause" | "/resume":
                self.paused = path == "/pause"
                return {"status": path}
            case "/reset_prefix_cache":
                return {"success": True}
            case "/update_weight_version":
                self.weight_version = body["new_version"]
                return {"success": True, "new_version": self.weight_version}
            case "/collective_rpc" if body["method"] == "reload_weights":
                folder = Path(body["kwargs"]["weights_path"])
                if not folder.is_dir():
                    return 500, {"error": {"message": f"{folder} is no folder"}}
                tensors = {k: v for file in folder.glob("*.safetensors") for k, v in load_file(file).items()}
                self._load(tensors)
                return {"results": [None]}
            case "/init_weight_transfer_engine":
                return {"message": "Weight transfer initialized"}
            case "/start_weight_update" | "/finish_weight_update":
                return {"message": path}
            case "/update_weights":
                assert self.received is not None
                tensors = dict(self.received(body["update_info"]))
                assert list(tensors) == body["update_info"]["names"]
                self._load(tensors)
                return {"message": "Weights updated"}
            case "/v1/load_lora_adapter":
                from peft import PeftModel

                if not Path(body["lora_path"]).is_dir():
                    return 404, {"error": {"message": f"No adapter found for {body['lora_path']}"}}
                base = self._make_model()
                base.load_state_dict(self.model.state_dict())
                self.adapters[body["lora_name"]] = PeftModel.from_pretrained(base, body["lora_path"]).eval()
                return None
            case "/v1/unload_lora_adapter":
                return None if self.adapters.pop(body["lora_name"], None) is not None else 404
        return 404

    def _load(self, tensors: dict[str, torch.Tensor]) -> None:
        own = dict(self.model.named_parameters())
        assert tensors.keys() == own.keys()
        with self._lock, torch.no_grad():
            for name, tensor in tensors.items():
                own[name].copy_(tensor)

    def _complete(self, body: dict[str, Any]) -> Any:
        vocabulary = self.model.config.vocab_size
        if any(int(token) >= vocabulary for token in body.get("logit_bias") or {}):
            text = f"token_id(s) in logit_bias contain out-of-vocab token ids. Vocabulary size: {vocabulary}"
            return 400, {"error": {"message": text}}
        if body["model"] != "served" and body["model"] not in self.adapters:
            return 404, {"error": {"message": f"The model `{body['model']}` does not exist."}}
        model = self.adapters.get(body["model"], self.model)
        prompt = body["prompt"]
        if len(prompt) + body["max_tokens"] > self.config["max_model_len"]:
            return 400, {"error": {"message": "This model's maximum context length is exceeded"}}
        sampling = SamplingParams(
            body["max_tokens"],
            tuple(body.get("stop_token_ids", ())),
            body.get("temperature", 1.0),
            body.get("top_p", 1.0),
            max(body.get("top_k", 0), 0),
            tuple(body.get("stop", ())),
        )
        generator = TransformersGenerator(model, pad_token_id=0, tokenizer=self.tokenizer)
        (reply,) = generator.generate([prompt], sampling, [body.get("seed", 0)])
        answer = {"model": body["model"], "choices": [self._choice(reply)]}
        if body.get("prompt_logprobs") is not None:
            with torch.no_grad():
                logps = model(torch.tensor([prompt])).logits[0].log_softmax(-1)
            rows = [{str(token): {"logprob": float(logps[i, token])}} for i, token in enumerate(prompt[1:])]
            answer["choices"][0]["prompt_logprobs"] = [None, *rows]
            return answer
        self.answered += 1
        return answer

    def _choice(self, reply: Generation) -> dict[str, Any]:
        return {
            "index": 0,
            "text": "",
            "token_ids": reply.ids,
            "logprobs": {
                "token_logprobs": reply.logprobs,
                "tokens": [f"token_id:{token}" for token in reply.ids],
                "top_logprobs": [None] * len(reply.ids),
                "text_offset": [0] * len(reply.ids),
            },
            "finish_reason": reply.finish,
            "stop_reason": None,
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeVLLM

    def setup(self) -> None:
        super().setup()
        self.boot = self.server.boots

    def do_GET(self) -> None:
        self._answer(lambda path, query: self.server.get(path, query))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or "{}")
        self.server.requests.append((urlsplit(self.path).path, body))
        self._answer(lambda path, query: self.server.post(path, query, body))

    def _answer(self, answer: Callable[[str, dict[str, list[str]]], Any]) -> None:
        parts = urlsplit(self.path)
        gone = self.server.down or self.boot != self.server.boots
        said = HANG_UP if gone else answer(parts.path, parse_qs(parts.query))
        lost = self.server.down or self.boot != self.server.boots
        spoiled = threading.get_ident() in self.server.spoiled
        self.server.spoiled.discard(threading.get_ident())
        if said is HANG_UP or lost:
            whole = gone or not (spoiled or said is HANG_UP)
            self.server.cut += parts.path == "/v1/completions" and whole
            self.close_connection = True
            return
        status, content = said if isinstance(said, tuple) else (said, {}) if isinstance(said, int) else (200, said)
        data = b"Success" if content is None else json.dumps(content).encode()  # NaN stays what it is
        try:
            self.send_response(status)
            self.send_header("content-type", "text/plain" if content is None else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            pass  # the client has given up, as some tests want

    def log_message(self, *_: Any) -> None:
        pass


def status(code: int) -> Fault:
    """Answer with an error instead."""
    return lambda answer: (code, {"error": {"message": "broken on purpose"}})


def hang_up(answer: dict[str, Any]) -> Any:
    """Close the connection instead of answering."""
    return HANG_UP


def late(seconds: float) -> Fault:
    """Answer later."""

    def fault(answer: dict[str, Any]) -> Any:
        time.sleep(seconds)
        return answer

    return fault


def logprobs(value: Any) -> Fault:
    """Put something else in the place of the log-probabilities, or of the last one."""

    def fault(answer: dict[str, Any]) -> Any:
        found = answer["choices"][0]["logprobs"]
        found["token_logprobs"] = None if value is None else [*found["token_logprobs"][:-1], value]
        return answer

    return fault


def changed(**choice: Any) -> Fault:
    """Change fields of the answer's choice, or of the answer itself with `model`."""

    def fault(answer: dict[str, Any]) -> Any:
        for name, value in choice.items():
            (answer if name == "model" else answer["choices"][0])[name] = value
        return answer

    return fault


@contextmanager
def serving(*servers: FakeVLLM) -> Iterator[None]:
    """Serve for the length of the block."""
    threads = [threading.Thread(target=s.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True) for s in servers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()
