"""The model that ships: a table of token vectors with query and tool weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from sets import N_FIELDS, TRAINED_WIDTHS, Padded, Set, recall, relative, set_shares
from teacher import Teacher
from tools import POWERS


@dataclass
class Config:
    """What a training run turns on."""

    dims: int = 256
    seed: int = 7
    scale: float = 20.0
    """Of cosines, inside a softmax; for the teacher's too."""
    powers: tuple[float, ...] = POWERS
    requests: float = 0.6
    """How much the best request of a query counts beside the whole."""
    drop: float = 0.15
    """The share of tokens that are left out of queries and tools in training."""

    copy_steps: int = 800
    """Of the first stage, which copies the teacher's vectors."""
    copy_batch: int = 2048
    copy_rate: float = 3e-3
    phrases: bool = True

    steps: int = 450
    """Of the second stage, which learns to rank."""
    batch: int = 128
    table_rate: float = 1e-3
    map_rate: float = 3e-4
    weight_rate: float = 1e-2
    alone: float = 1.0
    """Weight of the loss of the model by itself."""
    fused: float = 1.0
    """Weight of the loss together with the lexical scores."""
    selfsup: float = 0.5
    distil: float = 1.0
    """Weight of agreeing with the teacher on made-up queries."""
    distil_real: float = 1.0
    """Weight of agreeing with the teacher on labelled queries."""
    sampled: int = 1024
    """Tools that a step looks at."""
    selfsup_batch: int = 384
    hard: int = 8
    """Sampled tools for each query, from those that the lexical ranker or the teacher ranks high."""


class Student(nn.Module):
    """Token vectors, mapped by one matrix for all, and pooled with learned weights."""

    def __init__(self, table: torch.Tensor, query_weight: torch.Tensor, tool_weight: torch.Tensor, config: Config):
        super().__init__()
        self.config = config
        self.vectors = nn.Parameter(table.clone())
        self.map = nn.Parameter(torch.eye(table.shape[1], device=table.device))
        self.query_weight = nn.Parameter(query_weight.clamp(min=1e-3).log())
        self.tool_weight = nn.Parameter(tool_weight.clamp(min=1e-3).log())
        field_weight = torch.tensor([1.5, 1.0, 0.5, 0.5, 0.7, 0.3], device=table.device)
        self.field_weight = nn.Parameter(field_weight.log())
        field_of = [field for field, width in enumerate(TRAINED_WIDTHS) for _ in range(width)]
        self.register_buffer("field_of", torch.tensor(field_of, device=table.device))
        self.register_buffer("powers", torch.tensor(config.powers, device=table.device))
        self.register_buffer("member", F.one_hot(self.field_of, N_FIELDS).float())
        self.alpha = nn.Parameter(torch.tensor(math.log(2.0), device=table.device))
        self.sharpness = nn.Parameter(torch.tensor(math.log(8.0), device=table.device))

    def table(self) -> torch.Tensor:
        """The token vectors."""
        return self.vectors @ self.map

    def drop(self, weights: torch.Tensor) -> torch.Tensor:
        """Forgets some tokens while training."""
        if self.training and self.config.drop > 0:
            return weights * (torch.rand_like(weights) >= self.config.drop)
        return weights

    def queries(self, table: torch.Tensor, lists: Padded) -> torch.Tensor:
        """A unit vector for each query."""
        weights = self.drop(self.query_weight[lists.ids].exp() * lists.counts)
        return F.normalize(pool(table, lists.ids, weights), dim=-1)

    def tools(self, table: torch.Tensor, lists: Padded, left_out: torch.Tensor | None = None) -> torch.Tensor:
        """A unit vector for each tool; of its field `left_out` nothing is taken."""
        weights = self.drop(self.tool_weight[lists.ids].exp() * lists.counts)
        if left_out is not None:
            weights = weights * (self.field_of[None] != left_out[:, None])
        totals = weights @ self.member
        factors = self.field_weight.exp() / (totals + 1.0).pow(self.powers)
        return F.normalize(pool(table, lists.ids, weights * factors[:, self.field_of]), dim=-1)

    def similarities(self, table: torch.Tensor, data: Set, rows: torch.Tensor, tools: torch.Tensor) -> torch.Tensor:
        """Queries of `rows` by tools: the whole query mixed with its best request."""
        own = data.trained
        whole = self.queries(table, own.queries.take(rows)) @ tools.T
        if self.config.requests == 0:
            return whole
        chosen = own.parts_of[rows]
        parts = self.queries(table, own.parts.take(chosen.reshape(-1))) @ tools.T
        there = (chosen < len(own.parts) - 1)[..., None]
        best = parts.view(*chosen.shape, -1).masked_fill(~there, -1.0).amax(1)
        share = self.config.requests
        return torch.where(there.any(1), (1 - share) * whole + share * best, whole)


def pool(table: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Weighted sums of token vectors."""
    rows = table.index_select(0, ids.reshape(-1)).view(*ids.shape, -1)
    return torch.bmm(weights[:, None, :], rows).squeeze(1)


def copy_teacher(model: Student, sets: list[Set], rows: dict, teacher: Teacher, project) -> None:
    """First stage: vectors of texts should lie where the teacher's, made smaller by `project`, lie."""
    config = model.config
    sources = [
        (data.trained.queries.take(rows[data.name]), teacher.queries[data.name][rows[data.name]])
        for data in sets
        if data.n_queries
    ]
    sources += [teacher.made_up[data.name] for data in sets]
    if config.phrases:
        sources.append(teacher.phrases)
    sizes = torch.tensor([len(bags) ** 0.75 for bags, _ in sources])
    counts = (sizes / sizes.sum() * config.copy_batch).round().long().tolist()
    tool_sizes = torch.tensor([data.n_tools**0.5 for data in sets])
    targets = [project(vectors) for _, vectors in sources]
    tool_targets = {data.name: project(teacher.tools[data.name]) for data in sets}
    device = model.vectors.device
    optimizer = torch.optim.Adam(
        [
            {"params": [model.vectors], "lr": config.copy_rate},
            {"params": [model.query_weight, model.tool_weight, model.field_weight], "lr": config.weight_rate},
        ],
        betas=(0.9, 0.99),
    )
    rates = [group["lr"] for group in optimizer.param_groups]
    generator = torch.Generator().manual_seed(config.seed)
    model.train()
    for step in range(config.copy_steps):
        schedule(optimizer, rates, step, config.copy_steps)
        loss = 0
        vectors, wanted = [], []
        for (bags, _), target, count in zip(sources, targets, counts, strict=True):
            chosen = torch.randint(len(bags), (count,), generator=generator).to(device)
            vectors.append(model.queries(model.vectors, bags.take(chosen)))
            wanted.append(target[chosen])
        loss = alignment(torch.cat(vectors), torch.cat(wanted), config)
        data = sets[int(torch.multinomial(tool_sizes, 1, generator=generator))]
        chosen = torch.randint(data.n_tools, (384,), generator=generator).to(device)
        loss = loss + alignment(model.tools(model.vectors, data.trained.tools.take(chosen)), tool_targets[data.name][chosen], config)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    model.eval()


def alignment(vectors: torch.Tensor, wanted: torch.Tensor, config: Config) -> torch.Tensor:
    """How far vectors are from where they should be, and how well each is told from the others."""
    labels = torch.arange(len(vectors), device=vectors.device)
    return (1 - (vectors * wanted).sum(1)).mean() * 2 + F.cross_entropy(vectors @ wanted.T * config.scale, labels) * 0.5


def schedule(optimizer, rates: list[float], step: int, steps: int) -> None:
    """A short rise and a half cosine down."""
    factor = min(1.0, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * step / steps))
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate * factor


def loss_of(logits: torch.Tensor, relevant: torch.Tensor) -> torch.Tensor:
    """Each relevant tool against all that are not relevant, averaged."""
    others = torch.logsumexp(logits.masked_fill(relevant, -1e4), 1, keepdim=True)
    return ((F.softplus(others - logits) * relevant).sum(1) / relevant.sum(1)).mean()


def selfsup_loss(model: Student, table: torch.Tensor, data: Set, chosen: torch.Tensor, tools: torch.Tensor):
    """A part of a tool must find the rest of it: its name, or a third of its description."""
    count = min(model.config.selfsup_batch, len(chosen))
    places = torch.randperm(len(chosen), device=tools.device)[:count]
    lists = data.trained.tools.take(chosen[places])
    field = (torch.rand(count, device=tools.device) < 0.5).long()
    asked = (model.field_of[None] == field[:, None]).float()
    kept = asked * torch.where(field[:, None] == 1, (torch.rand_like(asked) < 0.3).float(), 1.0)
    query = model.queries(table, Padded(lists.ids, lists.counts * kept))
    rest = model.tools(table, lists, field)
    usable = ((lists.counts * kept).sum(1) > 0) & (rest.norm(dim=-1) > 0)
    logits = query @ tools.T
    logits = logits.index_put((torch.arange(count, device=tools.device), places), (query * rest).sum(1))
    each = F.cross_entropy(logits * model.config.scale, places, reduction="none")
    return (each * usable).sum() / usable.sum().clamp(min=1)


def train(model: Student, sets: list[Set], rows: dict, teacher: Teacher) -> None:
    """Second stage: ranks, alone and together with the lexical scores, on sampled tools."""
    config = model.config
    generator = torch.Generator().manual_seed(config.seed)
    groups = [([model.vectors], config.table_rate), ([model.map], config.map_rate)]
    groups.append(([model.query_weight, model.tool_weight, model.field_weight], config.weight_rate))
    groups.append(([model.alpha, model.sharpness], config.weight_rate))
    optimizer = torch.optim.Adam([{"params": own, "lr": rate} for own, rate in groups], betas=(0.9, 0.99))
    rates = [rate for _, rate in groups]
    shares = set_shares(sets, rows)
    tool_shares = torch.tensor([data.n_tools**0.5 for data in sets])
    wanted = {data.name: teacher.similarities(data, torch.arange(data.n_queries, device=model.vectors.device), config.requests) for data in sets}
    model.train()
    for step in range(config.steps):
        schedule(optimizer, rates, step, config.steps)
        table = model.table()
        data = sets[int(torch.multinomial(shares, 1, generator=generator))]
        loss = labelled_loss(model, table, data, rows[data.name], wanted[data.name], generator)
        if config.selfsup + config.distil > 0:
            other = sets[int(torch.multinomial(tool_shares, 1, generator=generator))]
            chosen = torch.randperm(other.n_tools, generator=generator)[: config.sampled].to(table.device)
            tools = model.tools(table, other.trained.tools.take(chosen))
            if config.selfsup > 0:
                loss = loss + config.selfsup * selfsup_loss(model, table, other, chosen, tools)
            if config.distil > 0:
                bags, vectors = teacher.made_up[other.name]
                asked = torch.randint(len(bags), (256,), generator=generator).to(table.device)
                similar = model.queries(table, bags.take(asked)) @ tools.T
                target = vectors[asked] @ teacher.tools[other.name][chosen].T
                loss = loss + config.distil * divergence(similar, target, config)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    model.eval()


def labelled_loss(model, table, data: Set, rows: torch.Tensor, wanted: torch.Tensor, generator) -> torch.Tensor:
    """The loss on some labelled queries and the tools sampled for them."""
    config = model.config
    batch = rows[torch.randperm(len(rows), generator=generator)[: config.batch].to(rows.device)]
    relevant, lexical = data.relevant[batch], relative(data.lexical[batch])
    lists = data.trained.tools
    target = wanted[batch]
    if data.n_tools > config.sampled:
        likely = lexical.pow(2) + F.softmax(target * config.scale, 1) + 1e-5
        hard = torch.multinomial(likely, config.hard).flatten()
        random = torch.randint(data.n_tools, (512,), generator=generator).to(rows.device)
        chosen = torch.cat([relevant.any(0).nonzero().squeeze(1), hard, random]).unique()
        relevant, lexical, target = relevant[:, chosen], lexical[:, chosen], target[:, chosen]
        lists = lists.take(chosen)
    tools = model.tools(table, lists)
    similar = model.similarities(table, data, batch, tools)
    loss = config.alone * loss_of(similar * config.scale, relevant)
    if config.fused > 0:
        logits = (lexical + model.alpha.exp() * similar) * model.sharpness.exp()
        loss = loss + config.fused * loss_of(logits, relevant)
    if config.distil_real > 0:
        loss = loss + config.distil_real * divergence(similar, target, config)
    return loss


def divergence(similar: torch.Tensor, wanted: torch.Tensor, config: Config) -> torch.Tensor:
    """How differently student and teacher would choose."""
    target = F.softmax(wanted * config.scale, 1)
    return F.kl_div(F.log_softmax(similar * config.scale, 1), target, reduction="batchmean")


@torch.no_grad()
def arrays(model: Student) -> dict[str, np.ndarray]:
    """What the model file holds, the table in whole numbers with a scale for each row."""
    table = model.table()
    scale = table.abs().amax(1).clamp(min=1e-9) / 127
    found = {
        "table": (table / scale[:, None]).round().to(torch.int8),
        "scale": scale,
        "query_weight": model.query_weight.exp(),
        "tool_weight": model.tool_weight.exp(),
        "field_weight": model.field_weight.exp(),
        "alpha": model.alpha.exp(),
        "sharpness": model.sharpness.exp(),
    }
    return {name: value.cpu().numpy() for name, value in found.items()}


ALPHAS = (1.0, 1.5, 2.0, 3.0, 4.5)


def figures(data: Set, rows: torch.Tensor, similar: torch.Tensor) -> dict[str, float]:
    """Recall@5 of the lexical scores, of similarities, and of sums of both."""
    relevant, lexical = data.relevant[rows], relative(data.lexical[rows])
    found = {"lexical": recall(data.lexical[rows], relevant), "alone": recall(similar, relevant)}
    found |= {"lexical@1": recall(data.lexical[rows], relevant, 1), "alone@1": recall(similar, relevant, 1)}
    shares = relative(similar.clamp(min=0))
    for alpha in ALPHAS:
        found[f"+{alpha:g}"] = recall(lexical + alpha * shares, relevant)
        found[f"@1+{alpha:g}"] = recall(lexical + alpha * shares, relevant, 1)
    return {name: round(100 * float(values.mean()), 2) for name, values in found.items()}


@torch.no_grad()
def measure(model: Student, data: Set, rows: torch.Tensor) -> dict[str, float]:
    """`figures` of a student."""
    table = model.table()
    lists = data.trained.tools
    chunks = [model.tools(table, lists.take(torch.arange(at, min(at + 2048, len(lists)), device=rows.device))) for at in range(0, len(lists), 2048)]
    tools = torch.cat(chunks)
    similar = torch.cat([model.similarities(table, data, some, tools) for some in rows.split(256)])
    return figures(data, rows, similar)
