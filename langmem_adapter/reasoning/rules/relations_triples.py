"""What a statement was read to say, and how that becomes triples: the same for every language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from langmem_adapter.names import is_single
from langmem_adapter.records.graph import Triple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

__all__ = ["Link", "Span", "triples"]


@dataclass(frozen=True, slots=True)
class Link:
    """One relation and what is at its other end.

    Attributes:
        relation: Its name, in the form in which it is kept.
        targets: Several where a list was given.
        type: What kind of thing they are, where known.
        ended: It holds no longer.
        began: The statement tells of its beginning, so that "in 2019" is its date.
        source: Whose relation it is, where that is not the statement's subject.
        single: As in `Triple`.
    """

    relation: str
    targets: tuple[str, ...]
    type: str = ""
    ended: bool = False
    began: bool = False
    source: str = ""
    single: bool | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """When something holds, as far as a statement says so.

    Attributes:
        since: From when on.
        until: Until when.
        at: The date of a single event, "in 2019"; since then for what the event began.
        lasting: Whether it says that it lasts: "since 2019", "for five years".
        partly: Whether it is said of some times only: "every Sunday", "at night".
    """

    since: datetime | None = None
    until: datetime | None = None
    at: datetime | None = None
    lasting: bool = False
    partly: bool = False


def triples(source: str, source_type: str, link: Link, span: Span) -> Iterator[Triple]:
    """The triples of a link, one for each of its targets.

    Args:
        source: Whom the statement is about.
        source_type: What kind of thing that is, where known.
        link: What is said; with a `source` of its own it is not what the times are said of.
        span: When it holds.
    """
    since, until = (None, None) if link.source else _held(link, span)
    several = len(link.targets) > 1 and (link.single or is_single(link.relation))
    for target in link.targets:
        yield Triple(
            link.source or source,
            link.relation,
            target,
            source_type="" if link.source else source_type,
            target_type=link.type,
            valid_from=since,
            valid_to=until,
            ended=link.ended,
            single=False if several else link.single,
        )


def _held(link: Link, span: Span) -> tuple[datetime | None, datetime | None]:
    """Since when and until when; "no longer … since 2019" held until then."""
    if link.ended and span.since and not span.until:
        return None, span.since
    since = span.since or (span.at if link.began else None)
    until = span.until or (span.at if link.ended else None)
    return (None, None) if since and until and until <= since else (since, until)
