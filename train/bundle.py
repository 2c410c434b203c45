"""Makes one file of an API description that is spread over several.

    python train/bundle.py MAIN OUT

`MAIN` is the file that the others are reached from, in JSON or YAML; for YAML the package `pyyaml` is needed. `ours.py`
reads descriptions of one file. Path items and operations are copied to where they are referred to, everything else
becomes a component.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

PART = "bundled"
"""The section of `components` for what was in other files."""


class Bundle:
    """The parts that were reached so far."""

    def __init__(self, main: Path):
        self.main = main.resolve()
        self.files: dict[Path, Any] = {}
        self.names: dict[tuple[Path, str], str] = {}
        self.parts: dict[str, Any] = {}

    def read(self, path: Path) -> Any:
        """The contents of a file; each is read once."""
        if path not in self.files:
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".json":
                self.files[path] = json.loads(text)
            else:
                self.files[path] = read_yaml(text)
        return self.files[path]

    def target(self, reference: str, path: Path) -> tuple[Path, str, Any]:
        """The file, the pointer and the value that a reference in the file `path` leads to."""
        name, _, pointer = reference.partition("#")
        place = (path.parent / name).resolve() if name else path
        value = self.read(place)
        for key in pointer.split("/")[1:]:
            key = unquote(key).replace("~1", "/").replace("~0", "~")
            value = value[int(key)] if isinstance(value, list) else value[key]
        return place, pointer, value

    def followed(self, value: Any, path: Path) -> tuple[Any, Path]:
        """What `value` refers to, if it is a reference."""
        while isinstance(value, dict) and isinstance(value.get("$ref"), str):
            path, _, value = self.target(value["$ref"], path)
        return value, path

    def rewritten(self, value: Any, path: Path) -> Any:
        """`value` of the file `path` with references to this bundle."""
        if isinstance(value, list):
            return [self.rewritten(item, path) for item in value]
        if not isinstance(value, dict):
            return value
        found = {key: self.rewritten(item, path) for key, item in value.items()}
        if isinstance(value.get("$ref"), str):
            found["$ref"] = self.reference(value["$ref"], path)
        return found

    def reference(self, reference: str, path: Path) -> str:
        """Where the target of a reference is in the bundle."""
        place, pointer, value = self.target(reference, path)
        if place == self.main and pointer.startswith("/components/"):
            return f"#{pointer}"
        if (place, pointer) not in self.names:
            name = self.names[place, pointer] = f"part{len(self.names)}"
            self.parts[name] = self.rewritten(value, place)
        return f"#/components/{PART}/{self.names[place, pointer]}"

    def whole(self) -> dict[str, Any]:
        """The description."""
        root = self.read(self.main)
        paths = {}
        for name, item in root["paths"].items():
            item, place = self.followed(item, self.main)
            operations = {key: self.followed(operation, place) for key, operation in item.items()}
            paths[name] = {key: self.rewritten(operation, own) for key, (operation, own) in operations.items()}
        rest = {key: self.rewritten(value, self.main) for key, value in root.items() if key != "paths"}
        components = rest.pop("components", None) or {}
        return {**rest, "paths": paths, "components": {**components, PART: self.parts}}


def read_yaml(text: str) -> Any:
    """The value of a YAML text, dates as they are written."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {
            first: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
            for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    return yaml.load(text, Loader)


def main() -> None:
    source, out = map(Path, sys.argv[1:3])
    out.write_text(json.dumps(Bundle(source).whole(), ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
