"""Puts trained arrays, vocabulary and coefficients into a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import reference as rf
import tools as tl
from prepare import QUERY_TOKENS


def pack(arrays: dict[str, np.ndarray], vocabulary: list[str], settings: dict[str, Any]) -> rf.Model:
    """A model of what training made; `settings` become part of the header."""
    order = sorted(range(len(vocabulary)), key=lambda entry: vocabulary[entry].encode())
    # Six digits: the header is read by people too.
    weights = [float(f"{weight:.6g}") for weight in arrays["field_weight"]]
    fields = [
        {"name": name, "limit": limit, "weight": weight, "power": power}
        for name, limit, weight, power in zip(tl.FIELDS, tl.LIMITS, weights, tl.POWERS, strict=True)
    ]
    header = {
        "name": "pegboard",
        "licence": "Apache-2.0",
        "dims": int(arrays["table"].shape[1]),
        "query_limit": QUERY_TOKENS,
        "fields": fields,
        **settings,
    }
    numbers = [arrays[key][order].astype(np.float32) for key in ("scale", "query_weight", "tool_weight")]
    return rf.Model(header, [vocabulary[entry] for entry in order], arrays["table"][order], *numbers)


def write(model: rf.Model, path: Path) -> None:
    """Writes the model file, and reads it back to be sure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    model.write(path)
    rf.read(path)
