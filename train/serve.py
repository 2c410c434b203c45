"""An OpenAI-compatible `/v1/embeddings` on the untuned MiniLM, to measure external vectors with.

`python serve.py MINILM [PORT]` where MINILM is the folder of the model. Then, for instance,
`pegboard eval SET --embeddings http://127.0.0.1:PORT/v1 --embeddings-model all-MiniLM-L6-v2`.
It refuses what real endpoints refuse. One request at a time is embedded, on any number of connections.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch

from teacher import Encoder

NAME = "all-MiniLM-L6-v2"
MAX_INPUTS = 256
TOKENS = 128


class Refusal(Exception):
    """What is answered instead of vectors: a status and a text."""


def answer(encoder: Encoder, body: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request."""
    if body.get("model") != NAME:
        raise Refusal(404, f"the model {body.get('model')!r} does not exist")
    texts = body.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise Refusal(400, "input must be texts, none of them empty")
    if len(texts) > MAX_INPUTS:
        raise Refusal(400, f"at most {MAX_INPUTS} inputs are taken")
    vectors = encoder.encode(encoder.tokens(texts, TOKENS), batch=64).tolist()
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    return {"object": "list", "model": NAME, "data": data}


class Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    protocol_version = "HTTP/1.1"
    encoder: Encoder
    turn = threading.Lock()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            if self.path != "/v1/embeddings":
                raise Refusal(404, "there is nothing here")
            asked = json.loads(body)
            with self.turn:
                status, reply = 200, answer(self.encoder, asked)
        except Refusal as refusal:
            status, reply = refusal.args[0], {"error": {"message": refusal.args[1]}}
        except ValueError:
            status, reply = 400, {"error": {"message": "the body is not JSON"}}
        text = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    Handler.encoder = Encoder(Path(sys.argv[1]), device)
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 8090
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
