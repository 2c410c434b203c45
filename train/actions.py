"""What a query wants done, and what a tool does, by the verbs of `crates/pegboard-engine/src/actions/verbs.txt`.

This is the definition that the engine's `actions` follows. Only the standard library is used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

KINDS = (
    "list read search count create change delete send run stop start move copy download upload".split()
)
"""The kinds of action."""

READING = ("list", "read", "search", "count", "download", "run")
"""What a tool can do that changes nothing."""

DESCRIPTION_CHARS = 160
DESCRIPTION_WORDS = 8
"""So much of a description is looked at."""

NAME_SHARE = 0.65
"""How much the verb of a name counts beside that of the description."""

KEPT_BY_READ_ONLY = 0.15
"""What is left of other kinds where a tool says that it changes nothing."""

MAX_GAP = 5
"""The particle of a verb comes at most so many words after it."""

METHODS = {
    "get": {"read": 0.5, "list": 0.5},
    "post": {"create": 0.6, "send": 0.2, "run": 0.2},
    "put": {"change": 1.0},
    "patch": {"change": 1.0},
    "delete": {"delete": 1.0},
}
"""HTTP methods that begin a generated name."""

POLITE = frozenset(
    "please can could you i want need to would like let us me my the a an we should help kindly".split()
)
"""Words before the verb of a query."""

PLAIN = frozenset(
    "delete erase purge create insert new update edit change modify rename"
    " list show get read view display fetch search find".split()
)
"""Verbs that leave no doubt about what is to be done when a query begins with them."""

LOOKING = ("list", "read", "search", "count", "download")
"""Kinds that come back with what is there."""

CLASH = 0.15
"""Kinds have so little in common when they clash."""

WRITES = 0.3
"""A tool that looks at things less than this writes."""

VERBS = Path(__file__).resolve().parent.parent / "crates/pegboard-engine/src/actions/verbs.txt"

Kinds = list[float]


def stem(word: str) -> str:
    """A verb without its ending; good enough to find it in the list."""
    if len(word) <= 3:
        return word
    for ending in ("ying", "ies", "ied"):
        if word.endswith(ending) and len(word) - len(ending) >= 2:
            return word[: -len(ending)] + "y"
    if word.endswith("ing") and len(word) >= 6:
        word = word[:-3]
    elif word.endswith("ed") and len(word) >= 5:
        word = word[:-2]
    elif word.endswith(("sses", "ches", "shes", "xes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us")):
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    return word


@dataclass(frozen=True)
class Verb:
    """An entry of the list."""

    kinds: tuple[float, ...]
    is_weak: bool


@dataclass(frozen=True)
class Found:
    """A verb and where it stands among the words."""

    at: int
    verb: Verb


def shares(weights: dict[str, float]) -> tuple[float, ...]:
    """Kinds of action by weight, adding up to one."""
    total = sum(weights.values())
    return tuple(weights.get(kind, 0.0) / total for kind in KINDS)


class Verbs:
    """The list."""

    def __init__(self, path: Path = VERBS):
        self.phrases: dict[tuple[str, ...], Verb] = {}
        self.split: dict[tuple[str, str], Verb] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line or line.startswith("#"):
                continue
            phrase, kinds = line.split(" = ")
            is_weak, words = phrase.startswith("~"), [stem(word) for word in phrase.lstrip("~").split()]
            pairs = (kind.partition(":") for kind in kinds.split())
            verb = Verb(shares({kind: float(weight or 1) for kind, _, weight in pairs}), is_weak)
            if "*" in words:
                self.split[words[0], words[-1]] = verb
            else:
                self.phrases[tuple(words)] = verb
        self.longest = max(map(len, self.phrases))

    def scan(self, words: list[str]) -> list[Found]:
        """The verbs among `words`, the longest phrase at each place."""
        stems = [stem(word) for word in words]
        found: list[Found] = []
        at = 0
        while at < len(stems):
            verb, length = self._split_at(stems, at), 1
            if verb is None:
                for length in range(min(self.longest, len(stems) - at), 0, -1):
                    verb = self.phrases.get(tuple(stems[at : at + length]))
                    if verb is not None:
                        break
            if verb is not None:
                found.append(Found(at, verb))
            at += length if verb is not None else 1
        return found

    def _split_at(self, stems: list[str], at: int) -> Verb | None:
        for particle in stems[at + 2 : at + 1 + MAX_GAP]:
            verb = self.split.get((stems[at], particle))
            if verb is not None:
                return verb
        return None

    def of_query(self, query: str) -> tuple[Kinds, bool] | None:
        """What a query wants done, if its words say so, and whether it begins with a plain verb."""
        words = re.findall(r"[a-z]+", query.lower())
        found = self.scan(words)
        first = next((at for at, word in enumerate(words) if word not in POLITE), len(words))
        strong = [one for one in found if not one.verb.is_weak or one.at == first]
        chosen = (strong or found)[:1]
        if not chosen:
            return None
        verb, at = chosen[0].verb, chosen[0].at
        # By itself, not as a part of `get rid of`.
        is_plain = at == first and words[at] in PLAIN and self.phrases.get((stem(words[at]),)) is verb
        return list(verb.kinds), is_plain

    def of_tool(self, tool: dict[str, Any]) -> Kinds | None:
        """What a tool does, if its name or description say so."""
        named = self._of_name(words_of(tool.get("name") or ""))
        described = self._of_description((tool.get("description") or "")[:DESCRIPTION_CHARS])
        if named is not None and described is not None:
            kinds = [NAME_SHARE * a + (1 - NAME_SHARE) * b for a, b in zip(named, described, strict=True)]
        else:
            kinds = named if named is not None else described
        annotations = tool.get("annotations") or {}
        if kinds is not None and annotations.get("readOnlyHint") is True:
            kinds = [share * (1 if kind in READING else KEPT_BY_READ_ONLY) for kind, share in zip(KINDS, kinds, strict=True)]
            total = sum(kinds)
            kinds = [share / total for share in kinds]
        return kinds

    def _of_name(self, words: list[str]) -> Kinds | None:
        if len(words) > 1 and words[0] in METHODS:
            return list(shares(METHODS[words[0]]))
        found = self.scan(words)
        strong = [one for one in found if not one.verb.is_weak or one.at == 0]
        chosen = strong[:1] or found[-1:]
        return list(chosen[0].verb.kinds) if chosen else None

    def _of_description(self, text: str) -> Kinds | None:
        found = self.scan(words_of(text)[:DESCRIPTION_WORDS])
        chosen = [one for one in found if one.at <= 1] or [one for one in found if not one.verb.is_weak]
        return list(chosen[0].verb.kinds) if chosen else None


def clash(wanted: Sequence[float], is_plain: bool, offered: Sequence[float]) -> str:
    """`other` for a tool that does something else than what is plainly asked for, `harm` if that changes something."""
    if not is_plain or not any(offered):
        return "none"
    pairs = list(zip(KINDS, wanted, offered, strict=True))
    looking = [sum(shares) for shares in zip(*(pair[1:] for pair in pairs if pair[0] in LOOKING), strict=True)]
    common = sum(min(one, other) for kind, one, other in pairs if kind not in LOOKING) + min(looking)
    if common >= CLASH:
        return "none"
    return "harm" if looking[1] < WRITES else "other"


def words_of(text: str) -> list[str]:
    """The words of a name or text, cut at humps and digits, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", text)]
