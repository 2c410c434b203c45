#!/usr/bin/env python3
"""Makes the release archive of one platform from a built `pegboard` program.

    python3 packaging/archive.py target/release/pegboard linux-x64 --out dist

The archive holds the program, shell completions, the manual page and the licences: `.zip` for Windows, `.tar.gz`
otherwise. The program must run on this machine, because it prints the completions and the manual page itself. The same
program and the same SOURCE_DATE_EPOCH give the same bytes. Needs Python 3.11 and nothing else.
"""

import argparse
import gzip
import io
import os
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path

import wheel

COMPLETIONS = {
    "bash": "pegboard.bash",
    "fish": "pegboard.fish",
    "powershell": "_pegboard.ps1",
    "zsh": "_pegboard",
}


def collect_files(program, suffix):
    """Returns the files of the archive: paths, and contents with modes."""
    def run(*arguments):
        return subprocess.run([program.resolve(), *arguments], check=True, stdout=subprocess.PIPE).stdout

    files = {f"pegboard{suffix}": (program.read_bytes(), 0o755), "man/pegboard.1": (run("man"), 0o644)}
    for shell, name in COMPLETIONS.items():
        files[f"completions/{name}"] = (run("completions", shell), 0o644)
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"]:
        files[name] = ((wheel.PACKAGING.parent / name).read_bytes(), 0o644)
    return files


def write_tar(path, folder, files, timestamp):
    # A gzip file would otherwise carry the time and its own name.
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, (content, mode) in sorted(files.items()):
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mode, entry.mtime = len(content), mode, timestamp
                archive.addfile(entry, io.BytesIO(content))


def write_zip(path, folder, files, timestamp):
    with zipfile.ZipFile(path, "w") as archive:
        for name, (content, mode) in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{folder}/{name}", time.gmtime(timestamp)[:6])
            entry.create_system = 3
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=6)


def main():
    parser = argparse.ArgumentParser(description="Make the release archive of one platform.")
    parser.add_argument("program", type=Path, help="the built program")
    parser.add_argument("platform", help="the platform in the name of the archive, such as linux-x64")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="folder for the archive (default: dist)")
    arguments = parser.parse_args()

    is_windows = arguments.platform.startswith("win")
    files = collect_files(arguments.program, ".exe" if is_windows else "")
    folder = f"pegboard-{wheel.read_version()}-{arguments.platform}"
    timestamp = max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), wheel.EARLIEST)
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{folder}{'.zip' if is_windows else '.tar.gz'}"
    (write_zip if is_windows else write_tar)(path, folder, files, timestamp)
    print(path)


if __name__ == "__main__":
    main()
