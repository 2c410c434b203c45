"""What was tried: students of many settings, each family left out in turn, all folds at a time.

`python experiments.py PREPARED MINILM OUT PLAN SECONDS [TEACHER_STEPS]` where PLAN names a list
below. Figures go to OUT/results.jsonl; the arrays of the settings called `default` to
OUT/model-FOLD.npz.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import torch
import torch.multiprocessing as mp

import folds as fd
import sets as st
import student as sd
from prepare import TRAINED

FOLDS = (*TRAINED, fd.HELD_OUT, fd.EVERYTHING)


def plan(name: str) -> list[tuple[str, dict]]:
    """Settings to try, each as what differs from the defaults."""
    if name == "smoke":
        return [("default", {"steps": 2, "copy_steps": 2}), ("stage 2 only", {"copy_steps": 0, "steps": 2})]
    if name == "second":
        return [
            ("default", {}),
            ("copy only", {"steps": 0}),
            ("fast table", {"table_rate": 1e-3}),
            ("no teacher in stage 2", {"distil": 0.0, "distil_real": 0.0}),
            ("teacher only", {"alone": 0.0, "fused": 0.0, "selfsup": 0.0}),
            ("fused only", {"alone": 0.0}),
            ("no fused", {"fused": 0.0}),
            ("no selfsup", {"selfsup": 0.0}),
            ("drop .3", {"drop": 0.3}),
            ("slow table, weights", {"table_rate": 1e-4, "weight_rate": 3e-3}),
            ("no phrases", {"phrases": False}),
            ("stage 2 only", {"copy_steps": 0}),
            ("copy longer", {"copy_steps": 4000}),
            ("longer", {"steps": 2000}),
            ("length .25", {"length_power": 0.25}),
            ("length .75", {"length_power": 0.75}),
            ("128 dims", {"dims": 128}),
        ]
    raise SystemExit(f"no plan `{name}`")


def report(out: Path, **line) -> None:
    """Adds one line to the results."""
    with (out / "results.jsonl").open("a") as file:
        print(json.dumps(line), file=file)


def work(rank: int, folds: tuple[str, ...], prepared: Path, minilm: Path, out: Path, name: str, until: float, steps: int):
    """One fold: its teacher, then all settings until the time is up."""
    try:
        torch.set_num_threads(2)
        began = time.time()
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        world = fd.load_world(prepared, device)
        fold_name = folds[rank]
        chosen = fd.fold(world, fold_name)
        taught = fd.teacher_of(world, chosen, minilm, steps, 4, 11)
        for key, rows in chosen.measured.items():
            data = world.labelled[key]
            for share in (0.0, 0.5, 0.7):
                similar = taught.similarities(data, rows, share)
                report(out, config=f"teacher, requests {share}", fold=fold_name, set=key, figures=sd.figures(data, rows, similar))
        print(fold_name, "teacher", round(time.time() - began, 1), flush=True)
        starts: dict[tuple, sd.Student] = {}
        for label, changes in plan(name):
            if time.time() > until or (fold_name == fd.EVERYTHING and label != "default"):
                break
            began = time.time()
            config = dataclasses.replace(sd.Config(), **changes)
            first = (config.copy_steps, config.phrases, config.length_power, config.dims, config.drop)
            if first not in starts:
                starts[first] = fd.start(world, chosen, taught, config)
            copied = time.time() - began
            model = copy.deepcopy(starts[first])
            model.config = config
            if config.steps:
                sd.train(model, chosen.learned, chosen.unlabelled, chosen.rows, taught)
            for key, rows in chosen.measured.items():
                found = sd.measure(model, world.labelled[key], rows)
                report(out, config=label, changes=changes, fold=fold_name, set=key, figures=found, alpha=round(model.alpha.exp().item(), 3), seconds=[round(copied, 1), round(time.time() - began, 1)])
            if label == "default":
                np.savez(out / f"model-{fold_name}.npz", **sd.arrays(model))
                print(fold_name, "default", round(copied, 1), round(time.time() - began, 1), model.field_weight.exp().tolist(), flush=True)
    except Exception:
        traceback.print_exc()
        raise


def summarise(path: Path) -> None:
    """One line for each setting: the mean over left-out families, and over held-out queries."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for name in dict.fromkeys(line["config"] for line in lines):
        for kind in ("left out", "held out"):
            own = [line for line in lines if line["config"] == name and (line["fold"] == fd.HELD_OUT) == (kind == "held out")]
            if not own:
                continue
            keys = own[0]["figures"].keys()
            means = {key: round(sum(line["figures"][key] for line in own) / len(own), 2) for key in keys}
            best = max((key for key in keys if key.startswith("+")), key=means.get)
            each = {line["set"][:5]: line["figures"][best] for line in own}
            shown = " ".join(f"{key} {value}" for key, value in means.items())
            print(f"{name:22} {kind} n={len(own)} {shown} | {best} {each}", flush=True)


def main() -> None:
    prepared, minilm, out = map(Path, sys.argv[1:4])
    name, seconds = sys.argv[4], float(sys.argv[5])
    steps = int(sys.argv[6]) if len(sys.argv) > 6 else 300
    folds = tuple(sys.argv[7].split(",")) if len(sys.argv) > 7 else FOLDS
    out.mkdir(parents=True, exist_ok=True)
    mp.set_start_method("spawn")
    mp.spawn(work, (folds, prepared, minilm, out, name, time.time() + seconds, steps), nprocs=len(folds))
    summarise(out / "results.jsonl")


if __name__ == "__main__":
    main()
