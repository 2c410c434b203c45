"""Compares the engine with the reference on many texts.

`python check.py MODEL DATA COUNT COMMAND…` takes COUNT queries and tools from the sets in DATA
(and made-up noise), gives them to COMMAND on standard input as JSON lines (`{"text": …}` or
`{"tool": …}`), and expects on standard output the lines of `sample.jsonl` for them. Token
numbers must be equal; components of vectors may differ by one.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np

import reference as rf
import sample as sp

NOISE = "aAbBzZ019 _-./,;\n'\"éÉßüñłΩяж中文かなカ가😀\u0301\u200b"


def sources(data: Path, count: int) -> list[str | dict]:
    """Texts and tools, the same at every run."""
    found: list[str | dict] = [*sp.texts(), *sp.tools()]
    for path in sorted(data.glob("*/queries.jsonl")):
        found += [json.loads(line)["query"] for line in path.read_text(encoding="utf-8").splitlines()]
    for path in sorted(data.glob("*/tools.jsonl")):
        found += [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    chance = random.Random(5)
    found += ["".join(chance.choices(NOISE, k=chance.randrange(1, 60))) for _ in range(count // 10)]
    chance.shuffle(found)
    return found[:count]


def main() -> int:
    model_path, data, count, *command = sys.argv[1:]
    model = rf.read(Path(model_path))
    asked = sources(Path(data), int(count))
    lines = [json.dumps({"text" if isinstance(source, str) else "tool": source}) for source in asked]
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    if len(answers) != len(asked):
        print(f"asked {len(asked)}, answered {len(answers)}")
        return 1
    wrong = 0
    for source, answer in zip(asked, answers, strict=True):
        expected = sp.entry(model, source)
        ours, theirs = (np.frombuffer(bytes.fromhex(line.pop("vector")), np.int8) for line in (expected, answer))
        far = np.abs(ours.astype(int) - theirs).max(initial=0)
        same = all(answer.get(key) == value for key, value in expected.items() if key not in ("scale", "tool"))
        close = abs(expected["scale"] - answer["scale"]) <= 1e-5
        if not same or far > 1 or not close:
            wrong += 1
            if wrong <= 10:
                print(f"differs by {far}: {json.dumps(source, ensure_ascii=False)[:200]}")
    print(f"{len(asked)} compared, {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
