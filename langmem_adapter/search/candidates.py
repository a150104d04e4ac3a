"""The memories that new facts are compared with: all of their scope where they fit, else the best that fit.

What is not shown to a reasoner can never be put right by it, so nothing is held back that there is room for, whatever its
vector says.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - `pipeline.state` checks by these types
from dataclasses import dataclass, field
from itertools import zip_longest
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.names import named_speaker
from langmem_adapter.records.cost import tokens_in
from langmem_adapter.records.results import FORGET
from langmem_adapter.storage import memories
from langmem_adapter.storage.meta import language_of
from langmem_adapter.storage.moments import local
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope

_SHARING: Final = 10  # facts that have the setting's tokens together
_BESIDE: Final = 10  # tokens that a memory takes beside its text: its number, its date, quotes
_LETTERS: Final = 400  # shown of a text where not everything fits; every setting has room for one of them
_MOST_SHARES: Final = 5  # fifty facts are compared at once
_MOST_READ: Final = 20  # times as many as have room: among the nearest are texts that are never compared
_MOST_NAMED: Final = 3  # texts that a request to forget may mean
_RESERVED: Final = 4  # a quarter of the room is for the newest, and as much for what the graph names


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that new facts are compared with.

    Attributes:
        text: As it is shown.
        seq: Number of its last change.
        since: The date of its last statement with its UTC offset, in ISO 8601.
        speaker: Whose statement it is, as `names.named_speaker` has it.
        cut: Whether *text* is not all of it.
    """

    id: str
    text: str
    seq: int
    since: str
    speaker: str
    cut: bool


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The memories that some facts are compared with.

    Attributes:
        seen: Number of the last change that was taken into account.
        known: Those that a reasoner is shown, oldest statement first; behind them, those that only say a fact's own words.
        shown: How many of them it is shown.
        equal: For each fact, the indexes of memories with the same words: of each speaker's the oldest. For a request to
            forget, of those that say what is to be forgotten.
        alike: For each fact, the indexes of memories that embeddings take for the same statement.
        holding: For each request to forget, by its place, the texts in the user's own words that hold all of its words.
    """

    seen: int
    known: tuple[Candidate, ...]
    shown: int
    equal: tuple[tuple[int, ...], ...]
    holding: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alike: tuple[tuple[int, ...], ...] = ()


def room(tokens: int, facts: int) -> int:
    """Tokens that the memories around so many facts may take: the setting's for ten of them, five times as many at most."""
    return tokens * max(1, min(_MOST_SHARES, ceil(facts / _SHARING)))


def whole(connection: Connection, scope: Scope, most: int) -> list[Any] | None:
    """Every fact within *scope*; `None` where they take more than *most* tokens, which is found out without reading them."""
    count, letters = memories.extent(connection, scope, most // _BESIDE + 1)
    if count * _BESIDE + letters // 4 > most:
        return None
    rows = memories.every_text(connection, scope)
    return rows if sum(map(_tokens, rows)) <= most else None


def best_that_fit(
    connection: Connection, scope: Scope, most: int, *, named: Sequence[int], ranked: Sequence[Sequence[int]]
) -> list[Any]:
    """Memories within *scope* that take at most so many tokens; of long ones the beginning, with an ellipsis at its end.

    Args:
        connection: A read transaction.
        scope: The fields that the add was given.
        most: Tokens.
        named: Pks of those that say something else of what a fact says can have one value only.
        ranked: For each fact, pks by each kind of nearness, nearest first; they take turns.
    """
    count = most // _BESIDE
    newest = memories.latest(connection, scope, count // _RESERVED, compared=True)
    taking_turns = [pk for turn in zip_longest(*ranked) for pk in turn if pk is not None]
    near = memories.compared(connection, list(dict.fromkeys(taking_turns))[: _MOST_READ * count])[:count]
    rows = {row.pk: row for row in memories.texts(connection, {*named, *newest, *near}, _LETTERS)}
    chosen: dict[int, Any] = {}
    for pks, share in ((named, most // _RESERVED), (newest, most // _RESERVED), (near, most)):
        left = min(share, most - sum(map(_tokens, chosen.values())))
        chosen |= {row.pk: row for row in _fitting((rows[pk] for pk in pks if pk in rows and pk not in chosen), left)}
    return list(chosen.values())


def neighbourhood(
    connection: Connection, scope: Scope, facts: Iterable[str], shown: Iterable[Any], *, seen: int
) -> Neighbourhood:
    """Put together what some facts are compared with."""
    facts = list(facts)
    words = [text_hash(fact.removeprefix(FORGET)) for fact in facts]
    equal = memories.equal_texts(connection, scope, words)
    rows = sorted(shown, key=lambda row: (row.updated_at, row.pk))
    others = {pk for pks in equal.values() for pk in pks}.difference(row.pk for row in rows)
    known = [*rows, *memories.texts(connection, others, _LETTERS)]
    place = {row.pk: number for number, row in enumerate(known)}
    return Neighbourhood(
        seen=seen,
        known=tuple(
            Candidate(
                row.id,
                row.text,
                row.seq,
                local(row.updated_at, row.utc_offset).isoformat(),
                named_speaker(row.actor_id, row.role, scope),
                row.letters > len(row.text),
            )
            for row in known
        ),
        shown=len(rows),
        equal=tuple(tuple(place[pk] for pk in equal.get(each, ()) if pk in place) for each in words),
        holding={
            str(number): tuple(
                memories.holding(connection, scope, fact.removeprefix(FORGET), language_of(connection), _MOST_NAMED)
            )
            for number, fact in enumerate(facts)
            if fact.startswith(FORGET)
        },
    )


def _fitting(rows: Iterable[Any], left: int) -> Iterator[Any]:
    for row in rows:
        if _tokens(row) <= left:
            left -= _tokens(row)
            yield row


def _tokens(row: Any) -> int:
    """About how many tokens a memory takes."""
    return _BESIDE + tokens_in(row.text)
