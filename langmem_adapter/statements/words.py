"""English verbs and their forms, and the lists of words in `tables/english-words.txt`.

They are lists on purpose: a word that is missing costs a fact, a guess would cost the user's trust in all of them.
"""

from __future__ import annotations

import re
from typing import Final

from langmem_adapter.caches import remembered
from langmem_adapter.statements.tables import lists
from langmem_adapter.vocabulary import IRREGULAR

__all__ = ["FORMS", "KINDS", "MARK", "THINGS", "WORDS", "gerund", "kind_of", "marked", "third"]


def _spelled(word: str) -> str:
    """A pattern for a word; what the table begins with a capital letter is no name without it: Three, Arc."""
    plain = re.escape(word.replace("_", " "))
    return plain if word.islower() else f"(?-i:{plain})"


WORDS: Final = lists("english-words")
DONE: Final = WORDS["LASTING"] | WORDS["DONE"]
"""Verbs whose past reports what was done."""
KINDS: Final = frozenset().union(*(WORDS[name] for name in ("FEMALE", "MALE", "PLURAL", "PETS", "OTHERS")))
"""Words for those who belong to somebody."""
MARK: Final = "\x1f"
"""Stands in front of the name of a thing in patterns, and in the texts that `marked` gives; nobody types it."""
THINGS: Final = {kind: "|".join(map(_spelled, sorted(words, key=len)[::-1])) for kind, words in lists("kinds").items()}
"""Names of which somebody has one of a kind at a time, as a pattern for each kind: banks, browsers, languages."""
_THING: Final = re.compile(
    rf"(?<!\w)(?:{'|'.join(f'(?P<{kind}>{told})' for kind, told in THINGS.items())})(?!\w)", re.IGNORECASE
)


def kind_of(value: str) -> str:
    """The kind of the first thing named in a value, empty where none is known.

    Example:
        >>> kind_of("Firefox on my laptop"), kind_of("the early shift")
        ('browser', '')
    """
    found = _THING.search(value)
    return (found and found.lastgroup) or ""


@remembered(256)
def marked(text: str) -> tuple[str, ...]:
    """A text once for each of the things named in it, with a mark in front of that one.

    Example:
        >>> [form.replace(MARK, "*") for form in marked("from Chrome to Firefox")]
        ['from *Chrome to Firefox', 'from Chrome to *Firefox']
    """
    places = [found.start() for found in _THING.finditer(text) if found.lastgroup not in WORDS["SUBJECTS"]]
    return tuple(f"{text[:place]}{MARK}{text[place:]}" for place in places)


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


def gerund(verb: str) -> str:
    """The form in "-ing" of an English verb.

    Example:
        >>> gerund("hike"), gerund("swim"), gerund("play")
        ('hiking', 'swimming', 'playing')
    """
    if verb.endswith("e") and not verb.endswith(("ee", "be")):
        return f"{verb[:-1]}ing"
    return f"{_doubled(verb)}ing"


def _doubled(verb: str) -> str:
    short = re.fullmatch("[^aeiou]*[aeiou][bdgmnprt]|program", verb)
    return verb + verb[-1] if short else verb


def _past(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb}d"
    return f"{verb[:-1]}ied" if re.search("[^aeiou]y$", verb) else f"{_doubled(verb)}ed"


FORMS: Final[dict[str, tuple[str, str]]] = {
    **{gerund(verb): (verb, "ing") for verb in DONE},
    **{_past(verb): (verb, "past") for verb in DONE - IRREGULAR.keys()},
    **{form: (verb, "past") for form, verb in IRREGULAR.items() if verb in DONE},
    **{third(verb): (verb, "now") for verb in DONE},
    **{verb: (verb, "base") for verb in WORDS["LASTING"]},
    **{verb: (verb, "past") for verb in ("cut", "quit", "hurt", "let", "set", "wed")},
    **{form: (verb, tense) for form, verb, tense in (entry.split(":") for entry in lists("english-forms")["ODD"])},
}
"""Forms of verbs, each with its base and its tense: `base`, `now`, `past`, `ing`."""
