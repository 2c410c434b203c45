"""Sixty tools for the program `llm` (`--functions`). Each notes its call in the file `PEG_CALLS`."""

import os


def _tool(number):
    def tool(text: str) -> str:
        with open(os.environ["PEG_CALLS"], "a", encoding="utf-8") as calls:
            calls.write(f"tool_{number} {text}\n")
        return f"result {number} of {text}"

    tool.__name__ = f"tool_{number}"
    tool.__doc__ = f"Handle case {number}: file the text of case {number} in the archive of such cases."
    return tool


globals().update({tool.__name__: tool for tool in map(_tool, range(60))})
