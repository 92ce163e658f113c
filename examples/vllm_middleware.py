"""vLLM: every request in a running gpuwhy trace, from its arrival to its last byte, and how long its first token took.

    gpuwhy trace --annotate --servers &
    PYTHONPATH=examples:python vllm serve MODEL --middleware vllm_middleware.AnnotateRequests

Requests are marked in the server's process; the GPU calls are those of the engine it starts. A finding of the engine names
the requests of the server. Any other ASGI server (FastAPI, Starlette) takes the same class.
"""

import itertools

from gpuwhy_annotate import request, span

# What generates; health checks and metrics are not marked.
PATHS = ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/generate")


class AnnotateRequests:
    def __init__(self, app):
        self.app = app
        self.numbers = itertools.count(1)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["path"] not in PATHS:
            return await self.app(scope, receive, send)
        id = self.id_of(scope)
        with request(id, path=scope["path"]), span("first_token", id) as first_token:

            async def send_and_look(message):
                if message["type"] == "http.response.body" and message.get("body"):
                    first_token.end()
                await send(message)

            await self.app(scope, receive, send_and_look)

    def id_of(self, scope):
        for name, value in scope.get("headers", ()):
            if name.lower() == b"x-request-id":
                return value.decode("latin-1")
        return str(next(self.numbers))
