"""``agent-r1 serve``: local services that speak the APIs of live ones."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from agent_r1_envs.paper_search.backends.corpus import Corpus
from agent_r1_envs.paper_search.embedded import embedded_backend
from agent_r1_envs.paper_search.loading import load_corpus

__all__ = ["serve_papers"]


def serve_papers(corpus: Path | None, host: str, port: int) -> int:
    """Serve a corpus until the process is stopped.

    Args:
        corpus: A corpus file or a saved corpus; None for the embedded one.
        host: Address to listen at.
        port: Port to listen at; 0 for a free one.

    Returns:
        The exit status: 0 after an interrupt, 2 for arguments that do not work.
    """
    say = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        import uvicorn

        from agent_r1_envs.paper_search.service.app import PREFIX, make_app
    except ModuleNotFoundError as error:
        say.print(f"agent-r1 serve needs {error.name}: pip install 'agent-r1[serve]'", style="red", markup=False)
        return 2
    try:
        papers: Corpus = embedded_backend().corpus if corpus is None else load_corpus(corpus)
    except (ValueError, ImportError, OSError) as error:
        say.print(f"agent-r1 serve: {error}", style="red", markup=False)
        return 2
    config = uvicorn.Config(make_app(papers), host=host, port=port, log_level="warning")
    try:
        socket = config.bind_socket()
    except (OSError, SystemExit) as error:
        say.print(f"agent-r1 serve: cannot listen at {host}:{port}: {error}", style="red", markup=False)
        return 2
    address = f"http://{host}:{socket.getsockname()[1]}{PREFIX}"
    say.print(f"{len(papers):,} papers at {address}; stop with Ctrl-C", markup=False)
    try:
        uvicorn.Server(config).run(sockets=[socket])
    except KeyboardInterrupt:
        pass
    return 0
