"""Tests of wheel.py: `python3 packaging/test_wheel.py`."""

import base64
import hashlib
import struct
import tempfile
import unittest
import zipfile
from pathlib import Path

import wheel


def elf(machine, strings=b""):
    return b"\x7fELF" + bytes(14) + struct.pack("<H", machine) + bytes(44) + strings


def mach_o(processor, command, version):
    header = struct.pack("<IIIIIIII", 0xFEEDFACF, processor, 0, 2, 2, 0, 0, 0)
    other = struct.pack("<II", 0x19, 16) + bytes(8)
    padding = 4 if command == 0x32 else 0
    return header + other + struct.pack("<II", command, 24) + bytes(padding) + struct.pack("<I", version) + bytes(16)


def pe(machine):
    return b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<H", machine) + bytes(16)


class PlatformTag(unittest.TestCase):
    def test_known_programs(self):
        cases = [
            (elf(0x3E, b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0"), "manylinux_2_34_x86_64"),
            (elf(0xB7, b"\0GLIBC_2.5\0"), "manylinux_2_17_aarch64"),
            (elf(0x3E), "manylinux_2_17_x86_64.musllinux_1_1_x86_64"),
            (elf(0x3E, b"/lib/ld-musl-x86_64.so.1\0"), "musllinux_1_2_x86_64"),
            (mach_o(0x0100000C, 0x32, 0x000B0000), "macosx_11_0_arm64"),
            (mach_o(0x0100000C, 0x32, 0x000C0300), "macosx_12_0_arm64"),
            (mach_o(0x01000007, 0x24, 0x000A0C00), "macosx_10_12_x86_64"),
            (pe(0x8664), "win_amd64"),
            (pe(0xAA64), "win_arm64"),
        ]
        for program, expected in cases:
            self.assertEqual(wheel.platform_tag(program), expected)

    def test_unknown_programs(self):
        for program in [b"#!/bin/sh\n", elf(0xF3), mach_o(7, 0x32, 0), pe(0x14C)]:
            with self.assertRaises(ValueError):
                wheel.platform_tag(program)


class Wheel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def make(self, tag, out="a", timestamp=1_700_000_000):
        return wheel.make_wheel(b"program", tag, "1.2.3", self.folder / out, timestamp)

    def test_record_lists_every_file_with_its_digest(self):
        with zipfile.ZipFile(self.make("manylinux_2_17_x86_64.musllinux_1_1_x86_64")) as archive:
            names = archive.namelist()
            self.assertEqual(names[0], "pegboard-1.2.3.data/scripts/pegboard")
            self.assertEqual(names[-1], "pegboard-1.2.3.dist-info/RECORD")
            self.assertEqual(archive.getinfo(names[0]).external_attr >> 16, 0o100755)
            lines = archive.read(names[-1]).decode().splitlines()
            self.assertEqual(sorted(line.split(",")[0] for line in lines), sorted(names))
            for name, digest, size in (line.split(",") for line in lines[:-1]):
                content = archive.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, size), (f"sha256={expected}", str(len(content))))
            text = archive.read("pegboard-1.2.3.dist-info/WHEEL").decode()
            self.assertIn("Tag: py3-none-manylinux_2_17_x86_64\nTag: py3-none-musllinux_1_1_x86_64\n", text)

    def test_windows_program_has_its_suffix(self):
        with zipfile.ZipFile(self.make("win_amd64")) as archive:
            self.assertEqual(archive.namelist()[0], "pegboard-1.2.3.data/scripts/pegboard.exe")

    def test_same_input_gives_same_bytes(self):
        first, second = self.make("win_amd64", "a"), self.make("win_amd64", "b")
        self.assertEqual(first.read_bytes(), second.read_bytes())

    def test_time_before_1980_is_raised_to_1980(self):
        with zipfile.ZipFile(self.make("win_amd64", timestamp=0)) as archive:
            self.assertEqual(archive.infolist()[0].date_time[0], 1980)


if __name__ == "__main__":
    unittest.main()
