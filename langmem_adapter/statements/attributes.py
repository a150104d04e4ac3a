"""The attributes that a text speaks of: as terms by which a memory is found, and as what one statement shares with another."""

from __future__ import annotations

from langmem_adapter.statements.parser import read
from langmem_adapter.text import refers_back

__all__ = ["attributes", "single_valued"]


def attributes(text: str) -> set[str]:
    """The attributes that a statement speaks of, each with whom it is about.

    Example:
        >>> attributes("Moved to Braga"), attributes("Sister lives in Porto"), attributes("Vive en Oporto")
        ({':home'}, {':home sister'}, set())
    """
    told = read(text)
    return {f":{each.attribute} {each.subject}".rstrip()[:64] for each in (told, *told.also) if each.attribute}


def single_valued(text: str) -> tuple[str, str] | None:
    """Whom and what a statement is about, where that has one value at a time; of two such, one replaces the other.

    Example:
        >>> single_valued("Lives in Porto") == single_valued("I moved to Braga"), single_valued("Likes tea")
        (True, None)
    """
    told = read(text)
    return (told.subject, told.attribute) if told.single and told.positive and not refers_back(text) else None
