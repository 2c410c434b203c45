"""Which families a run learns from and which it is measured on, and one run from start to end."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

import sets as st
import student as sd
import teacher as tc
from folds_of import EVERYTHING, LEFT_OUT
from prepare import FAMILIES, OWN

HELD_OUT = "held-out"


@dataclass
class World:
    """Everything prepared, on the device."""

    labelled: dict[str, st.Set]
    texts: dict
    vocabulary: list[str]
    device: torch.device


def load_world(folder: Path, device: torch.device) -> World:
    """Reads the prepared folder."""
    with gzip.open(folder / "texts.json.gz", "rt", encoding="utf-8") as file:
        texts = json.load(file)
    vocabulary = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")[:-1]
    labelled = {name: st.load(folder, name, device) for name in FAMILIES + OWN}
    for data in labelled.values():
        data.trained = st.trained(data)
    return World(labelled, texts, vocabulary, device)


@dataclass
class Fold:
    """What is learned from, and which queries are measured on."""

    name: str
    learned: list[st.Set]
    rows: dict[str, torch.Tensor]
    measured: dict[str, torch.Tensor]


def fold(world: World, name: str) -> Fold:
    """Leaves the families of the fold `name` out; or every fifth query of all families; or nothing."""
    every = {key: torch.arange(data.n_queries, device=world.device) for key, data in world.labelled.items()}
    if name in LEFT_OUT:
        learned = [data for key, data in world.labelled.items() if key not in LEFT_OUT[name]]
        measured = {key: every[key] for key in LEFT_OUT[name]}
        rows = every
    else:
        learned = list(world.labelled.values())
        rows, measured = every, {}
        if name == HELD_OUT:
            rows = {key: rows_of[rows_of % 5 != 0] for key, rows_of in every.items()}
            measured = {key: rows_of[rows_of % 5 == 0] for key, rows_of in every.items()}
    return Fold(name, learned, rows, measured)


def first_weights(world: World, chosen: Fold) -> tuple[torch.Tensor, torch.Tensor]:
    """Rarity of each token: among tools, and among tools and queries."""
    size = len(world.vocabulary)
    counts = torch.zeros(size, device=world.device)
    n_texts = 0
    for data in chosen.learned:
        owner = st.rows_of(data.tools) // st.N_FIELDS
        pairs = torch.unique(owner * size + data.tools.ids)
        counts += torch.bincount(pairs % size, minlength=size)
        n_texts += data.n_tools
    tool = torch.log((n_texts + 1) / (counts + 1))
    for data in chosen.learned:
        bags = data.queries.take(chosen.rows[data.name])
        pairs = torch.unique(st.rows_of(bags) * size + bags.ids)
        # There are fewer queries than tools; they count as if there were as many.
        counts += 3 * torch.bincount(pairs % size, minlength=size)
        n_texts += 3 * len(bags)
    query = torch.log((n_texts + 1) / (counts + 1))
    return query.clamp(max=7) / 5, tool.clamp(max=7) / 5


def start(world: World, chosen: Fold, taught: tc.Teacher, config: sd.Config) -> sd.Student:
    """A student after the first stage."""
    torch.manual_seed(config.seed)
    sources = chosen.learned
    texts = [taught.phrases[1]] + [taught.made_up[data.name][1] for data in sources]
    texts += [taught.tools[data.name] for data in sources]
    texts += [taught.queries[data.name][chosen.rows[data.name]] for data in chosen.learned]
    every = torch.cat(texts)
    mean = every.mean(0)
    _, _, directions = torch.linalg.svd((every - mean)[:: max(1, len(every) // 40_000)], full_matrices=False)
    directions = directions[: config.dims].T

    def project(vectors: torch.Tensor) -> torch.Tensor:
        return F.normalize((vectors - mean) @ directions, dim=-1)

    table = F.normalize((taught.words - taught.words.mean(0)) @ directions, dim=-1)
    query, tool = first_weights(world, chosen)
    model = sd.Student(table, query, tool, config).to(world.device)
    if config.copy_steps:
        sd.copy_teacher(model, sources, chosen.rows, taught, project)
    return model


def teacher_of(world: World, chosen: Fold, minilm: Path, steps: int, made_up: int, seed: int) -> tc.Teacher:
    """A teacher that has seen what the fold may see."""
    torch.manual_seed(seed)
    encoder = tc.Encoder(minilm, world.device)
    if "tool_tokens" not in next(iter(world.texts.values())):
        tc.read_texts(encoder, world.texts)
    if steps:
        tc.tune(encoder, chosen.learned, chosen.rows, world.texts, steps, seed)
    return tc.teach(encoder, list(world.labelled.values()), world.texts, world.vocabulary, made_up, seed)
