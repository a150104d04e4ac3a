"""English verbs and their forms, and the lists of words in `tables/english-words.txt`."""

from __future__ import annotations

import re
from typing import Final

from langmem_adapter.statements.tables import lists
from langmem_adapter.vocabulary import IRREGULAR

__all__ = ["FORMS", "KINDS", "WORDS", "third"]

WORDS: Final = lists("english-words")
WORDS["VERBS"] |= WORDS["DEEDS"] | WORDS["ALONE"]
KINDS: Final = frozenset().union(*(WORDS[name] for name in ("FEMALE", "MALE", "PLURAL", "PETS", "OTHERS")))
"""Words for those who belong to somebody."""


def third(verb: str) -> str:
    """The form of an English verb after he, she or it.

    Example:
        >>> third("live"), third("study"), third("teach"), third("have")
        ('lives', 'studies', 'teaches', 'has')
    """
    if verb in {"have", "be"}:
        return "has" if verb == "have" else "is"
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.search("[^aeiou]y$", verb) else f"{verb}s"


def _gerund(verb: str) -> str:
    return f"{verb[:-1]}ing" if verb.endswith("e") and not verb.endswith(("ee", "be")) else f"{_doubled(verb)}ing"


def _doubled(verb: str) -> str:
    return verb + verb[-1] if re.fullmatch("[^aeiou]*[aeiou][bdgmnprt]", verb) else verb


def _past(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb}d"
    return f"{verb[:-1]}ied" if re.search("[^aeiou]y$", verb) else f"{_doubled(verb)}ed"


FORMS: Final[dict[str, tuple[str, str]]] = {
    **{_gerund(verb): (verb, "ing") for verb in WORDS["VERBS"]},
    **{_past(verb): (verb, "past") for verb in WORDS["VERBS"] - IRREGULAR.keys()},
    **{form: (verb, "past") for form, verb in IRREGULAR.items()},
    **{third(verb): (verb, "now") for verb in WORDS["VERBS"]},
    **{verb: (verb, "base") for verb in WORDS["VERBS"]},
    **{form: (verb, tense) for form, verb, tense in (entry.split(":") for entry in WORDS["ODD"])},
}
"""Forms of verbs, each with its base and its tense: `base`, `now`, `past`, `ing`."""
