"""Whether an English statement of the speaker is worth remembering: something lasting or done, that stands on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from langmem_adapter.statements.dates import timed
from langmem_adapter.statements.english import GIVEN
from langmem_adapter.statements.tables import patterns, rows
from langmem_adapter.statements.words import FORMS, KINDS, WORDS
from langmem_adapter.text import content_words

if TYPE_CHECKING:
    from langmem_adapter.statements.statement import Statement

__all__ = ["NAMED", "RETOLD", "TALK", "is_fact", "leans", "tense"]

_LEANING: Final = {"home": WORDS["BESIDE_ONE"], "partner": WORDS["BESIDE_ONE"], "detail": frozenset({"on"})}
"""Words that lean on nothing where such an attribute is told: "lives with us", "flight is on the 12th"."""
_CLOSE: Final = KINDS - WORDS["PLURAL"] - {"friend", "fish", "bird", "partner"}
TALK: Final = patterns("english-talk", GIVEN | {"CLOSE": "|".join(sorted(_CLOSE))})
"""How English is spoken: openings, joints of clauses, and what tells a fact from talk."""
_TOLD: Final = rows("english-retold", GIVEN)
RETOLD: Final = {kind: tuple(row for row in _TOLD if row.attribute == kind) for kind in ("spelt", "told", "short")}
"""How what is spelt in haste ("im"), told in a roundabout way ("They put me on nights") and short ("'ve") is put plainly."""
NAMED: Final = WORDS["NAMED"]
"""Attributes whose rows understand enough: what they read is a fact as it stands."""


def tense(text: str) -> str:
    """The tense of the verb that opens a text; empty where none does.

    Example:
        >>> tense("Moved to Rome"), tense("looking for a flat"), tense("the flat")
        ('past', 'ing', '')
    """
    return FORMS.get(text.partition(" ")[0].lower(), ("", ""))[1]


def leans(text: str, said: Statement) -> bool:
    """Whether a text leans on what was said before it, or on the conversation."""
    found = TALK["LEANS"].search(text.replace("the US", "the States"))
    known = found is not None and found.group().lower().partition(" the ")[0] in _LEANING.get(said.attribute, ())
    whose = TALK["WHOSE"].search(text) is not None and not said.people
    return (found is not None and not known) or whose


def is_fact(text: str, said: Statement) -> bool:
    """Whether a statement of the speaker is a fact.

    Example:
        >>> from langmem_adapter.statements.parser import read
        >>> [is_fact(text, read(text)) for text in ("Moved to Rome", "Bought it there", "Will do best")]
        [True, False, False]
    """
    told = text.split()
    sober = said.attribute in WORDS["SOBER"] or (said.attribute == "like" and told[0] == "Is")
    if text.count('"') % 2 or (not sober and TALK["MOOD"].match(text)) or leans(text, said):
        return False
    if said.attribute in NAMED and not (said.attribute == "hobby" and not said.ended and _vague_hobby(text)):
        return bool(content_words(text)) and (said.ended or bool(said.value)) and not TALK["CUT_OFF"].search(text)
    if TALK["LOOSE_END"].search(text) and not said.ended:
        return False
    if told[0] == "Has" and said.attribute in {"own", "plan"} and told[1:2] != ["to"]:
        return TALK["OWNED"].match(text) is not None and not _inner(TALK["OF_WHAT"].split(text)[0])
    if (said.attribute == "plan" and (said.empty or not said.ended)) or TALK["TALK"].match(text):
        return _is_plan(text.removeprefix("No longer ").capitalize() if said.ended else text)
    return _is_told(text, said, told)


def _is_plan(text: str) -> bool:
    plainly = TALK["AHEAD"].match(text) or TALK["GOING_ON"].match(text)
    idle = TALK["TALK"].match(text) or _inner(text) or TALK["SOON"].search(text)
    return plainly is not None and not idle and len(text.split()) > 3  # noqa: PLR2004 - shorter ones say too little


def _is_told(text: str, said: Statement, told: list[str]) -> bool:
    if said.attribute in {"like", "prefer"}:
        return bool(content_words(said.value)) and len(told) > 1 and not TALK["PRAISE"].search(text)
    if said.attribute in {"any", "trait", "skill"} or said.ended:
        return len(told) > 1 and (said.ended or not (_inner(told[-1]) or TALK["NO_TRAIT"].search(text)))
    if told[0] in {"Is", "Was", "Has", "Doesn't"}:
        return TALK["STATE"].match(text) is not None
    if tense(text) == "ing":
        return (len(told) > 2 or told[-1][0].isupper()) and TALK["GOING_ON"].match(text) is not None  # noqa: PLR2004
    return said.attribute in {"habit", "event", "hobby"} and _is_deed(text, told)


def _is_deed(text: str, told: list[str]) -> bool:
    """Whether something done, or done again and again, is told with what it was done to."""
    cut = timed(text)
    if len(told) == 1 or (cut and " " not in cut[0]):
        return told[0].lower() in WORDS["WHOLE"]
    if _inner(" ".join(told[1:])) or TALK["OUTPUT"].search(text):
        return False
    if tense(text) == "past":
        return _tied(text) and (len(told) > 2 or told[1][0].isupper() or any(map(str.isdigit, told[1])))  # noqa: PLR2004
    lasting = FORMS.get(told[0].lower(), ("", ""))[0] in WORDS["LASTING"] - WORDS["VAGUE"]
    return len(told) > 2 or lasting or told[0] == "Never"  # noqa: PLR2004


def _tied(text: str) -> bool:
    """Whether a deed is tied to a day, a name or somebody, or lasts: without one nobody knows later what it was."""
    return TALK["ANCHOR"].search(text, text.find(" ")) is not None or TALK["LASTING_DEED"].match(text) is not None


def _vague_hobby(text: str) -> bool:
    alone = " " not in text and text.lower() not in WORDS["WHOLE"]
    began = text.startswith(("Started", "Took"))
    return alone or (tense(text) == "past" and not began and not TALK["ANCHOR"].search(text))


def _inner(text: str) -> bool:
    """Whether a text names what one has only within the conversation."""
    told = TALK["SOME_OF"].sub("", text)
    return not WORDS["INNER"].isdisjoint(word.lower().strip(",") for word in told.split())
