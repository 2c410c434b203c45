"""How lexical scores and similarities become one ranking and one confidence, in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

NAMED = 0.9
"""Lexical scores from here on are of tools that the query names outright."""

BELOW_NAMED = 0.89
"""The most that other tools can score."""


def relative(values: np.ndarray, least: float) -> np.ndarray:
    """Values as shares of the highest, or of `least` if that is higher."""
    return values / max(float(values.max(initial=0.0)), least)


def similarity(whole: np.ndarray, requests: list[np.ndarray], settings: dict[str, Any]) -> np.ndarray:
    """The semantic share of each tool's score, 0 to 1: of the whole query and of its best request."""
    least = settings["least_similarity"]
    shares = relative(whole, least)
    if requests:
        finds = found_by(requests, settings)
        best = np.max([own * relative(request, least) for own, request in zip(finds, requests, strict=True)], axis=0)
        several = settings["requests"] * float(np.sort(finds)[-2])
        shares = (1 - several) * shares + several * best
    return shares


def found_by(requests: list[np.ndarray], settings: dict[str, Any]) -> np.ndarray:
    """How well each request finds tools beside the one that finds best, 0 to 1."""
    best = np.array([max(float(request.max(initial=0.0)), 0.0) for request in requests])
    start, full = settings["finds_from"], settings["finds_to"]
    return np.clip((best / max(float(best.max()), 1e-30) - start) / (full - start), 0.0, 1.0)


def trust(known: float, settings: dict[str, Any]) -> float:
    """How far the vector of a query can be trusted of whose words the share `known` is known."""
    start, full = settings["known_from"], settings["known_to"]
    return min(1.0, max(0.0, (known - start) / (full - start)))


def fused(lexical: np.ndarray, shares: np.ndarray | None, known: float, settings: dict[str, Any]) -> np.ndarray:
    """The score by which tools are ordered, 0 to 1; `shares` is `None` without a query vector."""
    named = lexical >= NAMED
    plain = np.where(named, 0.0, lexical)
    weight = settings["similarity"] * trust(known, settings) if shares is not None else 0.0
    scores = relative(plain, 1e-6)
    if shares is not None:
        scores = scores + weight * np.maximum(shares, 0.0)
    scores = BELOW_NAMED * scores / (1 + weight)
    return np.where(named, lexical, scores)


BEST = 5
"""So many similarities make up `near` and `far`."""


LOOKED_AT = 16
"""So many hits are looked at again."""

HARM_SHARE = 0.05
"""What is left of the confidence in a tool that changes something else than what is plainly asked for."""

STEEPNESS = 12.0
"""What a score is multiplied with to be taken for a logarithm, where there is no second look."""


@dataclass
class Evidence:
    """What the confidence in a ranking rests on."""

    share: float
    """The first hit's share, if scores of the hits that are looked at are taken for probabilities."""
    margin: float
    """How much more that is than the share of the second."""
    lexical: float
    """The first hit's lexical score."""
    whole: float
    """Its similarity to the query as a whole."""
    near: float
    """How similar the best visible tools are: `mean_of_best`."""
    far: float
    """How similar the best background vectors are: `mean_of_best`."""
    tools: int
    """How many tools are visible."""
    text: float
    """How much of the query is in name or description."""
    worst: float
    """How much of its weightiest word is not."""
    name: float
    """How much of it is in the name."""
    action: float
    """How well the first hit does what is asked for."""
    clash: str
    """Whether it does something else than what is plainly asked for: `actions.clash`."""
    words: int
    """How many words the query has."""
    known: float
    """The share of known words, 0 without a query vector."""
    look_share: float
    """How much the second look counts."""

    def values(self, own: dict[str, Any]) -> dict[str, float]:
        """What the coefficients of a rule are multiplied with."""
        return {
            "bias": 1.0,
            "share": float(np.log(max(self.share, 1e-6))),
            "margin": self.margin,
            "lexical": self.lexical,
            "whole": self.whole,
            "near": self.near,
            "background": self.far,
            "tools": float(np.log(min(max(self.tools, own["tools_from"]), own["tools_to"]))),
            "text": self.text,
            "worst": self.worst,
            "name": self.name,
            "action": self.action,
            "clash": float(self.clash != "none"),
            "length": float(np.log(max(self.words, 1))),
            "known": self.known,
        }


def mean_of_best(similarities: np.ndarray) -> float:
    """The mean of the `BEST` highest, or of all if there are fewer."""
    best = np.sort(similarities)[-BEST:]
    return float(best.mean()) if len(best) else 0.0


def confidence(evidence: Evidence, header: dict[str, Any]) -> float:
    """How likely the first hit is what was asked for, 0 to 1."""
    if evidence.lexical >= NAMED:
        return 1.0
    own = header["confidence"]
    values = evidence.values(own)
    short, long, words = (
        sum(weight * values[name] for name, weight in own[rule].items()) for rule in ("short", "long", "words")
    )
    meaning = evidence.look_share * short + (1 - evidence.look_share) * long
    trusted = trust(evidence.known, header["fusion"])
    total = trusted * meaning + (1 - trusted) * words
    return float((HARM_SHARE if evidence.clash == "harm" else 1) / (1 + np.exp(-total)))
