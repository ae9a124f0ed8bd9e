"""The web application: the Graph API's addresses over a corpus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent_r1_envs.paper_search.backends.corpus import Corpus
from agent_r1_envs.paper_search.service import replies

PREFIX: Final = "/graph/v1"


def make_app(corpus: Corpus) -> Starlette:
    """Return the application.

    ``GET /graph/v1/paper/search``, ``/paper/{id}``, ``/paper/{id}/citations`` and ``/paper/{id}/references``, with the
    parameters and the form of the replies that the client of this package relies on.
    """

    def answer(make: Callable[[Request], dict[str, Any] | None]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            try:
                body = make(request)
            except replies.BadRequest as error:
                return JSONResponse({"error": str(error)}, status_code=400)
            if body is None:
                return JSONResponse({"error": f"Paper with id {request.path_params['name']} not found"}, 404)
            return JSONResponse(body)

        return endpoint

    def neighbours(citing: bool) -> Callable[[Request], dict[str, Any] | None]:
        return lambda r: replies.neighbours(corpus, r.path_params["name"], r.query_params, citing=citing)

    return Starlette(
        routes=[
            Route(f"{PREFIX}/paper/search", answer(lambda r: replies.search(corpus, r.query_params))),
            Route(f"{PREFIX}/paper/{{name:path}}/citations", answer(neighbours(citing=True))),
            Route(f"{PREFIX}/paper/{{name:path}}/references", answer(neighbours(citing=False))),
            Route(
                f"{PREFIX}/paper/{{name:path}}",
                answer(lambda r: replies.paper(corpus, r.path_params["name"], r.query_params)),
            ),
        ]
    )
