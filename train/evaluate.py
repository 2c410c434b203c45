"""Recall@5 of a model file on a labelled set: lexical, semantic and fused.

`python evaluate.py MODEL CANDIDATES SET…` where CANDIDATES is the built example `candidates` and
SET a folder with `tools.jsonl`, `queries.jsonl` and `qrels.tsv`. Everything goes through the
reference, stored vectors included.
"""

from __future__ import annotations

import collections
import sys
from pathlib import Path
from typing import Any, Iterator

import numpy as np

import fusion as fs
import prepare as pp
import reference as rf


class Catalog:
    """A set with its tools' stored vectors."""

    def __init__(self, model: rf.Model, folder: Path):
        self.model = model
        self.tools = pp.read_lines(folder / "tools.jsonl")
        self.place = {identity(tool): at for at, tool in enumerate(self.tools)}
        pairs = [rf.stored(model.tool_vector(model.tool_tokens(tool))) for tool in self.tools]
        self.vectors = np.array([whole for whole, _ in pairs], np.float32)
        self.vectors *= np.array([scale for _, scale in pairs], np.float32)[:, None]

    def similarities(self, ids: list[int]) -> np.ndarray:
        """Of a query's tokens to every tool."""
        whole, scale = rf.stored(self.model.query_vector(ids))
        return self.vectors @ (whole.astype(np.float32) * scale)

    def shares(self, text: str) -> tuple[np.ndarray | None, float, float]:
        """The semantic shares of a query, its share of known words, and its highest similarity."""
        tokens, parts = self.model.query_tokens(text)
        if not tokens.ids:
            return None, 0.0, 0.0
        whole = self.similarities(tokens.ids)
        requests = [self.similarities(part) for part in parts]
        shares = fs.similarity(whole, requests, self.model.header["fusion"])
        return shares, tokens.share, float(max(whole.max(), *(r.max() for r in requests), 0.0))


def identity(tool: dict[str, Any]) -> str:
    """A tool's `id`, or what stands for it."""
    return tool.get("id") or (f"{tool['server']}/{tool['name']}" if tool.get("server") else tool["name"])


def queries(catalog: Catalog, folder: Path, binary: Path) -> Iterator[tuple[str, np.ndarray, set[int]]]:
    """Each labelled query with its lexical scores and relevant tools."""
    labels: dict[str, set[int]] = collections.defaultdict(set)
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, tool, *relevance = line.split("\t")
        if tool in catalog.place and float(relevance[0] if relevance else 1) > 0:
            labels[query].add(catalog.place[tool])
    texts = {query["id"]: query["query"] for query in pp.read_lines(folder / "queries.jsonl")}
    answers = pp.lexical_answers(binary, folder)
    numbers = np.array([catalog.place[name] for name in answers.pop(0)["tools"]])
    for answer in answers:
        if answer["id"] in labels:
            lexical = np.zeros(len(catalog.tools))
            for number, score in answer["hits"]:
                lexical[numbers[number]] = score
            yield texts[answer["id"]], lexical, labels[answer["id"]]


def recall(scores: np.ndarray, relevant: set[int], at: int = 5) -> float:
    """The share of relevant tools among the `at` best; what scores nothing is not there."""
    best = np.argsort(-scores, kind="stable")[:at]
    return sum(int(tool) in relevant and scores[tool] > 0 for tool in best) / len(relevant)


def measure(model: rf.Model, folder: Path, binary: Path, only=lambda text: True) -> tuple[int, list[float]]:
    """How many queries, and recall@5: lexical, semantic, fused."""
    catalog = Catalog(model, folder)
    found = []
    for text, lexical, relevant in queries(catalog, folder, binary):
        if only(text):
            shares, known, _ = catalog.shares(text)
            alone = shares if shares is not None else np.zeros(len(lexical))
            both = fs.fused(lexical, shares, known, model.header["fusion"])
            found.append([recall(scores, relevant) for scores in (lexical, alone, both)])
    return len(found), [round(100 * float(mean), 2) for mean in np.mean(found, 0)]


def main() -> None:
    model, binary = rf.read(Path(sys.argv[1])), Path(sys.argv[2])
    for folder in map(Path, sys.argv[3:]):
        count, figures = measure(model, folder, binary)
        print(f"{folder.name:16} {count:5} lexical {figures[0]:6.2f} semantic {figures[1]:6.2f} fused {figures[2]:6.2f}", flush=True)


if __name__ == "__main__":
    main()
