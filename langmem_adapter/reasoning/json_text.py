"""The JSON in what chat models write: between prose, in fences, after thoughts, with comments and trailing commas.

A value is read whole or not at all. A cut or broken value and a key that stands twice are errors for the repair round: whoever
completes them (`json-repair`, LangChain's `parse_partial_json`) loses something without anybody noticing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "DeclinedError",
    "UnusableReplyError",
    "complete_items",
    "decoded",
    "first_ten",
    "json_values",
    "listed_problems",
    "members_of",
]

_LONGEST_REPLY: Final = 500_000
_TAGS: Final = "(?:think|thinking|thought|reasoning)"
_MARK: Final = re.compile(rf"[\[{{]|</?{_TAGS}>", re.IGNORECASE)
_THOUGHT_END: Final = re.compile(rf"</{_TAGS}>", re.IGNORECASE)
_NEXT: Final = re.compile(r"[\s,]*")
_JSON: Final = re.compile(r"""\[\s*["'\[{\]]|\{\s*(?:["'}]|\w+\s*:)""")  # other brackets are prose
_STRING: Final = r'"(?:[^"\\]|\\.?)*(?:"|\Z)'  # to the end where it has none, so that every text is read in one pass
_COMMENT: Final = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_SPARE_COMMA: Final = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)


class UnusableReplyError(Exception):
    """What is wrong with a reply, in words that the model itself can act on."""


class DeclinedError(UnusableReplyError):
    """The model declined; asking again is pointless."""


def listed_problems(problems: Sequence[str]) -> str:
    """The first ten of what is wrong, and how many more there are."""
    return "; ".join(first_ten(problems))


def first_ten(texts: Sequence[str]) -> list[str]:
    """Ten texts, and how many more there are."""
    return [*texts[:10], *([f"and {len(texts) - 10:,} more"] if len(texts) > 10 else [])]  # noqa: PLR2004 - ten


def json_values(text: str) -> list[Any]:
    r"""Every JSON object and list in a text, outermost only, in order, outside of thoughts.

    Raises:
        UnusableReplyError: It is too long, a value in it is cut or broken, or a key stands twice.

    Example:
        >>> json_values('<think>{"facts": []}?</think> Sure! ```json\n{"facts": ["Likes tea",],}\n```')
        [{'facts': ['Likes tea']}]
    """
    if len(text) > _LONGEST_REPLY:
        raise UnusableReplyError(f"the reply has {len(text):,} characters, and at most {_LONGEST_REPLY:,} are read")
    values: list[Any] = []
    place = 0
    while mark := _MARK.search(text, place):
        if mark[0].startswith("</"):  # the opening tag stood in the model's own template: all before was thought
            values, place = [], mark.end()
        elif mark[0].startswith("<"):
            place = _after_thought(text, mark.end())
        elif _JSON.match(text, mark.start()):
            value, place = _value(text, mark.start())
            values.append(value)
        else:
            place = mark.end()
    return values


def complete_items(text: str, root: str) -> list[Any]:
    """The items of a list that a reply was to be, up to the first that is cut or broken; repeated ones once.

    Example:
        >>> complete_items('{"facts": [{"text": "Likes tea"}, {"text": "Likes tea"}, {"text": "Has a d', "facts")
        [{'text': 'Likes tea'}]
    """
    found: dict[str, Any] = {}
    start = re.search(rf'"{root}"\s*:\s*\[\s*', text)
    place = -1 if start is None else start.end()
    with suppress(ValueError, RecursionError, UnusableReplyError):
        while 0 <= place < len(text) and text[place] != "]":
            item, place = _DECODER.raw_decode(text, place)
            found.setdefault(repr(item), item)
            gap = _NEXT.match(text, place)
            place = gap.end() if gap else place
    return list(found.values())


def decoded(value: Any) -> Any:
    """The JSON list or object that a string holds, or the value itself."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    values = json_values(value)
    return values[0] if len(values) == 1 else value


def members_of(value: Any) -> dict[str, Any]:
    """The members of an object by their names in lower case; none of what is no object."""
    if not isinstance(value, dict):
        return {}
    members = {str(key).strip().casefold(): member for key, member in value.items()}
    if len(members) < len(value):
        raise UnusableReplyError(f"some keys differ only in their case: {', '.join(map(str, value))[:200]}")
    return members


def _after_thought(text: str, start: int) -> int:
    end = _THOUGHT_END.search(text, start)
    if end is None:
        raise UnusableReplyError("the reply never leaves its thoughts; send the JSON object alone")
    return end.end()


def _value(text: str, start: int) -> tuple[Any, int]:
    """The value at a bracket and where it ends; one with comments or spare commas has to be the last."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        tidy = _tidy(text[start:])
    try:
        value, end = _DECODER.raw_decode(tidy)
    except (ValueError, RecursionError) as error:
        raise UnusableReplyError(f"the JSON is broken or not complete: {str(error)[:100]}") from None
    if _MARK.search(tidy, end):
        raise UnusableReplyError("the JSON is not valid, and more follows it; send the JSON object alone")
    return value, len(text)


def _tidy(text: str) -> str:
    for spare in (_COMMENT, _SPARE_COMMA):
        text = spare.sub(lambda found: found[0] if found[0].startswith('"') else "", text)
    return text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise UnusableReplyError(
            f"the key {twice!r} stands twice in one JSON object; send one list with everything in it"
        )
    return members


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")  # NaN and Infinity, which Python's decoder would accept


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number, strict=False)
