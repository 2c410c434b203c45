#!/usr/bin/env python3
"""Makes a Python wheel from a built `pegboard` program.

    python3 packaging/wheel.py target/release/pegboard --out dist

The platform tag is read from the program: the processor, and the oldest glibc or macOS that it runs on. The same
program and the same SOURCE_DATE_EPOCH give the same bytes. Needs Python 3.11 and nothing else.
"""

import argparse
import base64
import hashlib
import os
import re
import struct
import sys
import time
import tomllib
import zipfile
from pathlib import Path

PACKAGING = Path(__file__).resolve().parent
# A zip archive cannot hold an earlier time.
EARLIEST = 315532800

ELF_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64"}
MACH_PROCESSORS = {0x01000007: "x86_64", 0x0100000C: "arm64"}
PE_MACHINES = {0x8664: "win_amd64", 0xAA64: "win_arm64"}
# Load commands of Mach-O files that hold the oldest macOS, and the offset of that version in them.
MACOS_VERSION_COMMANDS = {0x24: 8, 0x32: 12}


def platform_tag(program):
    """Returns the platform tag of a wheel with this program; raises ValueError for an unknown kind of program."""
    if program[:4] == b"\x7fELF":
        return linux_tag(program)
    if program[:4] == b"\xcf\xfa\xed\xfe":
        return macos_tag(program)
    if program[:2] == b"MZ":
        return windows_tag(program)
    raise ValueError("not an ELF, Mach-O (64-bit) or PE program")


def linux_tag(program):
    (machine,) = struct.unpack_from("<H", program, 18)
    if machine not in ELF_MACHINES:
        raise ValueError(f"unsupported ELF machine {machine:#x}")
    processor = ELF_MACHINES[machine]
    # The string table holds the names of the symbol versions, each followed by a zero byte.
    versions = [tuple(map(int, match)) for match in re.findall(rb"GLIBC_(\d+)\.(\d+)(?:\.\d+)?\0", program)]
    if b"/lib/ld-musl-" in program:
        return f"musllinux_1_2_{processor}"
    if not versions:
        # A statically linked program runs with any C library.
        return f"manylinux_2_17_{processor}.musllinux_1_1_{processor}"
    major, minor = max(max(versions), (2, 17))
    return f"manylinux_{major}_{minor}_{processor}"


def macos_tag(program):
    processor_type, _, _, commands = struct.unpack_from("<IIII", program, 4)
    if processor_type not in MACH_PROCESSORS:
        raise ValueError(f"unsupported Mach-O processor {processor_type:#x}")
    offset = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", program, offset)
        if command in MACOS_VERSION_COMMANDS:
            (version,) = struct.unpack_from("<I", program, offset + MACOS_VERSION_COMMANDS[command])
            major, minor = version >> 16, (version >> 8) & 0xFF
            # From macOS 11 on, wheels are tagged with the major version only.
            return f"macosx_{major}_{0 if major >= 11 else minor}_{MACH_PROCESSORS[processor_type]}"
        offset += size
    raise ValueError("the Mach-O program does not say which macOS it needs")


def windows_tag(program):
    (header,) = struct.unpack_from("<I", program, 0x3C)
    (machine,) = struct.unpack_from("<H", program, header + 4)
    if program[header : header + 4] != b"PE\0\0" or machine not in PE_MACHINES:
        raise ValueError(f"unsupported PE machine {machine:#x}")
    return PE_MACHINES[machine]


def read_version():
    """Returns the version of the workspace."""
    manifest = tomllib.loads((PACKAGING.parent / "Cargo.toml").read_text(encoding="utf-8"))
    return manifest["workspace"]["package"]["version"]


def metadata_text(project, version):
    """Returns the METADATA file (core metadata 2.4)."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"Keywords: {','.join(project['keywords'])}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        f"License-Expression: {project['license']}",
        *(f"License-File: {name}" for name in project["license-files"]),
        f"Requires-Python: {project['requires-python']}",
        *(f"Project-URL: {name}, {url}" for name, url in project["urls"].items()),
        "Description-Content-Type: text/markdown; charset=UTF-8",
    ]
    readme = (PACKAGING / "python" / project["readme"]).read_text(encoding="utf-8")
    return "\n".join(lines) + "\n\n" + readme


def record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def make_wheel(program, tag, version, out, timestamp):
    """Writes the wheel into the folder `out` and returns its path."""
    project = tomllib.loads((PACKAGING / "python" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stem = f"{project['name']}-{version}"
    info = f"{stem}.dist-info"
    script = "pegboard.exe" if tag.startswith("win") else "pegboard"
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in tag.split("."))
    files = {
        f"{stem}.data/scripts/{script}": program,
        f"{info}/METADATA": metadata_text(project, version).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: pegboard-wheel\nRoot-Is-Purelib: false\n{tags}".encode(),
    }
    for name in project["license-files"]:
        files[f"{info}/licenses/{name}"] = (PACKAGING.parent / name).read_bytes()
    record = "".join(record_line(name, content) for name, content in sorted(files.items()))
    # The format asks for the files of dist-info at the end of the archive, RECORD as the last.
    names = sorted(files, key=lambda name: (name.startswith(info), name))
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()

    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{stem}-py3-none-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in [*names, f"{info}/RECORD"]:
            entry = zipfile.ZipInfo(name, time.gmtime(max(timestamp, EARLIEST))[:6])
            entry.create_system = 3
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name], compresslevel=6)
    return path


def main():
    parser = argparse.ArgumentParser(description="Make a Python wheel from a built pegboard program.")
    parser.add_argument("program", type=Path, help="the built program")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="folder for the wheel (default: dist)")
    parser.add_argument("--platform", help="platform tag of the wheel (default: read from the program)")
    arguments = parser.parse_args()
    program = arguments.program.read_bytes()
    try:
        tag = arguments.platform or platform_tag(program)
    except (ValueError, struct.error) as error:
        sys.exit(f"error: cannot read the platform of `{arguments.program}`: {error}\nhint: set it with --platform")
    timestamp = int(os.environ.get("SOURCE_DATE_EPOCH", EARLIEST))
    print(make_wheel(program, tag, read_version(), arguments.out, timestamp))


if __name__ == "__main__":
    main()
