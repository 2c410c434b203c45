"""MiniLM: the start of the table, and, tuned on the labelled sets, the student's teacher."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoModel, AutoTokenizer

from prepare import teacher_text
from sets import N_FIELDS, Bags, Padded, Set, mixed, padded, relative, set_shares

TOOL_TOKENS = 112
QUERY_TOKENS = 72
RATE = 5e-5
KEPT_SHARE = 0.3
"""The tuned encoder is averaged with this much of the untuned one: it forgets less."""


class Encoder:
    """A sentence encoder: mean of the last layer, at unit length."""

    def __init__(self, folder: Path, device: torch.device):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder, dtype=torch.float32).to(device)
        self.device = device

    def tokens(self, texts: list[str], length: int) -> list[list[int]]:
        """Token numbers with the two marks around them."""
        # The tokenizer refuses an empty list: no query of a set may hold several requests.
        return self.tokenizer(texts, truncation=True, max_length=length)["input_ids"] if texts else []

    def forward(self, lists: list[list[int]]) -> torch.Tensor:
        """Unit vectors of token lists."""
        rows = [torch.tensor(entry) for entry in lists]
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self.device, non_blocking=True)
        mask = padded != 0
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"):
            states = self.model(input_ids=padded, attention_mask=mask.long()).last_hidden_state
        states, mask = states.float(), mask[..., None].float()
        return F.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)

    @torch.no_grad()
    def encode(self, lists: list[list[int]], batch: int = 1024) -> torch.Tensor:
        """Vectors of many texts, those of like length together."""
        self.model.eval()
        order = sorted(range(len(lists)), key=lambda row: len(lists[row]))
        vectors = torch.empty(len(lists), self.model.config.hidden_size, device=self.device)
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            vectors[torch.tensor(rows, device=self.device)] = self.forward([lists[row] for row in rows])
        return vectors


@dataclass
class Teacher:
    """The teacher's vectors of everything that the student learns from."""

    words: torch.Tensor
    """One for each entry of the vocabulary."""
    phrases: tuple[Padded, torch.Tensor]
    tools: dict[str, torch.Tensor] = field(default_factory=dict)
    queries: dict[str, torch.Tensor] = field(default_factory=dict)
    parts: dict[str, torch.Tensor] = field(default_factory=dict)
    made_up: dict[str, tuple[Padded, torch.Tensor]] = field(default_factory=dict)

    def similarities(self, data: Set, rows: torch.Tensor, share: float) -> torch.Tensor:
        """Queries of `rows` by tools, mixed like the student's."""
        tools = self.tools[data.name]
        return mixed(data, rows, share, self.queries[data.name][rows] @ tools.T, self.parts[data.name] @ tools.T)


def tune(encoder: Encoder, sets: list[Set], rows: dict, texts: dict, steps: int, seed: int) -> None:
    """Teaches the encoder that queries lie near their tools and away from like-worded others."""
    generator = torch.Generator().manual_seed(seed)
    before = copy.deepcopy(encoder.model.state_dict())
    shares = set_shares(sets, rows)
    optimizer = torch.optim.AdamW(encoder.model.parameters(), lr=RATE, weight_decay=0.01)
    encoder.model.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 30) * (1 - step / steps)
        data = sets[int(torch.multinomial(shares, 1, generator=generator))]
        own = rows[data.name]
        batch = own[torch.randperm(len(own), generator=generator)[:128].to(own.device)]
        relevant = data.relevant[batch]
        positive = torch.multinomial(relevant.float(), 1).squeeze(1)
        negative = torch.multinomial((relative(data.lexical[batch]) * ~relevant).pow(2) + 1e-5, 2).flatten()
        chosen = torch.cat([positive, negative]).unique()
        tools = encoder.forward([texts[data.name]["tool_tokens"][tool] for tool in chosen.tolist()])
        queries = encoder.forward([texts[data.name]["query_tokens"][query] for query in batch.tolist()])
        asked = relevant[:, chosen]
        logits = queries @ tools.T * 25
        others = torch.logsumexp(logits.masked_fill(asked, -1e4), 1, keepdim=True)
        loss = ((F.softplus(others - logits) * asked).sum(1) / asked.sum(1)).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    after = encoder.model.state_dict()
    mean = {
        key: torch.lerp(after[key], value, KEPT_SHARE) if value.is_floating_point() else value
        for key, value in before.items()
    }
    encoder.model.load_state_dict(mean)


def teach(encoder: Encoder, sets: list[Set], texts: dict, vocabulary: list[str], made_up: int, seed: int) -> Teacher:
    """Encodes words, phrases, tools, queries, and `made_up` queries for each tool."""
    generator = torch.Generator().manual_seed(seed)

    def encoded(lists: list[list[int]]) -> tuple[Padded, torch.Tensor]:
        offsets = torch.tensor([0] + [len(entry) for entry in lists]).cumsum(0).to(encoder.device)
        bags = Bags(torch.tensor([token for entry in lists for token in entry]).to(encoder.device), offsets)
        vectors = encoder.encode(encoder.tokens([spell(entry, vocabulary) for entry in lists], 40))
        return padded(bags, 16).take(torch.arange(len(lists), device=encoder.device)), vectors

    counts = sum(torch.bincount(data.tools.ids, minlength=len(vocabulary)) for data in sets)
    taught = Teacher(words_of(encoder, vocabulary), encoded(make_phrases(vocabulary, counts.cpu(), generator)))
    for data in sets:
        taught.tools[data.name] = encoder.encode(texts[data.name]["tool_tokens"])
        taught.made_up[data.name] = encoded(make_up(data, made_up, generator))
        if data.n_queries:
            taught.queries[data.name] = encoder.encode(texts[data.name]["query_tokens"])
            parts = [spell(data.parts.list(part), vocabulary) for part in range(len(data.parts))]
            taught.parts[data.name] = encoder.encode(encoder.tokens(parts, 40))
    return taught


def make_up(data: Set, count: int, generator: torch.Generator) -> list[list[int]]:
    """Queries of stretches of a tool's texts."""
    ids, offsets = data.tools.ids.tolist(), data.tools.offsets.tolist()
    draws = torch.rand(data.n_tools * count, 3, generator=generator).tolist()
    lists: list[list[int]] = []
    for at, (kind, where, length) in enumerate(draws):
        first = at // count * N_FIELDS
        texts = [ids[offsets[row] : offsets[row + 1]] for row in range(first, first + N_FIELDS)]
        source = texts[1] if kind < 0.6 else texts[3] if kind < 0.75 else texts[2]
        width = 4 + int(length * 10)
        start = int(where * max(1, len(source) - width))
        stretch = source[start : start + width]
        if kind >= 0.6:
            stretch = texts[0][:6] + stretch[:6]
        if stretch:
            lists.append(stretch)
    return lists


def make_phrases(vocabulary: list[str], counts: torch.Tensor, generator: torch.Generator) -> list[list[int]]:
    """Every word three times, among one to four others: so that also words of no tool are taught."""
    whole = torch.tensor([not entry.startswith("##") and len(entry) > 1 for entry in vocabulary])
    words = whole.nonzero().squeeze(1)
    common = (counts.float() + 0.5).sqrt() * whole
    lists: list[list[int]] = []
    for _ in range(3):
        others = torch.multinomial(common, 4 * len(words), replacement=True, generator=generator).view(-1, 4)
        uniform = words[torch.randint(len(words), (len(words), 2), generator=generator)]
        others[:, :1] = uniform[:, :1]
        numbers = torch.randint(1, 5, (len(words),), generator=generator).tolist()
        places = torch.rand(len(words), generator=generator).tolist()
        rows = zip(words.tolist(), others.tolist(), numbers, places, strict=True)
        for word, beside, number, place in rows:
            phrase = beside[:number]
            phrase.insert(int(place * (number + 1)), word)
            lists.append(phrase)
    return lists


def spell(ids: list[int], vocabulary: list[str]) -> str:
    """Tokens as text."""
    return " ".join(vocabulary[token] for token in ids).replace(" ##", "")


def read_texts(encoder: Encoder, texts: dict) -> None:
    """Adds the encoder's tokens to the prepared texts."""
    for entry in texts.values():
        entry["tool_tokens"] = encoder.tokens([teacher_text(fields) for fields in entry["fields"]], TOOL_TOKENS)
        if entry["queries"]:
            entry["query_tokens"] = encoder.tokens(entry["queries"], QUERY_TOKENS)


def words_of(encoder: Encoder, vocabulary: list[str]) -> torch.Tensor:
    """Each vocabulary entry through the encoder by itself."""
    known = encoder.tokenizer.get_vocab()
    begin, end = encoder.tokenizer.cls_token_id, encoder.tokenizer.sep_token_id
    inside = [[known[word]] if word in known else encoder.tokens([word], 32)[0][1:-1] for word in vocabulary]
    return encoder.encode([[begin, *entry, end] for entry in inside])
