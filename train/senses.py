"""Gives everyday words the sense that requests use them in.

`train.py` does it; `python senses.py MODEL` changes a model file that has not been through it. A table
has one vector for each word, and that of `ring` is mostly about jewellery, because texts are. Requests
are not: whoever asks for a tool and says "ring my colleague" wants a call. The words below are moved
half of the way to the words that tools have for the same. Short and written by hand, since nothing
that the model was trained on has them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import reference as rf

SHARE = 0.5
"""How far a word is moved."""

SENSES = {
    "ring": "call phone telephone",
    "buzz": "call phone",
    "phone": "call telephone",
    "text": "message sms",
    "ping": "message notify",
    "bin": "delete remove trash",
    "scrap": "delete remove",
    "ditch": "delete remove",
    "wipe": "delete erase",
    "axe": "delete cancel",
    "grab": "get fetch download",
    "peek": "view read",
    "glance": "view read",
    "pencil": "schedule event",
    "amend": "edit update",
    "swap": "replace exchange",
    "dig": "search find",
    "hunt": "search find",
    "chat": "message conversation",
    "folks": "people users",
    "buddy": "friend contact",
    "pal": "friend contact",
    "flat": "apartment",
    "holiday": "vacation travel",
    "lift": "ride taxi",
    "cab": "taxi ride",
    "cash": "money payment",
    "bucks": "dollars money",
    "snap": "photo picture screenshot",
    "tunes": "music songs",
    "flick": "movie film",
}
"""Words, and those that tools have for the same."""


def moved(model: rf.Model) -> int:
    """Moves the words that the vocabulary has; how many."""
    whole = model.tokenizer.whole
    before = model.vectors.copy()
    # What was read from a file cannot be written to.
    model.table, model.scales = model.table.copy(), model.scales.copy()
    count = 0
    for word, others in SENSES.items():
        known = [whole[other] for other in others.split() if other in whole]
        if word not in whole or not known:
            continue
        row = whole[word]
        length = np.linalg.norm(before[row])
        target = np.mean([rf.unit(before[other]) for other in known], axis=0)
        vector = rf.unit((1 - SHARE) * rf.unit(before[row]) + SHARE * rf.unit(target)) * length
        model.table[row], model.scales[row] = rf.stored(vector)
        count += 1
    model.vectors = model.table.astype(np.float32) * model.scales[:, None]
    return count


def main() -> None:
    path = Path(sys.argv[1])
    model = rf.read(path)
    count = moved(model)
    model.write(path)
    rf.read(path)
    print(f"{count} of {len(SENSES)} words were moved")


if __name__ == "__main__":
    main()
