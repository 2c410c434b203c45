"""Sixty tools for the program `llm` (`--functions`)."""


def _tool(number):
    def tool(text: str) -> str:
        return f"result {number} of {text}"

    tool.__name__ = f"tool_{number}"
    tool.__doc__ = f"Handle case {number}: file the text of case {number} in the archive of such cases."
    return tool


globals().update({tool.__name__: tool for tool in map(_tool, range(60))})
