"""Prepared sets on the device, and the measures taken on them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import tools as tl
from prepare import OWN

N_FIELDS = len(tl.FIELDS)

OWN_SHARE = 0.4
"""How much less often a set of our own is learned from than another of its size."""


@dataclass
class Bags:
    """Lists of tokens end to end, and where each begins and ends."""

    ids: torch.Tensor
    offsets: torch.Tensor

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: torch.Tensor) -> Bags:
        """The lists of `rows`."""
        starts, ends = self.offsets[rows], self.offsets[rows + 1]
        lengths = ends - starts
        offsets = torch.zeros(len(rows) + 1, dtype=torch.long, device=self.ids.device)
        torch.cumsum(lengths, 0, out=offsets[1:])
        owner = torch.repeat_interleave(torch.arange(len(rows), device=self.ids.device), lengths)
        within = torch.arange(int(offsets[-1]), device=self.ids.device) - offsets[owner]
        return Bags(self.ids[starts[owner] + within], offsets)

    def list(self, row: int) -> list[int]:
        """One list, on the host."""
        return self.ids[self.offsets[row] : self.offsets[row + 1]].tolist()


@dataclass
class Padded:
    """Lists of different tokens with their counts, filled up to one width: training knows all
    sizes beforehand and never waits for the device."""

    ids: torch.Tensor
    counts: torch.Tensor

    def take(self, rows: torch.Tensor) -> Padded:
        """The lists of `rows`."""
        return Padded(self.ids[rows], self.counts[rows])

    def __len__(self) -> int:
        return len(self.ids)


PADDING_TOKENS = 20_000
"""Padding is spread over so many tokens."""


def padded(bags: Bags, width: int) -> Padded:
    """The first `width` different tokens of each list, and at the end an empty list."""
    ids, offsets = bags.ids.cpu().numpy(), bags.offsets.cpu().numpy()
    # Padding weighs nothing, but all of it on one token would make every gradient wait for that row.
    found = np.random.default_rng(0).integers(0, PADDING_TOKENS, (len(bags) + 1, width))
    counts = np.zeros((len(bags) + 1, width), np.float32)
    for row in range(len(bags)):
        different: dict[int, int] = {}
        for token in ids[offsets[row] : offsets[row + 1]].tolist():
            different[token] = different.get(token, 0) + 1
        kept = list(different.items())[:width]
        if kept:
            found[row, : len(kept)], counts[row, : len(kept)] = zip(*kept, strict=True)
    device = bags.ids.device
    return Padded(torch.from_numpy(found).to(device), torch.from_numpy(counts).to(device))


TRAINED_WIDTHS = (12, 64, 24, 40, 6, 24)
"""Different tokens of each field that training looks at."""


@dataclass
class Trained:
    """A set as training sees it."""

    tools: Padded
    queries: Padded | None = None
    parts: Padded | None = None
    parts_of: torch.Tensor | None = None
    """Queries by requests: the number of each request, the last one (empty) where there is none."""


def trained(data: Set, most_parts: int = 12) -> Trained:
    """Fills up the lists of a set."""
    device = data.tools.ids.device
    fields = []
    for field, width in enumerate(TRAINED_WIDTHS):
        rows = torch.arange(field, len(data.tools), N_FIELDS, device=device)
        fields.append(padded(data.tools.take(rows), width))
    tools = Padded(torch.cat([own.ids[:-1] for own in fields], 1), torch.cat([own.counts[:-1] for own in fields], 1))
    found = Trained(tools)
    if data.queries is not None:
        found.queries, found.parts = padded(data.queries, 64), padded(data.parts, 24)
        parts_of = np.full((data.n_queries, most_parts), len(data.parts))
        used = np.zeros(data.n_queries, np.int64)
        for part, owner in enumerate(data.part_owner.tolist()):
            if used[owner] < most_parts:
                parts_of[owner, used[owner]] = part
                used[owner] += 1
        found.parts_of = torch.from_numpy(parts_of).to(device)
    return found


@dataclass
class Set:
    """One set: tools by field, queries as a whole and by request, labels and lexical scores."""

    name: str
    tools: Bags
    queries: Bags | None = None
    parts: Bags | None = None
    part_owner: torch.Tensor | None = None
    relevant: torch.Tensor | None = None
    """Queries by tools, true where labelled."""
    lexical: torch.Tensor | None = None
    """Queries by tools, the lexical score of each hit."""
    trained: Trained | None = None
    words: torch.Tensor | None = None
    unmatched: torch.Tensor | None = None

    @property
    def n_tools(self) -> int:
        return len(self.tools) // N_FIELDS

    @property
    def n_queries(self) -> int:
        return len(self.queries) if self.queries is not None else 0


def load(folder: Path, name: str, device: torch.device) -> Set:
    """Reads what `prepare.py` wrote."""
    arrays = np.load(folder / f"{name}.npz")

    def tensor(key: str) -> torch.Tensor:
        return torch.from_numpy(arrays[key].astype(np.int64)).to(device)

    def bags(key: str) -> Bags:
        return Bags(tensor(f"{key}_ids"), tensor(f"{key}_offsets"))

    found = Set(name, bags("tool"))
    if "query_ids" in arrays:
        found.queries, found.parts, found.part_owner = bags("query"), bags("part"), tensor("part_owner")
        shape = (found.n_queries, found.n_tools)
        found.relevant = torch.zeros(shape, dtype=torch.bool, device=device)
        labels = bags("label")
        found.relevant[rows_of(labels), labels.ids] = True
        hits = bags("lexical")
        found.lexical = torch.zeros(shape, device=device)
        scores = torch.from_numpy(arrays["lexical_scores"].astype(np.float32)).to(device)
        found.lexical[rows_of(hits), hits.ids] = scores
        found.words, found.unmatched = tensor("words"), tensor("unmatched")
    return found


def rows_of(bags: Bags) -> torch.Tensor:
    """For each token the number of its list."""
    lengths = bags.offsets[1:] - bags.offsets[:-1]
    return torch.repeat_interleave(torch.arange(len(bags), device=bags.ids.device), lengths)


def relative(lexical: torch.Tensor) -> torch.Tensor:
    """Scores as shares of the query's best."""
    return lexical / lexical.max(1, keepdim=True).values.clamp(min=1e-6)


def recall(scores: torch.Tensor, relevant: torch.Tensor, at: int = 5) -> torch.Tensor:
    """Recall of each query among the `at` best."""
    top = scores.topk(min(at, scores.shape[1]), 1).indices
    return relevant.gather(1, top).sum(1) / relevant.sum(1)


def mixed(data: Set, rows: torch.Tensor, share: float, whole: torch.Tensor, parts: torch.Tensor) -> torch.Tensor:
    """Similarities of the queries `rows` (`whole`), mixed with the best of their requests.

    `parts` holds those of all requests of the set.
    """
    if share == 0 or len(parts) == 0:
        return whole
    place = torch.full((data.n_queries,), -1, device=rows.device)
    place[rows] = torch.arange(len(rows), device=rows.device)
    owner = place[data.part_owner]
    wanted = owner >= 0
    best = torch.full_like(whole, -1.0).index_reduce(0, owner[wanted], parts[wanted], "amax")
    several = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    several[owner[wanted]] = True
    return torch.where(several[:, None], (1 - share) * whole + share * best, whole)


def set_shares(sets: list[Set], rows: dict) -> torch.Tensor:
    """How often each set is learned from: by the root of its queries, those of our own less often."""
    return torch.tensor([len(rows[data.name]) ** 0.5 * (OWN_SHARE if data.name in OWN else 1.0) for data in sets])
