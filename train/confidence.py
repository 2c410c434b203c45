"""Fits the confidence, on top of the second look, and reports figures with families left out.

    python train/confidence.py --judged DIR --folds DIR [--work DIR] [--model FILE]

`--judged` is what `judged.py` wrote, and `--folds` holds FOLD.npz, the students that `experiments.py` trained without the
families of that fold, and `everything.npz`. Every figure is of a family that neither the student, nor the background, nor
any coefficient has seen. Writes the model file, `confidence.jsonl` and `sample.jsonl`. No accelerator is needed.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

import actions as ac
import background as bg
import evidence as ev
import fusion as fs
import look as lk
import pack
import prepare as pp
import reference as rf
import reliability
import sample
from folds_of import EVERYTHING, FOLD_OF, LEFT_OUT
from train import FUSION

TOOLS_FROM, TOOLS_TO = 10, 10_000
"""Sizes of catalogs beyond which nothing was measured."""

NOTHING_BELOW = (0.24, 0.065)
"""The bars of the smallest and the largest catalogs: about 5 % of the queries with a right tool among the first five are
answered with nothing."""

SURE = 0.9
"""A confidence that counts as high."""

RULES = {
    "short": ("share", "margin", "lexical", "whole", "near", "background", "tools", "text", "worst", "name", "action", "clash", "length", "known"),
    "long": ("share", "lexical", "whole", "near", "background", "tools", "length", "known"),
}
WORDS = {"bias": -0.618645, "lexical": 18.4628, "tools": -0.24701}
"""The rule for queries that the model cannot read, fitted on the lexical scores of all families."""

UNANSWERED = {"absent": 0.8, "foreign_short": 0.3, "foreign_long": 0.15, "removed": 0.03}
"""What queries without a right tool weigh beside others."""

CUT_WEIGHT = 0.4
RIDGE = 2e-3
ANSWERED = ("set", "short", "contrast")


def evidence_of(row: ev.Row, look: lk.Look) -> tuple[fs.Evidence, int]:
    """What there is to judge by, and the first hit."""
    is_short = lk.is_short(row)
    hits = lk.order(look, row)
    scores = np.sort(look.scores(row))[::-1] if is_short else fs.STEEPNESS * row.seen[: fs.LOOKED_AT, 0]
    chance = np.exp(scores - scores[0])
    chance /= chance.sum()
    first = int(hits[0])
    seen = dict(zip(ev.SEEN, map(float, row.seen[first]), strict=True))
    found = fs.Evidence(
        share=float(chance[0]),
        margin=float(chance[0] - (chance[1] if len(chance) > 1 else 0.0)),
        lexical=min(seen["lexical"], fs.NAMED - 1e-6),
        whole=seen["whole"],
        near=row.near,
        far=row.far,
        tools=row.tools,
        text=seen["text"],
        worst=seen["worst"],
        name=seen["name"],
        action=look.action(row, first),
        clash=ac.clash(row.wanted, row.is_plain, row.offered[first]),
        words=row.words,
        known=row.known,
        look_share=float(is_short),
    )
    return found, first


def logistic(features: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Bias and coefficients, by Newton's method."""
    weight = weight / weight.sum()
    middle, spread = features.mean(0), np.maximum(features.std(0), 1e-6)
    inputs = np.c_[np.ones(len(features)), (features - middle) / spread]
    ridge = np.diag([1e-9] + [RIDGE] * features.shape[1])
    found = np.zeros(inputs.shape[1])
    for _ in range(25):
        chance = 1 / (1 + np.exp(-inputs @ found))
        slope = inputs.T @ (weight * (chance - labels)) + ridge @ found
        curve = (inputs * (weight * chance * (1 - chance))[:, None]).T @ inputs + ridge
        found = found - np.linalg.solve(curve, slope)
    scaled = found[1:] / spread
    return np.array([found[0] - (scaled * middle).sum(), *scaled])


def fit(rows: list[tuple[str, ev.Row]], look: lk.Look) -> dict[str, Any]:
    """`confidence` of the header. Six digits: the header is read by people too."""
    settings: dict[str, Any] = {"tools_from": TOOLS_FROM, "tools_to": TOOLS_TO, "nothing_below": list(NOTHING_BELOW), "words": WORDS}
    counts = collections.Counter((family, row.kind, row.is_cut) for family, row in rows)
    for rule, names in RULES.items():
        own = [(family, row) for family, row in rows if lk.is_short(row) == (rule == "short") and len(row.right)]
        judged = [evidence_of(row, look) for _, row in own]
        features = np.array([[found.values(settings)[name] for name in names] for found, _ in judged])
        labels = np.array([float(row.right[first]) for (_, row), (_, first) in zip(own, judged, strict=True)])
        weight = [
            UNANSWERED.get(row.kind, 1.0) * (CUT_WEIGHT if row.is_cut else 1.0) / counts[family, row.kind, row.is_cut] ** 0.6
            for family, row in own
        ]
        digits = [float(f"{value:.6g}") for value in logistic(features, labels, np.array(weight))]
        settings[rule] = dict(zip(("bias", *names), digits, strict=True))
    return settings


def packed(fold: str, folds: Path, work: Path, settings: dict[str, Any]) -> rf.Model:
    """The model of a fold, whose background has seen what the fold may see."""
    vocabulary = (work / "vocabulary.txt").read_text(encoding="utf-8").split("\n")[:-1]
    with gzip.open(work / "texts.json.gz", "rt", encoding="utf-8") as file:
        texts = json.load(file)
    model = pack.pack(dict(np.load(folds / f"{fold}.npz")), vocabulary, settings)
    used = [name for name in pp.FAMILIES if name not in LEFT_OUT.get(fold, ())]
    model.background = bg.of_texts(model, (fields for name in used for fields in texts[name]["fields"]))
    return model


def family_rows(model: rf.Model, judged: Path, families: tuple[str, ...]) -> list[tuple[str, ev.Row]]:
    """The rows of some families by a model that has not seen them."""
    found: list[tuple[str, ev.Row]] = []
    servers = sorted(folder.name for folder in judged.iterdir() if folder.name.startswith("server_"))
    for family in families:
        author = family[-1] if family in pp.FLEET else None
        for name in ["fleet", *servers] if author else [family]:
            found += [(family, row) for row in ev.rows(model, judged / name, author) if len(row.right)]
    return found


def report(rows: list[tuple[str, ev.Row]], looks: dict[str, lk.Look], rules: dict[str, dict]) -> None:
    """Figures with families left out: recall, how confidence and truth agree, and what is answered with nothing."""
    groups = collections.defaultdict(list)
    totals = collections.defaultdict(list)
    judged: dict[str, list[tuple[float, float]]] = {"queries with a right tool": [], "all queries": []}
    for family, row in rows:
        fold = FOLD_OF.get(family, EVERYTHING)
        header = {"confidence": rules[fold], "fusion": FUSION}
        found, first = evidence_of(row, looks[fold])
        right = row.right[lk.order(looks[fold], row)]
        size = np.log(min(max(row.tools, TOOLS_FROM), TOOLS_TO) / TOOLS_FROM) / np.log(TOOLS_TO / TOOLS_FROM)
        bar = NOTHING_BELOW[0] + (NOTHING_BELOW[1] - NOTHING_BELOW[0]) * size
        sure = fs.confidence(found, header)
        judged["all queries"].append((sure, right[0]))
        if row.kind in ANSWERED:
            judged["queries with a right tool"].append((sure, right[0]))
        label = ("cut " if row.is_cut else "") + row.kind
        groups[family, label].append((right[0], right[:5].any(), row.right[0], row.right[:5].any(), sure, sure < bar))
        if not row.is_cut:
            totals["answered" if row.kind in ANSWERED else row.kind].append(
                (sure < bar, right[:5].any(), sure >= SURE, right[0], writes(row.offered[first]))
            )
    print("family, kind: first hit / first five in %, before the second look, mean confidence, error of calibration, nothing, lost")
    for (family, kind), values in sorted(groups.items()):
        first, five, before, before_five, sure, nothing = np.array(values, float).T
        lost = float((nothing * five).sum() / max(five.sum(), 1))
        print(
            f"{family:14} {kind:14} {len(values):5} {100 * first.mean():5.1f} / {100 * five.mean():5.1f}"
            f"   {100 * before.mean():5.1f} / {100 * before_five.mean():5.1f}   {sure.mean():.2f} {error(sure, first):.3f}"
            f"   {nothing.mean():.3f} {lost:.3f}"
        )
    report_totals(totals)
    lines = {name: (np.array(pairs, float)[:, 0], np.array(pairs, float)[:, 1]) for name, pairs in judged.items()}
    reliability.write(Path(__file__).parent / "reliability.svg", lines)
    for name, (sure, right) in lines.items():
        print(f"{name}: error of calibration {error(sure, right):.3f}\n{reliability.table(sure, right)}")


def report_totals(totals: dict[str, list]) -> None:
    """What is answered with nothing and how sure the answers are, over all families."""
    for kind, values in sorted(totals.items()):
        nothing, five, sure, right, modifies = np.array(values, float).T
        line = f"{kind}: {len(values)}, nothing {nothing.mean():.3f}, confidence {SURE} or more {sure.mean():.3f}"
        if kind == "answered":
            line += f" (right {right[sure > 0].mean():.3f}), lost {(nothing * five).sum() / five.sum():.3f}"
        else:
            line += f", of these a modifying first hit {(sure * modifies).mean():.3f}"
        print(line)


def writes(offered: np.ndarray) -> bool:
    """Whether a tool changes something, as far as its verbs say."""
    reading = sum(float(share) for kind, share in zip(ac.KINDS, offered, strict=True) if kind in ac.READING)
    return bool(offered.any()) and reading < 0.5


def error(sure: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error, in ten bins."""
    bins = np.minimum((sure * 10).astype(int), 9)
    return float(sum((bins == at).mean() * abs(sure[bins == at].mean() - right[bins == at].mean()) for at in set(bins)))


def write_sample(rows: list[tuple[str, ev.Row]], look: lk.Look, header: dict[str, Any], count: int = 60) -> None:
    """Evidence and the confidence that the engine must have in it."""
    chance = np.random.default_rng(3)
    lines = []
    for at in range(count):
        found, _ = evidence_of(rows[int(chance.integers(len(rows)))][1], look)
        values = {name: float(f"{value:.5g}") if isinstance(value, float) else value for name, value in vars(found).items()}
        values |= {"known": [0.0, 1.0, 0.6, 0.5, 0.9][at % 5], "look_share": [0.0, 0.5, 1.0][at % 3]}
        values["clash"] = ["none", "other", "harm"][at % 7 % 3]
        values["tools"] = [1, 9, 10, 11, 40_000][at] if at < 5 else values["tools"]
        values["lexical"] = 0.93 if at % 12 == 11 else values["lexical"]
        found = fs.Evidence(**values)
        lines.append(json.dumps({**vars(found), "confidence": round(fs.confidence(found, header), 9)}))
    (Path(__file__).parent / "confidence.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judged", type=Path, required=True, help="folder of `judged.py`")
    parser.add_argument("--folds", type=Path, required=True, help="folder of the students")
    parser.add_argument("--work", type=Path, default=pp.ROOT / "target/train", help="folder that `train.py` prepared")
    parser.add_argument("--model", type=Path, default=pp.ROOT / "crates/pegboard-engine/model/pegboard.model")
    options = parser.parse_args()
    rows: list[tuple[str, ev.Row]] = []
    for fold, families in (*LEFT_OUT.items(), (EVERYTHING, (*pp.MEASURED, "demo"))):
        model = packed(fold, options.folds, options.work, {"fusion": FUSION})
        rows += family_rows(model, options.judged, families)
        print(f"{fold}: {len(rows)} rows", flush=True)
    looks, rules = {}, {}
    for fold in (*LEFT_OUT, EVERYTHING):
        seen = [(family, row) for family, row in rows if family in FOLD_OF and FOLD_OF[family] != fold]
        looks[fold] = lk.fit(seen)
        rules[fold] = fit(seen, looks[fold])
    report(rows, looks, rules)
    settings = {"fusion": FUSION, "confidence": rules[EVERYTHING], "look": looks[EVERYTHING].settings()}
    model = packed(EVERYTHING, options.folds, options.work, settings)
    pack.write(model, options.model)
    write_sample(rows, looks[EVERYTHING], model.header)
    sample.write(model)


if __name__ == "__main__":
    main()
