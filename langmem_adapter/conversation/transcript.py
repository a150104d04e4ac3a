"""A conversation in the database: messages and summaries of it, read and written without losing what others write meanwhile."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeVar

from langmem_adapter.arguments import each_of
from langmem_adapter.conversation.summaries import Summary, is_open, pieces_of, split_units, summarize
from langmem_adapter.errors import ConflictError, InvalidInputError
from langmem_adapter.forks import cached_property
from langmem_adapter.records.envelope import speaker_label
from langmem_adapter.records.results import Turn
from langmem_adapter.storage import conversations, traces
from langmem_adapter.storage.conversations import Note, StoredTurn, TurnFilter, messages_of
from langmem_adapter.storage.traces import TraceDraft
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langchain_core.messages import BaseMessage
    from sqlalchemy import Connection

    from langmem_adapter.conversation.summaries import Unit
    from langmem_adapter.memory.parts import Parts
    from langmem_adapter.reasoning.base import Wording
    from langmem_adapter.records.results import Usage
    from langmem_adapter.storage.conversations import Cache, Conversation, Draft

R = TypeVar("R")

_TRIES: Final = 5


@dataclass(frozen=True)
class State:
    """The running summary of a conversation, and the turns behind what it covers, oldest first."""

    summary: Note | None
    turns: list[StoredTurn]

    @property
    def text(self) -> str:
        """That of the summary."""
        return "" if self.summary is None else self.summary.text

    @cached_property
    def messages(self) -> list[BaseMessage]:
        """Those of the turns."""
        return messages_of(self.turns)

    @property
    def units(self) -> list[Unit]:
        """The messages, in units that stay together."""
        return split_units(zip((turn.position for turn in self.turns), self.messages, strict=True))

    @property
    def closed(self) -> list[Unit]:
        """The units, without a last one that still waits for a tool result."""
        units = self.units
        return units[:-1] if units and is_open(units[-1]) else units

    def upto(self, position: int) -> list[tuple[int, str]]:
        """What two states have in common where their summaries up to a position are the same."""
        start = (0 if self.summary is None else self.summary.id, self.text)
        return [start, *((turn.position, turn.message) for turn in self.turns if turn.position <= position)]


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be summed up: units from the first behind the running summary on, in at most so many tokens."""

    units: list[Unit]
    max_tokens: int
    keep_language: bool = False


class StoredConversation:
    """A conversation in the database, of which *window* tokens are summed up at once."""

    def __init__(self, parts: Parts, conversation: Conversation, *, window: int, count: Callable[[str], int]) -> None:
        self._parts = parts
        self._conversation = conversation
        self._window = window
        self._count = count
        self._summarizer = parts.reasoner.summarizer

    def state(self) -> Plan[State]:
        """Read the summary and the turns behind it."""
        cache = self._parts.cache
        return Plan(partial(self._parts.reading, self._read) if cache is None else partial(self._read_cached, cache))

    def notes(self, kind: str) -> Plan[list[Note]]:
        """The notes of a kind, oldest first."""
        return Plan(partial(self._parts.reading, conversations.read_notes, self._conversation, kind))

    def dump(self, connection: Connection) -> str:
        """All of it, as JSON."""
        state, talk = self._read(connection), self._latest(connection, "talk")
        knowledge = conversations.read_notes(connection, self._conversation, "knowledge")
        whole = {
            "history": [json.loads(turn.message) for turn in state.turns],
            "historical_summary": state.text,
            "knowledge": [note.text for note in knowledge],
            "last_talk": talk and talk.text,
        }
        return json.dumps(whole, ensure_ascii=False)

    def _latest(self, connection: Connection, kind: str) -> Note | None:
        return conversations.latest(connection, self._conversation, kind)

    def _read(self, connection: Connection) -> State:
        summary = self._latest(connection, "summary")
        behind = TurnFilter(after=summary.covers_to if summary else 0)
        return State(summary, conversations.read(connection, self._conversation, behind))

    def _read_cached(self, cache: Cache) -> State:
        """Contract: a copy counts only where its version is the database's; see tests/conversation/test_cache.py.

        Contract: no copy is left behind of what was erased while it was put there: an eraser looks for copies once the
        rows are gone, and who puts one there looks for the rows afterwards.
        tests/conversation/test_cache.py::test_what_is_erased_while_a_copy_is_made_leaves_none
        """
        conversation, reading = self._conversation, self._parts.reading
        version, summary = reading(self._version)
        if (turns := _parse_turns(cache.get(conversation, version))) is not None:
            return State(summary, turns)
        version, state = reading(lambda connection: (self._version(connection)[0], self._read(connection)))
        cache.put(conversation, version, json.dumps([asdict(turn) for turn in state.turns], default=str))
        if reading(self._version)[0] != version:
            cache.drop(conversation)
        return state

    def _version(self, connection: Connection) -> tuple[str, Note | None]:
        summary = self._latest(connection, "summary")
        return conversations.version(connection, self._conversation, summary.covers_to if summary else 0), summary

    def write(self, work: Callable[[Connection], R]) -> Plan[R]:
        """Some work in a write transaction."""
        return Plan.calling(self._parts.database.write, self._parts.database.awrite, work)

    def append(self, draft: Draft, connection: Connection) -> bool:
        """Add a message, unless it is there already under its id."""
        if draft.message_id is not None:
            same = TurnFilter(fingerprints={str(draft.fingerprint)}, message_ids={draft.message_id})
            if conversations.read(connection, self._conversation, same):
                return False
        conversations.append(connection, self._conversation, [draft])
        return True

    def keep(self, note: Note) -> Plan[None]:
        """Keep a note."""
        kept = self.write(lambda connection: conversations.keep(connection, self._conversation, note))
        return kept.then(lambda _: None)

    def pop_talk(self, connection: Connection) -> str | None:
        """Remove the last talk, and return it."""
        talk = self._latest(connection, "talk")
        conversations.drop(connection, self._conversation, "talk")
        return None if talk is None else talk.text

    def cover(self, text: str, connection: Connection) -> None:
        """Keep a summary of all messages that was made elsewhere."""
        state = self._read(connection)
        if text != state.text:
            self._keep(connection, "summary", text, state, state.turns[-1].position if state.turns else 0)

    def clear(self) -> Plan[None]:
        """Remove everything but the name, and then the copy in the cache: no writer has to wait for a cache."""
        cache, conversation = self._parts.cache, self._conversation
        cleared = self.write(partial(conversations.clear, conversation=conversation))
        return cleared.and_then(lambda _: Plan.of(None) if cache is None else Plan(partial(cache.drop, conversation)))

    def begin(self, drafts: Sequence[Draft], notes: Iterable[Note], connection: Connection) -> None:
        """Fill it, where nothing is there yet."""
        state = self._read(connection)
        if state.turns or state.summary is not None:
            raise InvalidInputError(
                "this conversation has begun already; clear() it first, or load into another chat_id"
            )
        for note in notes:
            conversations.keep(connection, self._conversation, note)
        conversations.append(connection, self._conversation, drafts)

    def sum_up(
        self, due: Callable[[State], Due | R], finish: Callable[[str], R] | None = None, tries: int = _TRIES
    ) -> Plan[R]:
        """Sum up until nothing is *due*: until that gives the result, or *finish* makes it of a summary.

        A `ConflictError` ends it where others changed the conversation each time.
        """

        def look(state: State) -> Plan[R]:
            work = due(state)
            if not isinstance(work, Due):
                return Plan.of(work)
            made = summarize(
                self._summarizer,
                pieces_of(work.units),
                max_tokens=work.max_tokens,
                window=self._window,
                count=self._count,
                before=state.text,
                keep_language=work.keep_language,
            )
            kept = made.and_then(lambda summary: self.write(partial(self._commit, state, work, summary)))
            return kept.and_then(go_on)

        def go_on(text: str | None) -> Plan[R]:
            if text is not None and finish is not None:
                return Plan.of(finish(text))
            if tries == 1:
                raise ConflictError("other writers changed the conversation while it was summarized; try again")
            return self.sum_up(due, finish, tries - 1)

        return self.state().and_then(look)

    def _commit(self, seen: State, due: Due, made: Summary, connection: Connection) -> str | None:
        """Contract: a summary is kept only where all that it was made of is unchanged, in the transaction that keeps it.

        tests/conversation/test_brain.py::test_h23_of_two_writers_none_loses_anything
        tests/conversation/test_brain.py::test_what_is_purged_meanwhile_is_not_kept
        """
        until = due.units[-1][-1][0] if due.units else 0
        if self._read(connection).upto(until) != seen.upto(until):
            return None
        for piece in made.windows:
            self._keep(connection, "window", piece.text, seen, piece.last, made_by=made.made_by, first=piece.first)
        number = self._keep(connection, "summary", made.text, seen, until, made_by=made.made_by)
        self._trace(connection, number, seen, until, made.usage)
        return made.text

    def title(self, seen: State, text: str, max_words: int, made: Plan[Wording]) -> Plan[str]:
        """The title of a text, *made* anew if the one that is kept is of another text."""
        source = _digest([(max_words, text)])
        until = seen.turns[-1].position if seen.summary is None else 0

        def keep(wording: Wording, connection: Connection) -> str:
            if self._read(connection).upto(until) == seen.upto(until):
                by = self._summarizer.mode
                number = self._keep(connection, "title", wording.text, seen, until, made_by=by, source=source)
                self._trace(connection, number, seen, until, wording.usage)
            return wording.text

        def reuse(title: Note | None) -> Plan[str]:
            if title is not None and title.source == source:
                return Plan.of(title.text)
            return made.and_then(lambda wording: self.write(partial(keep, wording)))

        return Plan(partial(self._parts.reading, self._latest, "title")).and_then(reuse)

    def _keep(
        self,
        connection: Connection,
        kind: str,
        text: str,
        seen: State,
        until: int,
        *,
        made_by: str = "",
        first: int = 0,
        source: str = "",
    ) -> int:
        start, end = (0, 0) if seen.summary is None else (seen.summary.covers_from, seen.summary.covers_to)
        note = Note(
            kind=kind,
            text=text,
            covers_from=first or start or (seen.turns[0].position if seen.turns else 0),
            covers_to=max(until, end),
            source=source or _digest(seen.upto(until)),
            made_by=made_by,
        )
        return conversations.keep(connection, self._conversation, note)

    def _trace(self, connection: Connection, number: int, seen: State, until: int, usage: Usage) -> None:
        """What a note was made of, in the form that traces of adds have."""
        days, scope = self._parts.settings.trace_days, self._conversation.scope
        if not days or scope is None:
            return
        plain = {"infer": True, "memory_type": None, "prompt": None, "items": [{"metadata": None, "expires_at": None}]}
        turns = [(speaker_label(turn.role), turn) for turn in seen.turns if turn.position <= until]
        state = {
            "task": {"scope": scope.named, **plain},
            "turns": [Turn(role, turn.text, turn.label or role, turn.created_at).to_json() for role, turn in turns],
            "facts": [],
            "decisions": [],
            "work": {"usage": usage.to_json(), "milliseconds": {}},
            "mode": self._summarizer.mode,
        }
        traces.keep(connection, f"note-{number}", TraceDraft(days, state), ())


def _digest(parts: object) -> str:
    return blake2b(json.dumps(parts, ensure_ascii=False).encode(), digest_size=32).hexdigest()


def _parse_turns(copy: str | None) -> list[StoredTurn] | None:
    """The turns of a copy; `None` where it is none, or one that another release or program made."""
    try:
        turns = each_of(json.loads(copy or "null"), "turns")
        return [StoredTurn(**{**turn, "created_at": datetime.fromisoformat(turn["created_at"])}) for turn in turns]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
