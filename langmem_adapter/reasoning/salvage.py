"""JSON out of what chat models really send: prose around it, fences, thoughts, trailing commas, single quotes.

The rule behind every leniency: a value is taken whole or not at all. A bracket that never closes, a key that stands
twice, a broken value after a good one: these are errors for the repair round, since whatever we guessed would lose
something without anybody noticing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LONGEST_REPLY", "Found", "UnusableReplyError", "first_ten", "json_values", "listed_problems"]

LONGEST_REPLY: Final = 500_000
"""Characters of a reply that are read at most; longer ones are refused, not cut."""

_MOST_BRACKETS: Final = 200
_MOST_TOKENS: Final = 200_000
_MOST_LAYERS: Final = 3  # JSON inside a JSON string inside a JSON string

_TAGS: Final = "(?:think|thinking|thought|reasoning)"
_LANDMARK: Final = re.compile(rf"[\[{{]|<(?P<closing>/?){_TAGS}>", re.IGNORECASE)
_THOUGHT_END: Final = re.compile(rf"</{_TAGS}>", re.IGNORECASE)
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<double>"[^"\\]*(?:\\.[^"\\]*)*")
      | (?P<single>'[^'\\]*(?:\\.[^'\\]*)*')
      | (?P<mark>[\[\]{}:,])
      | (?P<word>[^\s\[\]{}:,"']+)""",
    re.DOTALL | re.VERBOSE,
)
_COLON: Final = re.compile(r"\s*:")
_NUMBER: Final = re.compile(r"-?\d{1,300}(?:\.\d+)?(?:[eE][+-]?\d{1,3})?")
_CONSTANTS: Final = {"true": "true", "True": "true", "false": "false", "False": "false", "null": "null", "None": "null"}


class UnusableReplyError(Exception):
    """What is wrong with a reply, in words that the model itself can act on.

    Args:
        problem: The words; they end up in the repair round and in `ModelReplyError`.
        final: Asking again is pointless (the model declined).
    """

    def __init__(self, problem: str, *, final: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.final = final


def listed_problems(problems: Sequence[str]) -> str:
    """The first ten of what is wrong, and how many more there are."""
    return "; ".join(first_ten(problems))


def first_ten(texts: Sequence[str]) -> list[str]:
    """Ten texts, and how many more there are."""
    return [*texts[:10], *([f"and {len(texts) - 10:,} more"] if len(texts) > 10 else [])]  # noqa: PLR2004 - ten


@dataclass(frozen=True, slots=True)
class Found:
    """The JSON values of a text.

    Attributes:
        values: Complete values, outermost only, in order.
        damage: What could not be read before the first of them; then only an unmistakable value should be trusted.
    """

    values: tuple[Any, ...]
    damage: str = ""


class _MalformedError(Exception):
    pass


def json_values(text: str, *, layer: int = 0) -> Found:
    r"""Every JSON object and list in a text, outside of thoughts.

    Args:
        text: A model's reply, or a string within it that holds JSON.
        layer: How many JSON strings it was taken out of.

    Raises:
        UnusableReplyError: It is too long or too tangled, it ends in the middle of a value, or a key stands twice.

    Example:
        >>> json_values("Sure! ```json\n{'facts': ['Likes tea',],}\n``` Anything else?").values
        ({'facts': ['Likes tea']},)
    """
    if len(text) > LONGEST_REPLY:
        raise UnusableReplyError(f"the reply has {len(text):,} characters, and at most {LONGEST_REPLY:,} are read")
    try:
        value = _strict(text.strip("\ufeff \t\r\n"))
    except _MalformedError:
        return _Scan(text).run()
    if isinstance(value, str) and layer < _MOST_LAYERS:
        return json_values(value, layer=layer + 1)
    return Found((value,))


class _Scan:
    """One walk over a text, from one opening bracket to the next."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._found: list[Any] = []
        self._damage = ""
        self._tokens = 0

    def run(self) -> Found:
        for _ in range(_MOST_BRACKETS):
            landmark = _LANDMARK.search(self._text, self._place)
            if landmark is None:
                return Found(tuple(self._found), self._damage)
            if landmark["closing"] is None:
                self._read(landmark.start())
            else:
                self._skip_thought(landmark)
        raise UnusableReplyError("the reply holds too many brackets beside the JSON; send the JSON object alone")

    def _skip_thought(self, tag: re.Match[str]) -> None:
        if tag["closing"]:  # the opening tag stood in the model's own template: all before was thought
            self._found, self._damage, self._place = [], "", tag.end()
            return
        end = _THOUGHT_END.search(self._text, tag.end())
        if end is None:
            raise UnusableReplyError("the reply never leaves its thoughts; send the JSON object alone")
        self._place = end.end()

    def _read(self, start: int) -> None:
        try:
            value, self._place = _DECODER.raw_decode(self._text, start)
        except (ValueError, RecursionError):
            self._read_leniently(start)
        else:
            self._found.append(value)

    def _read_leniently(self, start: int) -> None:
        self._place = start + 1
        tokens: list[re.Match[str]] = []
        try:
            tokens = self._span(start)
            self._found.append(_strict(_rewrite(tokens)))
        except _MalformedError as error:
            if tokens and not any(token[0][0] in "\"':" for token in tokens):
                return  # brackets of plain prose
            if self._found:
                raise UnusableReplyError(
                    f"the JSON goes on after a complete value and is broken there: {error}"
                ) from None
            self._damage = self._damage or str(error)

    def _span(self, start: int) -> list[re.Match[str]]:
        """The tokens from an opening bracket to the one that closes it; moves on behind them."""
        tokens: list[re.Match[str]] = []
        place, depth = start, 0
        while not tokens or depth:
            token = _TOKEN.match(self._text, place)
            self._tokens += 1
            if token is None or self._tokens > _MOST_TOKENS:
                self._stuck(place)
            place = token.end()
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
            if token.lastgroup != "space":
                tokens.append(token)
        self._place = place
        return tokens

    def _stuck(self, place: int) -> NoReturn:
        if self._tokens > _MOST_TOKENS:
            raise UnusableReplyError("the reply is too tangled to read; send the JSON object alone")
        if place >= len(self._text) or self._text[place] == '"':
            raise UnusableReplyError("the JSON is not complete: the reply ends in the middle of it")
        raise _MalformedError(f"a quotation mark without its partner at {self._text[place : place + 40]!r}")


def _rewrite(tokens: list[re.Match[str]]) -> str:
    written: list[str] = []
    for token in tokens:
        if token[0] in "]}" and written[-1] == ",":
            written.pop()
        written.append(_rewritten(token))
    return "".join(written)


def _rewritten(token: re.Match[str]) -> str:
    if token.lastgroup == "single":
        return '"' + token[0][1:-1].replace("\\'", "'").replace('\\"', '"').replace('"', '\\"') + '"'
    if token.lastgroup != "word" or _NUMBER.fullmatch(token[0]):
        return token[0]
    if _COLON.match(token.string, token.end()):
        return json.dumps(token[0])
    if token[0] in _CONSTANTS:
        return _CONSTANTS[token[0]]
    raise _MalformedError(f"{token[0][:40]!r} is no JSON")


def _strict(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise _MalformedError(str(error) or "nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnusableReplyError(
            f"the key {twice!r} stands twice in one JSON object; send one list with everything in it"
        )
    return members


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")  # NaN and Infinity, which Python's decoder would accept


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number, strict=False)
