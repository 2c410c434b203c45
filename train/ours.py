"""Sets of our own queries, as folders like those of the public sets.

    python train/ours.py --data DIR --openapi DIR --tools FILE --out DIR

`--data` holds `fleet/tools.jsonl`, `--openapi` one API.json for each of `sets/rest`, and `--tools` is the built
example `tools` of `pegboard-core`. A family is an API, or the servers that one author wrote queries for.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
AUTHORS = ("a", "b", "c", "d")
APIS = ("box", "digitalocean", "discord", "openai", "sendgrid")
FLEET = tuple(f"fleet_{author}" for author in AUTHORS)

METHODS = ("get", "head", "options", "trace", "query", "put", "delete", "post", "patch")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def write_set(folder: Path, tools: list[dict], queries: list[dict], labels: list[tuple[str, str]]) -> None:
    """One folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, rows in (("tools.jsonl", tools), ("queries.jsonl", queries)):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / file).write_text(text, encoding="utf-8")
    (folder / "qrels.tsv").write_text("".join(f"{query}\t{tool}\t1\n" for query, tool in labels), encoding="utf-8")


def of_author(author: str, tools: list[dict], asked: list[dict], out: Path) -> None:
    """The servers of one author, with the queries for them."""
    servers = set(json.loads((HERE / "sets/authors.json").read_text())[author])
    own = [{"id": f"{tool['server']}/{tool['name']}", **tool} for tool in tools if tool["server"] in servers]
    known = {tool["id"] for tool in own}
    asked = [query for query in asked if query["id"].startswith(f"{author}-") and query.get("tools")]
    labels = [(query["id"], tool) for query in asked for tool in query["tools"] if tool in known]
    write_set(out / f"fleet_{author}", own, [{"id": query["id"], "query": query["query"]} for query in asked], labels)


def of_api(api: str, openapi: Path, binary: Path, out: Path) -> None:
    """The operations of one API; tools are in the order of the description."""
    described = json.loads((openapi / f"{api}.json").read_text(encoding="utf-8"))
    operations = [f"{key.upper()} {path}" for path, item in described["paths"].items() for key in item if key in METHODS]
    run = subprocess.run([binary, openapi / f"{api}.json"], check=True, capture_output=True, text=True)
    tools = [json.loads(line) for line in run.stdout.splitlines()]
    if len(tools) != len(operations):
        raise SystemExit(f"{api} has {len(operations)} operations and {len(tools)} tools")
    place = dict(zip(operations, (tool["id"] for tool in tools), strict=True))
    asked = [query for query in read_lines(HERE / f"sets/rest/{api}.jsonl") if query.get("operations")]
    labels = [(query["id"], place[operation]) for query in asked for operation in query["operations"]]
    write_set(out / api, tools, [{"id": query["id"], "query": query["query"]} for query in asked], labels)


def write_all(data: Path, openapi: Path, binary: Path, out: Path) -> None:
    """All sets of our own."""
    tools, asked = read_lines(data / "fleet/tools.jsonl"), read_lines(HERE / "sets/fleet.jsonl")
    for author in AUTHORS:
        of_author(author, tools, asked, out)
    for api in APIS:
        of_api(api, openapi, binary, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public sets")
    parser.add_argument("--openapi", type=Path, required=True, help="folder of the descriptions of the APIs")
    parser.add_argument("--tools", type=Path, required=True, help="the built example of that name")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    write_all(options.data, options.openapi, options.tools, options.out)


if __name__ == "__main__":
    main()
