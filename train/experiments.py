"""What was tried: students of many settings, each family left out in turn.

`python experiments.py PREPARED MINILM OUT SECONDS PLAN [WORKERS [FOLDS]]`, where PLAN is a JSON
list of `[label, changes to the default settings]`, or `[label, [labels]]` for the average of students
that come before it. Figures go to OUT/results.jsonl, the arrays of each student to
OUT/LABEL/FOLD.npz. What does not depend on the settings is kept in OUT and used again.
`confidence.py` is fitted on the average of the plan
`[["first", {}], ["second", SECOND], ["both", ["first", "second"]]]`, where SECOND is what `train.py`
changes for the second student.
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
import student as sd
from folds_of import LEFT_OUT
from train import average

FOLDS = (fd.EVERYTHING, *LEFT_OUT, fd.HELD_OUT)


def report(out: Path, **line) -> None:
    """Adds one line to the results."""
    with (out / "results.jsonl").open("a") as file:
        print(json.dumps(line), file=file)


def taught(world: fd.World, chosen: fd.Fold, minilm: Path, out: Path):
    """The teacher of a fold, from disk if it was there already."""
    path = out / f"teacher-{chosen.name}.pt"
    if path.exists():
        return torch.load(path, weights_only=False, map_location=world.device)
    found = fd.teacher_of(world, chosen, minilm, 300, 4, 11)
    for key, rows in chosen.measured.items():
        data = world.labelled[key]
        figures = sd.figures(data, rows, found.similarities(data, rows, 0.6))
        report(out, config="teacher", fold=chosen.name, set=key, figures=figures)
    torch.save(found, path)
    return found


def work(rank: int, workers: int, folds: list[str], prepared: Path, minilm: Path, out: Path, plan: list, until: float):
    """Every setting on the folds of this worker, until the time is up."""
    try:
        torch.set_num_threads(2)
        torch.backends.cuda.matmul.allow_tf32 = True
        began = time.time()
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        world = fd.load_world(prepared, device)
        print(rank, "loaded", round(time.time() - began, 1), flush=True)
        own = [fd.fold(world, name) for name in folds[rank::workers]]
        teachers = {}
        for chosen in own:
            teachers[chosen.name] = taught(world, chosen, minilm, out)
            print(rank, chosen.name, "teacher", round(time.time() - began, 1), flush=True)
        starts: dict[tuple, sd.Student] = {}
        for label, changes in plan:
            if time.time() > until:
                break
            (out / label).mkdir(exist_ok=True)
            if isinstance(changes, list):
                for chosen in own:
                    students = [dict(np.load(out / other / f"{chosen.name}.npz")) for other in changes]
                    np.savez(out / label / f"{chosen.name}.npz", **average(students))
                continue
            changes = {key: tuple(value) if isinstance(value, list) else value for key, value in changes.items()}
            config = dataclasses.replace(sd.Config(), **changes)
            for chosen in own:
                begun = time.time()
                first = (chosen.name, config.copy_steps, config.phrases, config.powers, config.dims, config.drop)
                if first not in starts:
                    starts[first] = fd.start(world, chosen, teachers[chosen.name], config)
                copied = round(time.time() - begun, 1)
                model = copy.deepcopy(starts[first])
                model.config = config
                if config.steps:
                    sd.train(model, chosen.learned, chosen.rows, teachers[chosen.name])
                seconds = [copied, round(time.time() - begun, 1)]
                for key, rows in chosen.measured.items():
                    found = sd.measure(model, world.labelled[key], rows)
                    report(out, config=label, changes=changes, fold=chosen.name, set=key, figures=found, seconds=seconds)
                np.savez(out / label / f"{chosen.name}.npz", **sd.arrays(model))
                print(rank, label, chosen.name, seconds, round(time.time() - began), flush=True)
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
    seconds, plan = float(sys.argv[4]), json.loads(Path(sys.argv[5]).read_text())
    workers = int(sys.argv[6]) if len(sys.argv) > 6 else 3
    folds = sys.argv[7].split(",") if len(sys.argv) > 7 else list(FOLDS)
    out.mkdir(parents=True, exist_ok=True)
    mp.set_start_method("spawn")
    mp.spawn(work, (workers, folds, prepared, minilm, out, plan, time.time() + seconds), nprocs=workers)
    summarise(out / "results.jsonl")


if __name__ == "__main__":
    main()
