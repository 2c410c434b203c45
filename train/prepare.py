"""Reads the labelled sets, chooses the vocabulary, and writes everything that training needs
into one folder, so that the accelerator's machine needs neither the sets nor a Rust compiler.

For each set `NAME.npz` holds the tokens of its tools by field, of its queries as a whole and by
request, the labels, and what the lexical ranker answers. `texts.json.gz` holds what the teacher
reads, `vocabulary.txt` the vocabulary.
"""

from __future__ import annotations

import collections
import gzip
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import text as tx
import tools as tl
from ours import APIS, FLEET, read_lines

TRAINED = ("metatool", "sealtools", "bfcl", "toolbench", "toolret", "livemcp_route")
"""The labelled sets that a model may learn from; each is a family of its own."""

OURS = FLEET + APIS
"""Sets with short queries of our own, `ours.py`; families like the others."""

OWN = ("mixed", "life", "work", "ops", "office", "various")
"""Made-up tools and requests, written for this model, `everyday/NAME.tsv`: learned from whatever family is left out."""

FAMILIES = TRAINED + OURS

MEASURED = ("ultratool", "mcp_union")
"""Sets that are only ever measured on."""

LEXICAL_DEPTH = 1000
"""So many lexical hits of each query are kept."""

QUERY_TOKENS = 256

ROOT = Path(__file__).resolve().parent.parent


def write_own(name: str, folder: Path) -> None:
    """Makes a set on disk of `NAME.tsv`: a tool, its description, and requests for it on each line."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = (Path(__file__).parent / "everyday" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    entries = [line.split("\t") for line in lines]
    tools = [{"id": tool, "name": tool, "description": description} for tool, description, _ in entries]
    asked = [(tool, request) for tool, _, requests in entries for request in requests.split(" | ")]
    queries = [{"id": str(at), "query": request} for at, (_, request) in enumerate(asked)]
    labels = "".join(f"{at}\t{tool}\t1\n" for at, (tool, _) in enumerate(asked))
    for file, rows in (("tools.jsonl", tools), ("queries.jsonl", queries)):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / file).write_text(text, encoding="utf-8")
    (folder / "qrels.tsv").write_text(labels, encoding="utf-8")


def choose_vocabulary(pieces: list[str], folders: dict[str, Path], most: int) -> list[str]:
    """The Latin entries of the teacher's vocabulary, and words of tools that it would cut.

    A word is added when two families use it, so that leaving one of them out still means
    that the model knows nothing of that family alone.
    """
    kept = [entry for entry in pieces if re.fullmatch(r"##[a-z0-9]+|[a-z0-9]*[a-z][a-z0-9]*|[0-9]", entry)]
    known = set(kept)
    counts: collections.Counter[str] = collections.Counter()
    families: dict[str, set[str]] = collections.defaultdict(set)
    for name, folder in folders.items():
        texts = ["\n".join(tl.fields(tool)) for tool in read_lines(folder / "tools.jsonl")]
        texts += [query["query"] for query in read_lines(folder / "queries.jsonl")]
        for text in texts:
            found = {tx.folded(part) for word in tx.words(text) for part in tx.humps(word)}
            new = {word for word in found if word not in known and re.fullmatch(r"[a-z][a-z0-9]{1,23}", word)}
            counts.update(new)
            for word in new:
                # The servers of our authors are of one family here: their words are those of MCP servers.
                families[word].add("fleet" if name in FLEET else name)
    added = [word for word, count in counts.items() if count >= 3 and len(families[word]) >= 2]
    added.sort(key=lambda word: (-counts[word], word))
    return kept + sorted(added[:most])


def flat(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Lists end to end, and where each begins (with the end of the last)."""
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(entry) for entry in lists], out=offsets[1:])
    ids = np.fromiter((token for entry in lists for token in entry), np.int32, int(offsets[-1]))
    return ids, offsets


def tokens_of_query(tokenizer: tx.Tokenizer, text: str) -> tuple[list[int], list[list[int]], int, int]:
    """Its tokens as a whole, by request (nothing for a single one), and its words and known words."""
    found = tx.words(text)
    numbers = tx.requests(text, found)
    tokens = tx.Tokens([])
    parts: list[list[int]] = [[] for _ in range(max(numbers, default=0) + 1)]
    for word, number in zip(found, numbers, strict=True):
        before = len(tokens.ids)
        if before >= QUERY_TOKENS:
            break
        tokenizer.add(word, tokens)
        parts[number] += tokens.ids[before:]
    parts = [part for part in parts if part] if len(parts) > 1 else []
    return tokens.ids, parts if len(parts) > 1 else [], tokens.words, tokens.known


def lexical_answers(binary: Path, folder: Path) -> list[dict[str, Any]]:
    """What the lexical ranker answers to the queries of a set; the first entry names the tools."""
    run = subprocess.run([binary, folder, str(LEXICAL_DEPTH)], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def prepare_set(name: str, folder: Path, binary: Path, tokenizer: tx.Tokenizer, out: Path) -> dict[str, Any]:
    """Writes `NAME.npz`; the texts that the teacher reads."""
    tools = read_lines(folder / "tools.jsonl")
    field_texts = [tl.fields(tool) for tool in tools]
    lists = [
        tokenizer.tokenize(text, limit).ids
        for texts in field_texts
        for text, limit in zip(texts, tl.LIMITS, strict=True)
    ]
    arrays: dict[str, np.ndarray] = {}
    arrays["tool_ids"], arrays["tool_offsets"] = flat(lists)
    texts = {"fields": field_texts, "queries": prepare_queries(folder, binary, tokenizer, tools, arrays)}
    np.savez_compressed(out / f"{name}.npz", **arrays)
    return texts


def prepare_queries(
    folder: Path,
    binary: Path,
    tokenizer: tx.Tokenizer,
    tools: list[dict[str, Any]],
    arrays: dict[str, np.ndarray],
) -> list[str]:
    """Fills `arrays` with the queries that have a label; their texts."""
    answers = lexical_answers(binary, folder)
    named = answers.pop(0)["tools"]
    place = {tool["id"]: at for at, tool in enumerate(tools)}
    ours = np.array([place[identity] for identity in named])
    labels: dict[str, list[int]] = collections.defaultdict(list)
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, tool, *relevance = line.split("\t")
        if tool in place and float(relevance[0] if relevance else 1) > 0:
            labels[query].append(place[tool])
    answers = [answer for answer in answers if answer["id"] in labels]
    wanted = {query["id"]: query["query"] for query in read_lines(folder / "queries.jsonl")}
    texts = [wanted[answer["id"]] for answer in answers]
    read = [tokens_of_query(tokenizer, text) for text in texts]
    arrays["query_ids"], arrays["query_offsets"] = flat([whole for whole, *_ in read])
    parts = [(at, part) for at, (_, several, *_) in enumerate(read) for part in several]
    arrays["part_ids"], arrays["part_offsets"] = flat([part for _, part in parts])
    arrays["part_owner"] = np.array([at for at, _ in parts], np.int32)
    arrays["words"] = np.array([[known_of, known] for *_, known_of, known in read], np.int16)
    arrays["unmatched"] = np.array([len(answer["unmatched"]) for answer in answers], np.int16)
    arrays["label_ids"], arrays["label_offsets"] = flat([labels[answer["id"]] for answer in answers])
    hits = [[int(ours[number]) for number, _ in answer["hits"]] for answer in answers]
    arrays["lexical_ids"], arrays["lexical_offsets"] = flat(hits)
    scores = [score for answer in answers for _, score in answer["hits"]]
    arrays["lexical_scores"] = np.array(scores, np.float16)
    return texts


def teacher_text(fields: list[str]) -> str:
    """A tool as the teacher reads it."""
    name, description, parameter, parameter_text, server, context = fields
    spaced = " ".join(tx.folded(part) for word in tx.words(name) for part in tx.humps(word))
    return f"{server} {spaced}: {description} {parameter} {context} {parameter_text}"[:1200]


def prepare(data: Path, ours: Path, minilm: Path, binary: Path, out: Path, added: int) -> None:
    """Writes the whole folder; `ours` is what `ours.py` wrote."""
    out.mkdir(parents=True, exist_ok=True)
    pieces = (minilm / "vocab.txt").read_text(encoding="utf-8").splitlines()
    folders = {name: data / name for name in TRAINED} | {name: ours / name for name in OURS}
    vocabulary = choose_vocabulary(pieces, folders, added)
    (out / "vocabulary.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    tokenizer = tx.Tokenizer(vocabulary)
    for name in OWN:
        write_own(name, out / "own" / name)
    folders |= {name: out / "own" / name for name in OWN}
    texts = {name: prepare_set(name, folder, binary, tokenizer, out) for name, folder in folders.items()}
    with gzip.open(out / "texts.json.gz", "wt", encoding="utf-8") as file:
        json.dump(texts, file, ensure_ascii=False)
