"""The reliability plot of the confidence, as SVG, and its table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

BINS = 10
SIZE = 320
MARGIN = 44


def bins_of(sure: np.ndarray, right: np.ndarray) -> list[tuple[float, float, int]]:
    """Mean confidence, share of right first hits and number of queries of each bin that has any."""
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    return [
        (float(sure[place == at].mean()), float(right[place == at].mean()), int((place == at).sum()))
        for at in range(BINS)
        if (place == at).any()
    ]


def table(sure: np.ndarray, right: np.ndarray) -> str:
    """The bins as lines of Markdown."""
    lines = ["| confidence | queries | first hit right |", "| --- | --- | --- |"]
    lines += [f"| {mean:.2f} | {count:,} | {100 * share:.0f} % |" for mean, share, count in bins_of(sure, right)]
    return "\n".join(lines)


def write(path: Path, lines: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Writes a plot with one line for each entry of `lines`: confidences, and whether first hits were right."""
    colours = ("#2563eb", "#b45309")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE + 2 * MARGIN} {SIZE + 2 * MARGIN}"'
        ' font-family="sans-serif" font-size="12" role="img">',
        "<title>How often the first hit is right, by confidence</title>",
        f'<rect width="{SIZE + 2 * MARGIN}" height="{SIZE + 2 * MARGIN}" fill="#ffffff"/>',
        f'<path d="M{MARGIN} {MARGIN + SIZE}L{MARGIN + SIZE} {MARGIN}" stroke="#9ca3af" stroke-dasharray="4 4"/>',
        f'<path d="M{MARGIN} {MARGIN}V{MARGIN + SIZE}H{MARGIN + SIZE}" stroke="#111827" fill="none"/>',
    ]
    for tick in (0, 0.5, 1):
        at = MARGIN + tick * SIZE
        parts.append(f'<text x="{at:.0f}" y="{MARGIN + SIZE + 18}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text x="{MARGIN - 8}" y="{MARGIN + SIZE - tick * SIZE + 4:.0f}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<text x="{MARGIN + SIZE / 2:.0f}" y="{SIZE + 2 * MARGIN - 8}" text-anchor="middle">confidence</text>')
    for at, (name, (sure, right)) in enumerate(lines.items()):
        points = [(MARGIN + mean * SIZE, MARGIN + (1 - share) * SIZE) for mean, share, _ in bins_of(sure, right)]
        colour = colours[at % len(colours)]
        path_data = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        parts.append(f'<path d="M{path_data}" stroke="{colour}" stroke-width="2" fill="none"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
        parts.append(f'<text x="{MARGIN + 10}" y="{MARGIN + 16 * (at + 1)}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")
