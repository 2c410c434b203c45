"""From text to token numbers: folding, words, word pieces, and the requests within a query.

This is the definition that the engine's tokenizer follows; `FORMAT.md` says the same in words.
Only the standard library is used.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from dataclasses import dataclass

from actions import POLITE, Verbs

SHORT = 3
"""Latin words of at most so many characters do not count as words."""

MAX_WORD_CHARS = 64
"""Longer words are keys, hashes or encoded data, and are passed over."""

MAX_REQUESTS = 16
"""A query of more parts than this is taken as one text."""

JOINING = frozenset(["and", "y", "и"])
"""Words that join parts of one request as well as requests."""

STEPS = frozenset(["then", "also", "plus", "afterwards", "finally", "additionally", "luego"])
"""Words that begin a further step."""

CONNECTORS = JOINING | STEPS
"""Words that a further request may begin with."""

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

MAX_CLAUSES = 256
"""Clauses of a query that are looked at."""

MAX_VERB_WORDS = 64
"""Words of a clause that are looked at for verbs."""

_SENTENCE = (frozenset(".?!;"), frozenset("。？！；\n"))
_CLAUSE = (frozenset(","), frozenset("，、"))
"""Marks that end a sentence or a clause: with white space beside them, and always."""

VERBS = Verbs()


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

    A clause ends at the end of a sentence, at a comma, or before a connector, once it has a word that is
    neither a stop word nor a connector nor a number. It is a request of its own when it begins a sentence, is joined
    as a further step, or has a verb; otherwise it belongs to the request before, as do words after the last telling one.
    """
    if not found:
        return []
    clauses = _clauses(text, found)
    ends = [first for first, _ in clauses[1:]] + [len(found)]
    starts: list[int] = []
    for (first, begins_sentence), end in zip(clauses, ends, strict=True):
        own = found[first:end]
        step = next((folded(word.text) for word in own if folded(word.text) not in JOINING), "")
        if first == 0 or begins_sentence or step in STEPS or has_verb(text[own[0].start : own[-1].end]):
            starts.append(first)
    if not 2 <= len(starts) <= MAX_REQUESTS or len(clauses) > MAX_CLAUSES:
        return [0] * len(found)
    return [bisect.bisect_right(starts, at) - 1 for at in range(len(found))]


def _clauses(text: str, found: list[Word]) -> list[tuple[int, bool]]:
    """The first word of each clause, and whether it begins a sentence."""
    clauses = [(0, True)]
    has_word, last_end = False, 0
    for at, word in enumerate(found):
        lower, gap = folded(word.text), text[last_end : word.start]
        if has_word and (_ends(gap, _SENTENCE) or _ends(gap, _CLAUSE) or lower in CONNECTORS):
            clauses.append((at, _ends(gap, _SENTENCE)))
            has_word = False
        has_word |= lower not in STOP_WORDS and lower not in CONNECTORS and word.kinds.strip("d") != ""
        last_end = word.end
    if not has_word and len(clauses) > 1:
        clauses.pop()
    return clauses


def has_verb(text: str) -> bool:
    """Whether a clause has a verb that is no noun as often, or any verb at its beginning; other scripts count as
    having one."""
    words_of = re.findall(r"[a-z]+", text.lower())[:MAX_VERB_WORDS]
    first = next((at for at, word in enumerate(words_of) if word not in POLITE and word not in CONNECTORS), len(words_of))
    return not words_of or any(not one.verb.is_weak or one.at == first for one in VERBS.scan(words_of))


def _ends(gap: str, marks: tuple[frozenset[str], frozenset[str]]) -> bool:
    with_space, always = marks
    spaced = any(char.isspace() for char in gap)
    return any(char in always or (spaced and char in with_space) for char in gap)
