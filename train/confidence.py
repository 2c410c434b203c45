"""Fits the confidence of a finished model, and adds its background vectors.

    python train/confidence.py --data DIR --folds DIR --candidates FILE [--work DIR] [--model FILE] [--only measure]

`--folds` holds FAMILY.npz, the students that `experiments.py` trained without that family,
`--candidates` is the built example `candidates`, and `--work` is the folder that `train.py` prepared. Every figure is of a family that neither the
student, nor the background, nor the coefficients have seen; the background of a query of another
family is made without that one too. No accelerator is needed, and a few minutes on one core.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np

import background as bg
import cases as cs
import fusion as fs
import pack
import prepare as pp
import reference as rf
from train import SETTINGS

LOST = 0.05
"""The share of true hits that may be withheld."""

TOOLS_FROM, TOOLS_TO = 10, 10_000
"""Sizes of catalogs beyond which nothing was measured."""

MEANING = ("lexical", "similarity", "whole", "near", "background", "tools")
WORDS = ("lexical", "tools")
RIDGE = 4e-3


@dataclass
class Texts:
    """All tools and queries in tokens; they are the same for every student."""

    tools: dict[str, list[list[list[int]]]]
    queries: dict[str, tuple[list[int], list[list[int]], float]]


def read_texts(model: rf.Model, families: dict[str, cs.Family], data: Path) -> Texts:
    """Tokenizes everything once."""
    sources = {name: family.tools for name, family in families.items()}
    sources |= {name: pp.read_lines(data / name / "tools.jsonl") for name in pp.UNLABELLED}
    tools = {name: [model.tool_tokens(tool) for tool in own] for name, own in sources.items()}
    queries = {}
    for family in families.values():
        for text in family.queries.values():
            tokens, parts = model.query_tokens(text)
            queries[text] = (tokens.ids, parts, tokens.share if tokens.ids else 0.0)
    return Texts(tools, queries)


@dataclass
class Found:
    """The evidence on some queries, a column for each of `MEANING`, and whether they were answered."""

    columns: np.ndarray
    trust: np.ndarray
    named: np.ndarray
    right: np.ndarray
    """A relevant tool is among the first five."""


class Student:
    """A model with the vectors of all tools."""

    def __init__(self, model: rf.Model, texts: Texts):
        self.model, self.texts = model, texts
        self.tools = {
            name: np.array([model.tool_vector(fields) for fields in own], np.float32) for name, own in texts.tools.items()
        }
        self.backgrounds: dict[frozenset[str], np.ndarray] = {}

    def background(self, left_out: frozenset[str]) -> np.ndarray:
        """That of all tools but those of `left_out`."""
        if left_out not in self.backgrounds:
            used = [self.tools[name] for name in (*pp.TRAINED, *pp.UNLABELLED) if name not in left_out]
            self.backgrounds[left_out] = bg.centres(np.concatenate(used))
        return self.backgrounds[left_out]

    def evidence(self, case: cs.Case, rows: np.ndarray, removed: bool) -> Found:
        """On the queries `rows`; with their relevant tools taken away if `removed`."""
        tools = self.tools[case.family][case.tools]
        others = [name for name in pp.TRAINED if name != case.family]
        columns, trusts, named, right = [], [], [], []
        for row in rows:
            asked_by = case.families[row]
            # A query of the catalog's own family has one family less as well, so that all
            # backgrounds are alike.
            second = others[row % len(others)] if asked_by == case.family else str(asked_by)
            far = self.background(frozenset({case.family, second}))
            there = ~case.relevant[row] if removed else np.ones(len(tools), bool)
            found, scores = self.one(case.texts[row], case.lexical[row][there], tools[there], far)
            best = np.argsort(-scores, kind="stable")[:5]
            columns.append([*found[:-1], np.log(min(max(len(tools), TOOLS_FROM), TOOLS_TO))])
            trusts.append(fs.trust(found[-1], self.model.header["fusion"]))
            named.append(found[0] >= fs.NAMED)
            right.append(case.relevant[row][there][best].any())
        return Found(np.array(columns).reshape(-1, len(MEANING)), np.array(trusts), np.array(named), np.array(right, bool))

    def one(self, text: str, lexical: np.ndarray, tools: np.ndarray, far: np.ndarray) -> tuple[list[float], np.ndarray]:
        """The evidence on one query (the last of it the share of known words), and all scores."""
        ids, parts, known = self.texts.queries[text]
        vectors = np.array([self.model.query_vector(tokens) for tokens in (ids, *parts)])
        similar, distant = vectors @ tools.T, vectors @ far.T
        settings = self.model.header["fusion"]
        shares = fs.similarity(similar[0], list(similar[1:]), settings) if ids else None
        scores = fs.fused(lexical, shares, known, settings)
        first = int(np.argmax(scores))
        highest = similar.max(0)
        near, beyond = fs.mean_of_best(highest), fs.mean_of_best(distant.max(0))
        return [lexical[first], highest[first], similar[0][first], near, beyond, known], scores


@dataclass
class Part:
    """What one case brings: answered queries, those of other families, and those without their tools."""

    family: str
    size: int
    answered: Found
    others: Found
    removed: Found


def parts_of(student: Student, every: list[cs.Case]) -> list[Part]:
    """The evidence on all `every`."""
    found = []
    for case in every:
        own = np.flatnonzero(case.families == case.family)
        others = np.flatnonzero(case.families != case.family)
        answered = student.evidence(case, own, False)
        keep = answered.right
        answered = Found(answered.columns[keep], answered.trust[keep], answered.named[keep], answered.right[keep])
        if len(answered.named):
            removed = student.evidence(case, own, True)
            found.append(Part(case.family, case.size, answered, student.evidence(case, others, False), removed))
    return found


Pick = Callable[[Part], Found]


def weights(parts: list[Part], pick: Pick) -> np.ndarray:
    """For each query: families weigh the same, within one its sizes, within those the catalogs."""
    sizes = {part.family: {other.size for other in parts if other.family == part.family} for part in parts}
    found = []
    for part in parts:
        alike = sum(other.family == part.family and other.size == part.size for other in parts)
        count = len(pick(part).named)
        found.append(np.full(count, 1 / len(sizes[part.family]) / alike / max(count, 1)))
    return np.concatenate(found)


def logistic(features: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Bias and coefficients, by Newton's method."""
    weight = weight / weight.sum()
    middle, spread = features.mean(0), np.maximum(features.std(0), 1e-6)
    inputs = np.c_[np.ones(len(features)), (features - middle) / spread]
    ridge = np.diag([1e-9] + [RIDGE] * features.shape[1])
    found = np.zeros(inputs.shape[1])
    for _ in range(15):
        chance = 1 / (1 + np.exp(-inputs @ found))
        slope = inputs.T @ (weight * (chance - labels)) + ridge @ found
        curve = (inputs * (weight * chance * (1 - chance))[:, None]).T @ inputs + ridge
        found = found - np.linalg.solve(curve, slope)
    scaled = found[1:] / spread
    return np.array([found[0] - (scaled * middle).sum(), *scaled])


@dataclass
class Rule:
    """Coefficients, the bias first."""

    meaning: np.ndarray
    words: np.ndarray

    def scores(self, found: Found) -> np.ndarray:
        """The confidence before the logistic function; without bound for what is named outright."""
        meaning = self.meaning[0] + found.columns @ self.meaning[1:]
        words = self.words[0] + found.columns[:, WORD_COLUMNS] @ self.words[1:]
        return np.where(found.named, np.inf, found.trust * meaning + (1 - found.trust) * words)


WORD_COLUMNS = [MEANING.index(name) for name in WORDS]


def fit(parts: list[Part], used: tuple[str, ...] = MEANING) -> Rule:
    """Answered queries against those of other families."""
    picks: list[Pick] = [lambda part: part.answered, lambda part: part.others]
    features = np.concatenate([pick(part).columns for pick in picks for part in parts])
    named = np.concatenate([pick(part).named for pick in picks for part in parts])
    weight = np.concatenate([weights(parts, pick) for pick in picks])
    labels = np.concatenate([np.full(sum(len(pick(part).named) for part in parts), 1.0 - at) for at, pick in enumerate(picks)])
    plain = ~named

    def coefficients(names: tuple[str, ...]) -> np.ndarray:
        columns = [MEANING.index(name) for name in names]
        return logistic(features[plain][:, columns], labels[plain], weight[plain])

    some = coefficients(used)
    meaning = np.zeros(1 + len(MEANING))
    meaning[[0, *(1 + MEANING.index(name) for name in used)]] = some
    return Rule(meaning, coefficients(WORDS))


def threshold(scores: np.ndarray, weight: np.ndarray, lost: float = LOST) -> float:
    """Below it lies the share `lost` of the weight."""
    order = np.argsort(scores)
    passed = np.cumsum(weight[order]) / weight.sum()
    return float(scores[order][np.searchsorted(passed, lost)])


@dataclass
class Figures:
    """Left-out scores of every part, and the one threshold for all of them."""

    parts: list[Part]
    scores: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
    least: float

    def shares(self, family: str, size: int) -> list[float] | None:
        """Per cent withheld: of other families, without their tools, and of answered queries."""
        own = [scores for part, scores in zip(self.parts, self.scores, strict=True) if (part.family, part.size) == (family, size)]
        if not own:
            return None
        return [100 * float(np.mean([(scores[at] < self.least).mean() for scores in own])) for at in (1, 2, 0)]

    def by_own_threshold(self, family: str) -> float:
        """Other families withheld when the whole catalog has a threshold of its own."""
        for part, (answered, others, _) in zip(self.parts, self.scores, strict=True):
            if part.family == family and part.size == cs.WHOLE:
                return 100 * float((others < np.quantile(answered, LOST)).mean())
        raise KeyError(family)


def left_out(parts: list[Part], used: tuple[str, ...]) -> Figures:
    """Each family by the rule of the others, and one threshold that loses `LOST` of the answered queries."""
    rules = {name: fit([part for part in parts if part.family != name], used) for name in pp.TRAINED}
    scores = [tuple(rules[part.family].scores(found) for found in (part.answered, part.others, part.removed)) for part in parts]
    least = threshold(np.concatenate([answered for answered, _, _ in scores]), weights(parts, lambda part: part.answered))
    return Figures(parts, scores, least)


TRIED = (
    ("lexical", "similarity"),
    ("lexical", "similarity", "tools"),
    ("lexical", "similarity", "tools", "background"),
    ("lexical", "similarity", "tools", "background", "near"),
    MEANING,
)


def report(parts: list[Part], measured: list[Part], rule: Rule, least: float) -> Iterator[str]:
    """The tables of `MODEL_CARD.md`."""
    sizes = [cut.tools for cut in cs.CUTS]
    yield "evidence, then other families / tools removed / lost for each size of catalog " + str(sizes)
    for used in TRIED:
        figures = left_out(parts, used)
        rows = [[figures.shares(name, size) for name in pp.TRAINED] for size in sizes]
        means = [np.mean([row for row in of_size if row], 0) for of_size in rows]
        own = np.mean([figures.by_own_threshold(name) for name in pp.TRAINED])
        shown = "  ".join("/".join(f"{value:.0f}" for value in mean) for mean in means)
        yield f"{'+'.join(used):60} {shown}  own threshold {own:.0f}"
    figures = left_out(parts, MEANING)
    for name in pp.TRAINED:
        shown = "  ".join("/".join(f"{value:.0f}" for value in figures.shares(name, size) or []) or "-" for size in sizes)
        yield f"{name:16} {shown}  own threshold {figures.by_own_threshold(name):.0f}"
    if measured:
        scores = [tuple(rule.scores(found) for found in (part.answered, part.others, part.removed)) for part in measured]
        figures = Figures(measured, scores, least)
        for name in dict.fromkeys(part.family for part in measured):
            shown = "  ".join("/".join(f"{value:.0f}" for value in figures.shares(name, size) or []) or "-" for size in sizes)
            yield f"{name:16} {shown}  own threshold {figures.by_own_threshold(name):.0f}"


def settings(rule: Rule, least: float) -> dict[str, Any]:
    """`confidence` of the header. Six digits: the header is read by people too."""
    found = dict(zip(("bias", *MEANING), rule.meaning, strict=True))
    found |= dict(zip(("words_bias", *(f"words_{name}" for name in WORDS)), rule.words, strict=True))
    found["nothing_below"] = 1 / (1 + np.exp(-least))
    return {name: float(f"{value:.6g}") for name, value in found.items()} | {"tools_from": TOOLS_FROM, "tools_to": TOOLS_TO}


def sample(parts: list[Part], header: dict[str, Any], count: int = 48) -> Iterator[str]:
    """Evidence and the confidence that the engine must have in it."""
    chance = np.random.default_rng(3)
    fusion = header["fusion"]
    for at in range(count):
        part = parts[int(chance.integers(len(parts)))]
        found = (part.answered, part.others, part.removed)[at % 3]
        row = found.columns[int(chance.integers(len(found.named)))]
        values = dict(zip(("lexical", "similarity", "whole", "near", "far"), (float(f"{value:.5g}") for value in row), strict=False))
        tools = [1, 9, 10, 11, 40_000][at] if at < 5 else round(float(np.exp(row[-1])))
        known = [0.0, 1.0, 0.6, fusion["known_from"], fusion["known_to"]][at % 5]
        evidence = fs.Evidence(**values, tools=tools, known=known)
        if at % 12 == 11:
            evidence.lexical = 0.93
        yield json.dumps({**vars(evidence), "confidence": round(fs.confidence(evidence, header), 9)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the labelled sets")
    parser.add_argument("--folds", type=Path, required=True, help="folder of the left-out students")
    parser.add_argument("--candidates", type=Path, required=True, help="the built example of that name")
    parser.add_argument("--work", type=Path, default=pp.ROOT / "target/train", help="folder that `train.py` prepared")
    parser.add_argument("--model", type=Path, default=pp.ROOT / "crates/pegboard-engine/model/pegboard.model")
    parser.add_argument("--measured", nargs="*", default=["ultratool"], help="sets that are only measured on")
    parser.add_argument("--only", choices=["measure"], help="leave the model file as it is")
    options = parser.parse_args()

    model = rf.read(options.model)
    families = {name: cs.Family(options.data, name) for name in (*pp.TRAINED, *options.measured)}
    texts = read_texts(model, families, options.data)
    every = list(cs.cases(families, list(pp.TRAINED), options.candidates))
    # The arrays of a student are in the order of the prepared vocabulary, which is sorted differently.
    vocabulary = (options.work / "vocabulary.txt").read_text(encoding="utf-8").split("\n")[:-1]
    parts: list[Part] = []
    for name in pp.TRAINED:
        student = Student(pack.pack(dict(np.load(options.folds / f"{name}.npz")), vocabulary, SETTINGS), texts)
        parts += parts_of(student, [case for case in every if case.family == name])
        print(name, flush=True)
    final = Student(model, texts)
    measured = parts_of(final, [case for case in every if case.family in options.measured])
    rule, least = fit(parts), left_out(parts, MEANING).least
    for line in report(parts, measured, rule, least):
        print(line, flush=True)
    print(json.dumps(settings(rule, least)))
    if options.only != "measure":
        model.header["confidence"] = settings(rule, least)
        model.background = bg.stored(final.background(frozenset()))
        model.write(options.model)
        lines = "".join(f"{line}\n" for line in sample(parts, model.header))
        (Path(__file__).parent / "confidence.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
