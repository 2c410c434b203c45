"""Catalogs of many sizes, each with queries that it answers and queries of other families.

They are cut from the labelled sets, because what a similarity means depends on how many tools
there are to be similar to, and people have ten tools as well as thousands.
"""

from __future__ import annotations

import collections
import json
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

import numpy as np

import prepare as pp

WHOLE = 0
"""Stands for the size of a catalog that is not cut."""


@dataclass(frozen=True)
class Cut:
    """How many catalogs of one size are made, with how many queries."""

    tools: int
    count: int
    own: int
    others: int
    """From each other family."""


CUTS = (
    Cut(WHOLE, 1, 1_000_000, 120),
    Cut(1000, 2, 250, 40),
    Cut(250, 2, 250, 40),
    Cut(60, 2, 250, 40),
    Cut(25, 5, 80, 16),
    Cut(12, 5, 80, 16),
)

SEED = 17


@dataclass
class Case:
    """A catalog and the queries put to it."""

    family: str
    size: int
    """As asked for by the cut."""
    tools: np.ndarray
    """Numbers of the tools in the family's set."""
    texts: list[str]
    families: np.ndarray
    """Where each query comes from."""
    lexical: np.ndarray
    """Queries by tools."""
    relevant: np.ndarray
    """Queries by tools, nothing in the rows of other families."""


class Family:
    """A labelled set as it lies on disk."""

    def __init__(self, data: Path, name: str):
        self.name = name
        self.tools: list[dict[str, Any]] = pp.read_lines(data / name / "tools.jsonl")
        self.place = {tool["id"]: at for at, tool in enumerate(self.tools)}
        self.queries = {query["id"]: query["query"] for query in pp.read_lines(data / name / "queries.jsonl")}
        self.labels: dict[str, set[int]] = collections.defaultdict(set)
        for line in (data / name / "qrels.tsv").read_text(encoding="utf-8").splitlines():
            query, tool, *relevance = line.split("\t")
            if tool in self.place and float(relevance[0] if relevance else 1) > 0:
                self.labels[query].add(self.place[tool])


def cut_tools(family: Family, size: int, chance: random.Random) -> list[int]:
    """Tools of which about three fifths answer some queries in full."""
    if size == WHOLE:
        return list(range(len(family.tools)))
    wanted = list(family.labels)
    chance.shuffle(wanted)
    chosen: set[int] = set()
    for query in wanted:
        if len(chosen | family.labels[query]) <= 0.6 * size:
            chosen |= family.labels[query]
    rest = [number for number in range(len(family.tools)) if number not in chosen]
    chance.shuffle(rest)
    return sorted(chosen | set(rest[: size - len(chosen)]))


def cases(families: dict[str, Family], asked_by: list[str], binary: Path) -> Iterator[Case]:
    """All catalogs of `families`; queries of others are taken from the families `asked_by`."""
    for family in families.values():
        chance = random.Random(f"{SEED} {family.name}")
        for cut in CUTS:
            if cut.tools > 0.8 * len(family.tools):
                continue
            for _ in range(cut.count):
                yield case(family, cut, [families[name] for name in asked_by if name != family.name], chance, binary)


def case(family: Family, cut: Cut, others: list[Family], chance: random.Random, binary: Path) -> Case:
    """One catalog, ranked by the lexical ranker."""
    numbers = cut_tools(family, cut.tools, chance)
    there = set(numbers)
    own = [query for query, relevant in family.labels.items() if relevant <= there]
    own = chance.sample(own, min(cut.own, len(own)))
    asked = [(family.name, query, family.queries[query]) for query in own]
    for other in others:
        some = chance.sample(sorted(other.labels), min(cut.others, len(other.labels)))
        asked += [(other.name, query, other.queries[query]) for query in some]
    relevant = np.zeros((len(asked), len(numbers)), bool)
    place = {number: at for at, number in enumerate(numbers)}
    for row, query in enumerate(own):
        relevant[row, [place[number] for number in family.labels[query]]] = True
    texts = [text for _, _, text in asked]
    names = np.array([name for name, _, _ in asked])
    lexical = lexical_scores([family.tools[number] for number in numbers], texts, binary)
    return Case(family.name, cut.tools, np.array(numbers), texts, names, lexical, relevant)


def lexical_scores(tools: list[dict[str, Any]], texts: list[str], binary: Path) -> np.ndarray:
    """Queries by tools."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        queries = [{"id": str(row), "query": text} for row, text in enumerate(texts)]
        for file, lines in (("tools.jsonl", tools), ("queries.jsonl", queries)):
            (folder / file).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        answers = pp.lexical_answers(binary, folder)
    place = {tool["id"]: at for at, tool in enumerate(tools)}
    ours = np.array([place[identity] for identity in answers.pop(0)["tools"]])
    scores = np.zeros((len(texts), len(tools)), np.float32)
    for row, answer in enumerate(answers):
        for number, score in answer["hits"]:
            scores[row, ours[number]] = score
    return scores
