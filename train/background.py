"""What tools in general are about: vectors that a query is compared with beside the catalog's.

A query that is nearer to these than to anything in the catalog is probably not meant for it.
"""

from __future__ import annotations

from typing import Iterable

import numpy as np

import reference as rf

COUNT = 512
ROUNDS = 6
"""Of k-means; more of them change nothing in the figures."""


def centres(vectors: np.ndarray, count: int = COUNT) -> np.ndarray:
    """The centres of `count` groups of vectors, at unit length."""
    found = vectors[np.random.default_rng(1).permutation(len(vectors))[:count]]
    for _ in range(ROUNDS):
        group = (vectors @ found.T).argmax(1)
        sums = np.zeros_like(found)
        np.add.at(sums, group, vectors)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        found = np.where(lengths > 0, sums / np.maximum(lengths, 1e-9), found)
    return found


def stored(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vectors as the file holds them: whole numbers, and what one unit of each row is worth."""
    rows = [rf.stored(row) for row in vectors]
    return np.array([whole for whole, _ in rows]), np.array([scale for _, scale in rows], np.float32)


def of_texts(model: rf.Model, tools: Iterable[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """The background of a model, from the texts of the fields of many tools."""
    settings = model.header["fields"]
    vectors = [
        model.tool_vector([model.tokenizer.tokenize(text, field["limit"]).ids for text, field in zip(own, settings, strict=True)])
        for own in tools
    ]
    return stored(centres(np.array(vectors, np.float32)))
