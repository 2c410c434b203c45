"""The model file in plain NumPy: reading, writing, vectors and similarities.

`FORMAT.md` says the same in words. The engine must agree with this file: token numbers exactly,
stored vectors within one unit.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

import text as tx
import tools as tl

MAGIC = b"PEGMODEL"
VERSION = 3
MAX_HEADER = 65_536


class ModelError(Exception):
    """Why a file is no model."""


class Model:
    """A model, and what it makes of texts."""

    def __init__(
        self,
        header: dict[str, Any],
        vocabulary: list[str],
        table: np.ndarray,
        scales: np.ndarray,
        query_weights: np.ndarray,
        tool_weights: np.ndarray,
        background: tuple[np.ndarray, np.ndarray] | None = None,
    ):
        self.header = header
        self.tokenizer = tx.Tokenizer(vocabulary)
        self.table, self.scales = table, scales
        self.query_weights, self.tool_weights = query_weights, tool_weights
        self.vectors = table.astype(np.float32) * scales[:, None]
        self.front_units = front_units(table)
        self.background = background or (np.zeros((0, table.shape[1]), np.int8), np.zeros(0, np.float32))

    def query_tokens(self, text: str) -> tuple[tx.Tokens, list[list[int]]]:
        """The tokens of a query, and of each of its requests if there are several."""
        found = tx.words(text)
        numbers = tx.requests(text, found)
        tokens = tx.Tokens([])
        parts: list[list[int]] = [[] for _ in range(max(numbers, default=0) + 1)]
        for word, number in zip(found, numbers, strict=True):
            before = len(tokens.ids)
            if before >= self.header["query_limit"]:
                break
            self.tokenizer.add(word, tokens)
            parts[number] += tokens.ids[before:]
        parts = [part for part in parts if part]
        return tokens, parts if len(parts) > 1 else []

    def query_vector(self, ids: list[int]) -> np.ndarray:
        """The unit vector of a query's tokens; zeros where there is none."""
        return unit((self.query_weights[ids][:, None] * self.vectors[ids]).sum(0, dtype=np.float32))

    def tool_tokens(self, tool: dict[str, Any]) -> list[list[int]]:
        """The tokens of each field of a tool."""
        settings = self.header["fields"]
        return [
            self.tokenizer.tokenize(text, field["limit"]).ids
            for text, field in zip(tl.fields(tool), settings, strict=True)
        ]

    def tool_vector(self, fields: list[list[int]]) -> np.ndarray:
        """The unit vector of a tool; zeros where it has no tokens."""
        total = np.zeros(self.header["dims"], np.float32)
        for ids, field in zip(fields, self.header["fields"], strict=True):
            weights = self.tool_weights[ids]
            pooled = (weights[:, None] * self.vectors[ids]).sum(0, dtype=np.float32)
            damped = np.float32(weights.sum(dtype=np.float32) + 1) ** np.float32(field["power"])
            total += np.float32(field["weight"]) * pooled / damped
        return unit(total)

    def write(self, path: Path) -> None:
        """Writes the file."""
        entries = "".join(f"{entry}\n" for entry in self.tokenizer.vocabulary).encode()
        header = {**self.header, "vocabulary": len(self.tokenizer.vocabulary), "vocabulary_bytes": len(entries)}
        header["background"] = len(self.background[0])
        encoded = json.dumps(header, ensure_ascii=False, sort_keys=True).encode()
        body = MAGIC + struct.pack("<II", VERSION, len(encoded)) + encoded + entries
        body += self.table.astype("<i1").tobytes()
        for numbers in (self.scales, self.query_weights, self.tool_weights, self.front_units):
            body += numbers.astype("<f4").tobytes()
        body += self.background[0].astype("<i1").tobytes() + self.background[1].astype("<f4").tobytes()
        path.write_bytes(body + struct.pack("<Q", checksum(body)))


def read(path: Path) -> Model:
    """Reads and checks a model file."""
    data = path.read_bytes()
    if len(data) < 24 or data[:8] != MAGIC:
        raise ModelError(f"`{path}` is no model file")
    version, length = struct.unpack_from("<II", data, 8)
    if version != VERSION or length > MAX_HEADER:
        raise ModelError(f"`{path}` has format {version}, only {VERSION} is known")
    header = json.loads(data[16 : 16 + length])
    size, dims, far = header["vocabulary"], header["dims"], header.get("background", 0)
    start = 16 + length
    end = start + header["vocabulary_bytes"]
    if len(data) != end + size * (dims + 16) + far * (dims + 4) + 8:
        raise ModelError(f"`{path}` is {len(data)} bytes long, its header says otherwise")
    if struct.unpack_from("<Q", data, len(data) - 8)[0] != checksum(data[:-8]):
        raise ModelError(f"`{path}` is damaged")
    vocabulary = data[start:end].decode().split("\n")[:-1]
    table = np.frombuffer(data, "<i1", size * dims, end).reshape(size, dims)
    rest = np.frombuffer(data, "<f4", 3 * size, end + size * dims).reshape(3, size)
    start = end + size * (dims + 16)
    rows = np.frombuffer(data, "<i1", far * dims, start).reshape(far, dims)
    background = (rows, np.frombuffer(data, "<f4", far, start + far * dims))
    return Model(header, vocabulary, table, *rest, background=background)


FRONT = 128
"""Components that the second look compares."""


def front_units(table: np.ndarray) -> np.ndarray:
    """What one unit of the front of each row is worth when that has length one."""
    lengths = np.sqrt((table[:, :FRONT].astype(np.float32) ** 2).sum(1))
    return np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def unit(vector: np.ndarray) -> np.ndarray:
    """`vector` at length one, or zeros."""
    length = np.sqrt((vector * vector).sum(dtype=np.float32))
    return vector / length if length > 0 else np.zeros_like(vector)


def stored(vector: np.ndarray) -> tuple[np.ndarray, np.float32]:
    """A vector as whole numbers, and what one unit is worth."""
    most = np.abs(vector).max()
    if most == 0:
        return np.zeros(len(vector), np.int8), np.float32(0)
    return np.rint(vector * (np.float32(127) / most)).astype(np.int8), np.float32(most / np.float32(127))


_START = 0xCBF29CE484222325
_FACTOR = 0x9E3779B97F4A7C15
_WORD = 0xFFFFFFFFFFFFFFFF


def checksum(data: bytes) -> int:
    """Mixes the data eight bytes at a time, filled up with zeros, and then its length."""
    padded = data + bytes(-len(data) % 8)
    number = _START
    for word in (*np.frombuffer(padded, "<u8").tolist(), len(data)):
        number ^= word
        number = (number << 29 | number >> 35) & _WORD
        number = number * _FACTOR & _WORD
    return number
