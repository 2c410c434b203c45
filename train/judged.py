"""Makes the folders that `evidence.py` reads: queries of all families, each in its catalog, and foreign ones.

    python train/judged.py --data DIR --ours DIR --candidates FILE --out DIR

`--ours` is what `ours.py` wrote, and `--candidates` the built example of that name.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import random
import subprocess
from pathlib import Path
from typing import Any

from ours import APIS, HERE, read_lines
from prepare import MEASURED, ROOT, TRAINED

FOREIGN = {"api": (100, 40), "server": (25, 0), "set": (60, 60), "fleet": (0, 40), "demo": (0, 0)}
"""Short and long queries of other families that each kind of catalog is asked."""


DEMO = ROOT / "crates/pegboard-demo/catalog/tools.jsonl"
"""The tools of the demo, which is only measured on."""


def labelled(folder: Path) -> list[dict[str, Any]]:
    """The queries of a public set with their right tools."""
    right = collections.defaultdict(list)
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, tool, *relevance = line.split("\t")
        if float(relevance[0] if relevance else 1) > 0:
            right[query].append(tool)
    return [
        {"id": query["id"], "query": query["query"], "kind": "set", "tools": right[query["id"]]}
        for query in read_lines(folder / "queries.jsonl")
        if right[query["id"]]
    ]


def absent() -> list[dict[str, Any]]:
    """Queries of a fifth author that no tool of a server answers; each belongs to the family of its server."""
    servers = json.loads((HERE / "sets/authors.json").read_text())
    author_of = {server: author for author, own in servers.items() for server in own}
    queries = read_lines(HERE / "sets/absent.jsonl")
    return [{**query, "id": f"{author_of[query['catalog'][0]]}-{query['id']}"} for query in queries]


def catalogs(data: Path, ours: Path) -> dict[str, tuple[str, list[dict], list[dict]]]:
    """For each catalog what kind it is, its tools and its queries."""
    found: dict[str, tuple[str, list[dict], list[dict]]] = {}
    tools = [{"id": f"{tool['server']}/{tool['name']}", **tool} for tool in read_lines(data / "fleet/tools.jsonl")]
    groups = collections.defaultdict(list)
    for query in read_lines(HERE / "sets/fleet.jsonl") + absent():
        groups[tuple(sorted(query.get("catalog") or []))].append(query)
    for servers, asked in sorted(groups.items()):
        mark = hashlib.md5("|".join(servers).encode()).hexdigest()[:8]
        own = [tool for tool in tools if tool["server"] in servers] if servers else tools
        found[f"server_{mark}" if servers else "fleet"] = ("server" if servers else "fleet", own, asked)
    found["demo"] = ("demo", read_lines(DEMO), read_lines(HERE / "sets/demo.jsonl"))
    for api in APIS:
        right = collections.defaultdict(list)
        for line in (ours / api / "qrels.tsv").read_text(encoding="utf-8").splitlines():
            query, tool, _ = line.split("\t")
            right[query].append(tool)
        asked = [{**query, "tools": right[query["id"]]} for query in read_lines(HERE / f"sets/rest/{api}.jsonl")]
        found[api] = ("api", read_lines(ours / api / "tools.jsonl"), asked)
    for name in TRAINED + MEASURED:
        found[name] = ("set", read_lines(data / name / "tools.jsonl"), labelled(data / name))
    return found


def foreign(name: str, every: dict, chance: random.Random) -> list[dict[str, Any]]:
    """Queries of other families, for a catalog that should have no tool for them."""
    kind, _, asked = every[name]
    short, long = FOREIGN[kind] if name != "mcp_union" else (0, 0)
    authors = {query["id"][0] for query in asked} if kind == "server" else set()
    pools: dict[str, list[str]] = {"foreign_short": [], "foreign_long": []}
    for other, (other_kind, _, queries) in every.items():
        if other == name or (kind == "fleet" and other_kind == "server"):
            continue
        is_set = other_kind == "set"
        usable = [query for query in queries if query["kind"] != "absent" and query["id"][0] not in authors]
        pools["foreign_long" if is_set else "foreign_short"] += [query["query"] for query in usable]
    return [
        {"id": f"{name}!{label[8]}{at}", "query": query, "kind": label, "tools": []}
        for label, count in (("foreign_short", short), ("foreign_long", long))
        for at, query in enumerate(chance.sample(pools[label], count))
    ]


def write_all(data: Path, ours: Path, candidates: Path, out: Path) -> None:
    """All folders."""
    every, chance = catalogs(data, ours), random.Random(5)
    for name, (_, tools, asked) in every.items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, rows in (("tools", tools), ("queries", asked + foreign(name, every, chance))):
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (folder / f"{file}.jsonl").write_text(text, encoding="utf-8")
        run = subprocess.run([candidates, folder, "1000"], check=True, capture_output=True, text=True)
        (folder / "lexical.jsonl").write_text(run.stdout, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public sets")
    parser.add_argument("--ours", type=Path, required=True, help="folder of our own sets")
    parser.add_argument("--candidates", type=Path, required=True, help="the built example of that name")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    write_all(options.data, options.ours, options.candidates, options.out)


if __name__ == "__main__":
    main()
