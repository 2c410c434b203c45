"""Runs a command on a terminal of its own, types into it, and prints what a person sees.

Arguments: the steps as JSON, then the command. A step is [text to wait for, keys to type], or
[text to wait for, null] for waiting alone. Prints {"code": ..., "screen": ..., "raw": ...}.
"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

COLUMNS, LINES = int(os.environ.get("TERMINAL_COLUMNS", "100")), 60
PATIENCE = 30


def screen(raw):
    """The lines that a terminal would show, as far as the sequences that are used here go."""
    lines, row, column = [[]], 0, 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b.|[^\x1b]", raw, re.DOTALL):
        if part.startswith("\x1b["):
            kind, digits = part[-1], re.sub(r"\D", "", part)
            count = int(digits or 1)
            if kind == "K":
                del lines[row][column:]
            elif kind == "J":
                del lines[row][column:], lines[row + 1 :]
            elif kind == "C":
                column += count
            elif kind == "D":
                column = max(0, column - count)
            elif kind == "A":
                row = max(0, row - count)
            elif kind == "G":
                column = count - 1
        elif part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            while len(lines) <= row:
                lines.append([])
        elif part == "\b":
            column = max(0, column - 1)
        elif part >= " ":
            if column == COLUMNS:
                row, column = row + 1, 0
                while len(lines) <= row:
                    lines.append([])
            line = lines[row]
            line.extend(" " * (column + 1 - len(line)))
            line[column] = part
            column += 1
    return "\n".join("".join(line).rstrip() for line in lines)


def main():
    steps, command = json.loads(sys.argv[1]), sys.argv[2:]
    child, terminal = pty.fork()
    if child == 0:
        # Before the program looks.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        os.execvp(command[0], command)
    raw, seen, end = "", 0, time.monotonic() + PATIENCE
    pending = b""
    while time.monotonic() < end:
        if steps and steps[0][0] in raw[seen:]:
            seen = raw.index(steps[0][0], seen) + len(steps[0][0])
            keys = steps.pop(0)[1]
            if keys is not None:
                os.write(terminal, keys.encode())
            continue
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            piece = b""
        if not piece:
            break
        pending += piece
        text = pending.decode(errors="ignore")
        pending = pending[len(text.encode()) :]
        raw += text
    else:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps({"code": code, "screen": screen(raw), "raw": raw, "left": steps}))


main()
