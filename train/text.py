"""From text to token numbers: folding, words, word pieces, and the requests within a query.

This is the definition that the engine's tokenizer follows; `FORMAT.md` says the same in words.
Only the standard library is used.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

SHORT = 3
"""Latin words of at most so many characters do not count as words."""

MAX_WORD_CHARS = 64
"""Longer words are keys, hashes or encoded data, and are passed over."""

MAX_REQUESTS = 16
"""A query of more parts than this is taken as one text."""

CONNECTORS = frozenset(
    ["and", "then", "also", "plus", "afterwards", "finally", "additionally", "y", "luego", "и"]
)
"""Words that begin a further request."""

STOP_WORDS = frozenset(
    """
    a also am an and any are as at be been being but by can could did do does for from had has
    have he her here hers him his how i if in into is it its just kindly ll may me might mine
    must my not of on or our ours please re s shall she should so some such t than that the
    their them then there these they this those to too us ve very was we were what when where
    which while who whom whose why will with would you your yours
    """.split()
)
"""Words that ask rather than name: the list of `analysis/stop.rs`."""

_ENDS_WITH_SPACE = frozenset(".?!;,")
_ENDS_ALWAYS = frozenset("。？！；，、\n")


def fold(char: str) -> str:
    """`char` in lower case, decomposed, without the accents of European scripts."""
    if char.isascii():
        return char.lower()
    code = ord(char)
    if 0x3040 <= code <= 0x30FF or 0x3400 <= code <= 0x9FFF or 0xAC00 <= code <= 0xD7AF:
        return char
    parts = unicodedata.normalize("NFKD", char.lower())
    return "".join(part for part in parts if not 0x300 <= ord(part) <= 0x36F)


def _kind(char: str) -> str:
    """What a character is to the tokenizer: `l`ower case, `u`pper case, `d`igit, accented and
    other Latin `o`r mark, letter of a foreign (`x`) script, or a separator (a blank)."""
    if "a" <= char <= "z":
        return "l"
    if "A" <= char <= "Z":
        return "u"
    if "0" <= char <= "9":
        return "d"
    code = ord(char)
    if code < 0xAA or code in (0xD7, 0xF7) or 0x2000 <= code <= 0x206F or 0x20A0 <= code <= 0x20CF:
        return " "
    if 0x2190 <= code <= 0x2BFF or 0x3000 <= code <= 0x3004 or 0x3008 <= code <= 0x303F:
        return " "
    if 0xFE00 <= code <= 0xFE6F or 0xFF00 <= code <= 0xFF0F or 0xFF1A <= code <= 0xFF20:
        return " "
    if 0xE000 <= code <= 0xF8FF or 0x1F000 <= code <= 0x1FFFF or code >= 0xE0000:
        return " "
    if code >= 0x370 and not (0x1E00 <= code <= 0x1EFF or 0xFB00 <= code <= 0xFB06 or 0xFF21 <= code <= 0xFF5A):
        return "x"
    # A mark goes with the letter before it; what is upper case has another lower case.
    return "u" if char.lower() != char else "o"


@dataclass(frozen=True)
class Word:
    """A run of letters and digits, where it stands, and its letters' kinds."""

    text: str
    start: int
    end: int
    kinds: str


def words(text: str) -> list[Word]:
    """Cuts `text` at everything that is neither a letter nor a digit, and between scripts."""
    found: list[Word] = []
    start = 0
    kinds: list[str] = []
    for at, char in enumerate(text + " "):
        kind = _kind(char)
        if kinds and (kind == " " or (kind == "x") != (kinds[0] == "x")):
            found.append(Word(text[start:at], start, at, "".join(kinds)))
            kinds = []
        if kind != " ":
            if not kinds:
                start = at
            kinds.append(kind)
    return found


def humps(word: Word) -> list[str]:
    """The parts of `createIssue` and `HTMLParser`; a word without humps is its only part."""
    kinds = word.kinds
    parts: list[str] = []
    start = 0
    for at in range(1, len(kinds)):
        before, here = kinds[at - 1], kinds[at]
        after = kinds[at + 1] if at + 1 < len(kinds) else " "
        if here == "u" and (before != "u" or after in "lo"):
            parts.append(word.text[start:at])
            start = at
    parts.append(word.text[start:])
    return parts


def folded(text: str) -> str:
    """`fold` for a whole string."""
    return text.lower() if text.isascii() else "".join(map(fold, text))


@dataclass
class Tokens:
    """The tokens of a text, and how much of the text they are."""

    ids: list[int]
    words: int = 0
    """How many words there are, leaving aside those of digits alone and short ones."""
    known: int = 0
    """How many of them, or of their humps, the vocabulary has as a whole."""

    @property
    def share(self) -> float:
        """The share of known words; that of short words alone is 1, and that of nothing 0."""
        return self.known / self.words if self.words else float(bool(self.ids))


class Tokenizer:
    """WordPiece over a vocabulary of folded Latin words and `##` pieces."""

    def __init__(self, vocabulary: list[str]):
        self.vocabulary = vocabulary
        self.whole: dict[str, int] = {}
        self.inner: dict[str, int] = {}
        for number, entry in enumerate(vocabulary):
            if entry.startswith("##"):
                self.inner[entry[2:]] = number
            else:
                self.whole[entry] = number
        self.longest = max((len(entry) for entry in vocabulary), default=0)

    def tokenize(self, text: str, limit: int | None = None) -> Tokens:
        """The tokens of `text`, at most `limit` of them."""
        tokens = Tokens([])
        for word in words(text):
            self.add(word, tokens)
            if limit is not None and len(tokens.ids) >= limit:
                del tokens.ids[limit:]
                break
        return tokens

    def add(self, word: Word, tokens: Tokens) -> None:
        """Appends the tokens of one word."""
        # A number is an argument, not a capability.
        if word.kinds.strip("d") == "":
            return
        # Short words say nothing of the language that they are in.
        counts = word.kinds[0] == "x" or len(word.text) > SHORT
        tokens.words += counts
        if word.kinds[0] == "x" or len(word.text) > MAX_WORD_CHARS:
            return
        whole = self.whole.get(folded(word.text))
        if whole is not None:
            tokens.ids.append(whole)
            tokens.known += counts
            return
        before = len(tokens.ids)
        parts = humps(word)
        pieces = 0
        for part in parts:
            pieces += self._pieces(folded(part), tokens.ids)
        tokens.known += counts and pieces == len(parts) and len(tokens.ids) > before

    def _pieces(self, word: str, ids: list[int]) -> int:
        """Appends the longest pieces from the left; how many, 0 if `word` cannot be spelled."""
        start, before, table = 0, len(ids), self.whole
        while start < len(word):
            for end in range(min(len(word), start + self.longest), start, -1):
                number = table.get(word[start:end])
                if number is not None:
                    ids.append(number)
                    break
            else:
                del ids[before:]
                return 0
            start, table = end, self.inner
        return len(ids) - before


def requests(text: str, found: list[Word]) -> list[int]:
    """For each word of a query the number of the request it belongs to.

    A request ends at the end of a sentence or clause, or before a connector, once it has a
    word that is neither a stop word nor a connector nor a number. Words after the last such word belong to
    its request.
    """
    numbers: list[int] = []
    current, has_word, last_end = 0, False, 0
    for word in found:
        lower = folded(word.text)
        if has_word and (_ends(text[last_end : word.start]) or lower in CONNECTORS):
            current, has_word = current + 1, False
        has_word |= lower not in STOP_WORDS and lower not in CONNECTORS and word.kinds.strip("d") != ""
        numbers.append(current)
        last_end = word.end
    count = current + 1 if has_word else current
    if not 2 <= count <= MAX_REQUESTS:
        return [0] * len(numbers)
    return [min(number, count - 1) for number in numbers]


def _ends(gap: str) -> bool:
    spaced = any(char.isspace() for char in gap)
    return any(char in _ENDS_ALWAYS or (spaced and char in _ENDS_WITH_SPACE) for char in gap)
