"""Fits the second look: how the first hits of short queries are ordered anew."""

from __future__ import annotations

from typing import Any

import numpy as np

import evidence as ev
from actions import KINDS
from fusion import LOOKED_AT

COLUMNS = ("score", "whole", "text", "name", "name_length", "server")
WORDS_TO, WORDS_FROM = 10, 16
"""Up to so many words the second look counts in full, and from so many on not at all."""

FITTED_WORDS = 12
RIDGE = 2e-3
STEPS = 250
RATE = 0.05
ACTION_SPREAD = 0.5
"""Products of kinds of action are rare; by their own spread rare ones would count too much."""


def is_short(row: ev.Row) -> bool:
    """Whether a query gets a second look, for fitting."""
    return row.parts == 0 and row.words <= FITTED_WORDS


def inputs(row: ev.Row) -> np.ndarray:
    """Hits by columns, and by pairs of what is wanted and offered."""
    seen = row.seen[:LOOKED_AT, [ev.SEEN.index(name) for name in COLUMNS]]
    pairs = row.wanted[None, :, None] * row.offered[:LOOKED_AT, None, :]
    return np.concatenate([seen, pairs.reshape(len(seen), -1)], 1)


class Look:
    """Coefficients of `inputs`."""

    def __init__(self, weights: np.ndarray):
        self.weights = weights

    def scores(self, row: ev.Row) -> np.ndarray:
        """In units of the logarithm of odds."""
        return inputs(row) @ self.weights

    def action(self, row: ev.Row, at: int) -> float:
        """How well the hit `at` does what is asked for."""
        kinds = self.weights[len(COLUMNS) :].reshape(len(KINDS), len(KINDS))
        return float(row.wanted @ kinds @ row.offered[at])

    def settings(self) -> dict[str, Any]:
        """`look` of the header. Six digits: the header is read by people too."""
        digits = [float(f"{weight:.6g}") for weight in self.weights]
        kinds = [digits[len(COLUMNS) + at * len(KINDS) :][: len(KINDS)] for at in range(len(KINDS))]
        return dict(zip(COLUMNS, digits, strict=False)) | {"words_to": WORDS_TO, "words_from": WORDS_FROM, "actions": kinds}


def fit(rows: list[tuple[str, ev.Row]]) -> Look:
    """The right hits of short queries against the others; families weigh by the root of their size."""
    rows = [(family, row) for family, row in rows if is_short(row) and not row.is_cut and row.right[:LOOKED_AT].any()]
    width = len(COLUMNS) + len(KINDS) ** 2
    data, right = np.zeros((len(rows), LOOKED_AT, width), np.float32), np.zeros((len(rows), LOOKED_AT), bool)
    there = np.zeros((len(rows), LOOKED_AT), bool)
    for at, (_, row) in enumerate(rows):
        own = inputs(row)
        data[at, : len(own)], right[at, : len(own)], there[at, : len(own)] = own, row.right[:LOOKED_AT], True
    families = [family for family, _ in rows]
    weight = np.array([1 / families.count(family) ** 0.5 for family in families])
    middle = np.zeros(width, np.float32)
    spread = np.full(width, ACTION_SPREAD, np.float32)
    middle[: len(COLUMNS)] = data[there][:, : len(COLUMNS)].mean(0)
    spread[: len(COLUMNS)] = np.maximum(data[there][:, : len(COLUMNS)].std(0), 1e-3)
    scaled = (data - middle) / spread * there[..., None]
    return Look(descend(scaled, right, there, weight / weight.sum()) / spread)


def descend(data: np.ndarray, right: np.ndarray, there: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Adam on the probability of the right hits among all that are there."""
    found = np.zeros(data.shape[2], np.float32)
    found[0] = 2.0
    first = second = np.zeros_like(found)
    for step in range(1, STEPS + 1):
        scores = np.where(there, data @ found, -1e4)
        chance = np.exp(scores - scores.max(1, keepdims=True))
        chance /= chance.sum(1, keepdims=True)
        wanted = chance * right
        wanted /= np.maximum(wanted.sum(1, keepdims=True), 1e-9)
        slope = np.einsum("qk,qkf->f", (chance - wanted) * weight[:, None], data) + RIDGE * found
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope**2
        found = found - RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return found


def order(look: Look, row: ev.Row) -> np.ndarray:
    """The hits of a query, those that were looked at in their new order."""
    every = np.arange(len(row.right))
    if not is_short(row):
        return every
    return np.concatenate([np.argsort(-look.scores(row), kind="stable"), every[LOOKED_AT:]])
