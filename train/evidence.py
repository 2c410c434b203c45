"""What is seen of the first hits of labelled queries, for fitting the second look and the confidence.

Sets are folders with `tools.jsonl`, `queries.jsonl` (with `id`, `query`, `kind` and `tools`, the identities of the right
ones) and `lexical.jsonl`, the output of the example `candidates`; `judged.py` makes them.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

import numpy as np

import actions as ac
import fusion as fs
import reference as rf

DEPTH = 40
"""So many hits of a query are kept."""

NAME_TOKENS, DESCRIPTION_TOKENS, SERVER_TOKENS, QUERY_TOKENS = 12, 16, 6, 24

SEEN = ("score", "whole", "text", "name", "name_length", "server", "worst", "lexical")
"""The columns of `Row.seen`."""

CUT = (6, 12, 25, 60)
"""Sizes of small catalogs that some queries are also asked in."""

VERBS = ac.Verbs()
NOTHING = [0.0] * len(ac.KINDS)


@dataclass
class Row:
    """One query in one catalog."""

    id: str
    kind: str
    """`set`, `short`, `contrast`, `absent`, `foreign_short`, `foreign_long`, or `removed` without its right tools."""
    is_cut: bool
    tools: int
    words: int
    parts: int
    known: float
    near: float
    far: float
    right: np.ndarray
    """Which of the first hits are right."""
    relevant: int
    seen: np.ndarray
    """Hits by `SEEN`."""
    wanted: np.ndarray
    is_plain: bool
    """Whether the query begins with a verb that leaves no doubt."""
    offered: np.ndarray
    """Hits by kinds of action."""


class Catalog:
    """The tools of a set as a model sees them."""

    def __init__(self, model: rf.Model, folder: Path):
        self.model = model
        tools = [json.loads(line) for line in (folder / "tools.jsonl").read_text(encoding="utf-8").splitlines()]
        self.place = {identity(tool): at for at, tool in reversed(list(enumerate(tools)))}
        self.tokens = [model.tool_tokens(tool) for tool in tools]
        self.vectors = np.array([model.tool_vector(fields) for fields in self.tokens], np.float32)
        self.offered = np.array([VERBS.of_tool(tool) or NOTHING for tool in tools], np.float32)
        front = model.table[:, : rf.FRONT].astype(np.float32) * model.front_units[:, None]
        self.front = front
        far, scales = model.background
        self.background = far.astype(np.float32) * scales[:, None]

    def __len__(self) -> int:
        return len(self.tokens)

    def nearest(self, query: np.ndarray, tokens: list[int]) -> np.ndarray:
        """For each token of the query how near the nearest of `tokens` is."""
        if not tokens or not len(query):
            return np.zeros(len(query), np.float32)
        return (query @ self.front[tokens].T).max(1)

    def row(self, query: dict[str, Any], lexical: np.ndarray, stays: np.ndarray, kind: str, is_cut: bool) -> Row:
        """What is seen when only the tools of `stays` are there."""
        tokens, parts = self.model.query_tokens(query["query"])
        known = tokens.share if tokens.ids else 0.0
        vectors = np.array([self.model.query_vector(ids) for ids in (tokens.ids, *parts)])
        similar = np.where(stays, vectors @ self.vectors.T, -1.0)
        lexical = np.where(stays, lexical, 0.0)
        settings = self.model.header["fusion"]
        shares = fs.similarity(similar[0], list(similar[1:]), settings) if tokens.ids else None
        scores = np.where(stays, fs.fused(lexical, shares, known, settings), -1.0)
        first = np.argsort(-scores, kind="stable")[: min(DEPTH, int(stays.sum()))]
        ids = tokens.ids[:QUERY_TOKENS]
        weights = self.model.query_weights[ids] / max(float(self.model.query_weights[ids].sum()), 1e-9)
        seen = np.array([self.seen(int(at), scores, similar[0], lexical, self.front[ids], weights) for at in first], np.float32)
        wanted, is_plain = VERBS.of_query(query["query"]) or (NOTHING, False)
        right = {self.place[tool] for tool in query.get("tools") or [] if tool in self.place and stays[self.place[tool]]}
        return Row(
            id=query["id"],
            kind=kind,
            is_cut=is_cut,
            tools=int(stays.sum()),
            words=len(query["query"].split()),
            parts=len(parts),
            known=known,
            near=fs.mean_of_best(similar.max(0)[stays]),
            far=fs.mean_of_best((vectors @ self.background.T).max(0)),
            right=np.array([int(at) in right for at in first]),
            relevant=len(right),
            seen=seen.reshape(-1, len(SEEN)),
            wanted=np.array(wanted, np.float32),
            is_plain=is_plain,
            offered=self.offered[first],
        )

    def seen(self, at: int, scores, whole, lexical, query: np.ndarray, weights: np.ndarray) -> list[float]:
        """The columns of one hit."""
        names, descriptions, _, _, servers, _ = self.tokens[at]
        name = self.nearest(query, names[:NAME_TOKENS])
        text = np.maximum(name, self.nearest(query, descriptions[:DESCRIPTION_TOKENS]))
        server = self.nearest(query, servers[:SERVER_TOKENS])
        worst = float((weights * (1 - text)).max() / weights.max()) if len(weights) else 0.0
        sums = [float((weights * each).sum()) for each in (text, name)]
        length = min(len(names), NAME_TOKENS) / 10
        return [scores[at], whole[at], *sums, length, float((weights * server).sum()), worst, lexical[at]]


def identity(tool: dict[str, Any]) -> str:
    """The identity that the engine gives a tool."""
    return tool.get("id") or (f"{tool['server']}/{tool['name']}" if tool.get("server") else tool["name"])


def rows(model: rf.Model, folder: Path, author: str | None = None) -> Iterator[Row]:
    """All queries of a set, or those of one author and of no author; some also without their right tools, or in
    small catalogs."""
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    answers = [json.loads(line) for line in (folder / "lexical.jsonl").read_text(encoding="utf-8").splitlines()]
    if author is not None:
        queries = [query for query in queries if query["id"].startswith(f"{author}-") or "!" in query["id"]]
        if all("!" in query["id"] for query in queries):
            return
    catalog = Catalog(model, folder)
    named = np.array([catalog.place[tool] for tool in answers[0]["tools"]])
    hits = {answer["id"]: answer["hits"] for answer in answers[1:]}
    chance = random.Random(7)
    everything = np.ones(len(catalog), bool)
    for query in queries:
        lexical = np.zeros(len(catalog), np.float32)
        for number, score in hits[query["id"]]:
            lexical[named[number]] = score
        right = [catalog.place[tool] for tool in query.get("tools") or [] if tool in catalog.place]
        yield catalog.row(query, lexical, everything, query["kind"], False)
        if right and chance.random() < 0.5:
            stays = everything.copy()
            stays[right] = False
            yield catalog.row(query, lexical, stays, "removed", False)
        size = chance.choice(CUT)
        if query["kind"] != "absent" and size < len(catalog) and chance.random() < (0.25 if right else 0.6):
            stays = np.zeros(len(catalog), bool)
            stays[chance.sample(range(len(catalog)), size)] = True
            stays[right] = True
            yield catalog.row(query, lexical, stays, query["kind"], True)
