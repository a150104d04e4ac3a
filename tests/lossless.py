"""Databases with every kind of row, made by any sequence of steps, for tests of exports and imports."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import delete, select

from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.errors import EntityNotFoundError, InvalidInputError, MemoryNotFoundError, RelationNotFoundError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.settings import Settings
from langmem_adapter.storage import conversations
from langmem_adapter.storage.conversations import Conversation, append, clear, drafts_of
from langmem_adapter.storage.tables import (
    changes,
    entities,
    history,
    memories,
    meta,
    metadata,
    relation_memories,
    relations,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["EVERYTHING", "STEPS", "Story", "body", "consistent", "emptied", "open_memory", "signed"]

USERS: Final = ("ann", "bea", "小明|x")
PLACES: Final = ("Rome", "Oslo", "Lyon")
THINGS: Final = ("tea", "jazz", "Cid", "Cy")
Step = tuple[Any, ...]

_user, _thing, _number = st.sampled_from(USERS), st.sampled_from(THINGS), st.integers(0, 9)
_text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(str.strip)
_floats = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15)
_data = st.dictionaries(_text, st.none() | st.booleans() | st.integers(-(2**40), 2**40) | _floats | _text, max_size=3)
STEPS: Final[st.SearchStrategy[Sequence[Step]]] = st.lists(
    st.one_of(
        st.tuples(st.just("say"), _user, st.sampled_from(PLACES), st.integers(2001, 2009)),
        st.tuples(st.just("keep"), _user, _text, _data, st.booleans()),
        st.tuples(st.just("thread"), _user, _thing, st.integers(1, 3)),
        st.tuples(st.sampled_from(["edit", "delete", "restore"]), _number),
        st.tuples(st.just("relate"), _user, _thing, _thing, st.booleans()),
        st.tuples(st.sampled_from(["end", "withdraw"]), _user, _number),
        st.tuples(st.sampled_from(["merge", "split"]), _user, _thing, _thing),
        st.tuples(st.just("talk"), st.none() | _user, _text, st.integers(1, 3)),
        st.tuples(st.sampled_from(["note", "clear"]), st.none() | _user, _text),
        st.tuples(st.just("put"), _thing, _text, _data),
    ),
    max_size=14,
)
"""What happens to a database."""
EVERYTHING: Final[Sequence[Step]] = (
    *(("say", "ann", place, year) for place, year in zip(PLACES, (2003, 2005, 2004), strict=True)),
    ("keep", "ann", "opera", {"b": 0.1, "a": [1, None, {"z": 1e-7, "y": "é"}]}, True),
    ("keep", "bea", "chess", {}, False),
    ("edit", 0),
    ("delete", 1),
    ("restore", 1),
    ("delete", 2),
    ("thread", "ann", "tea", 2),
    ("relate", "ann", "tea", "Cid", True),
    ("relate", "ann", "Cy", "tea", False),
    ("merge", "ann", "Cy", "Cid"),
    ("split", "ann", "Cy", "Cid"),
    ("merge", "ann", "Cy", "Cid"),
    ("end", "ann", 0),
    ("relate", "小明|x", "Cid", "jazz", False),
    ("withdraw", "小明|x", 0),
    ("talk", "ann", "s1", 3),
    ("talk", None, "s1", 1),
    ("note", "ann", "s1"),
    ("note", "ann", "s1"),
    ("talk", "bea", "s2", 2),
    ("clear", "bea", "s2"),
    ("put", "tea", "k", {"x": 1.5}),
    ("put", "jazz", "k", {"y": None}),
    ("put", "tea", "k", {"x": 2}),
)
"""Steps that leave a row in every table that an export carries."""
_REFUSED: Final = (EntityNotFoundError, InvalidInputError, MemoryNotFoundError, RelationNotFoundError)


def open_memory(url: str, **settings: Any) -> Memory:
    """A memory for stories."""
    return Memory(url, graph=True, embeddings="hash:32", settings=Settings(trace_days=0, **settings))


@dataclass
class Story:
    """Steps carried out in a memory."""

    memory: Memory
    ids: list[str] = field(default_factory=list)

    def tell(self, steps: Sequence[Step]) -> None:
        """Carry out steps; one that makes no sense is none."""
        for name, *arguments in steps:
            with suppress(*_REFUSED):
                getattr(self, name)(*arguments)

    def say(self, user: str, place: str, year: int) -> None:
        self._add(f"I live in {place}.", user, timestamp=f"{year}-05-01")

    def keep(self, user: str, text: str, data: dict[str, Any], expires: bool) -> None:  # noqa: FBT001 - drawn
        self._add(text, user, infer=False, metadata=data, expires_at="2090-01-01T00:00:00.5Z" if expires else None)

    def thread(self, user: str, thing: str, number: int) -> None:
        messages = [{"role": "user", "content": f"I like {thing}.", "id": f"{thing}{each}"} for each in range(number)]
        self._add(messages, user, agent_id="guide", thread_id=f"thread {thing}")

    def _add(self, messages: Any, user: str, **more: Any) -> None:
        changes = self.memory.add(messages, user_id=user, **more).results
        self.ids += [change.id for change in changes if change.id is not None]

    def _id(self, number: int) -> str:
        return self.ids[number % len(self.ids)] if self.ids else str(uuid.uuid4())

    def edit(self, number: int) -> None:
        self.memory.update(self._id(number), f"edited {number}", metadata={"edits": number / 10})

    def delete(self, number: int) -> None:
        self.memory.delete(self._id(number))

    def restore(self, number: int) -> None:
        self.memory.restore(self._id(number), 1)

    def relate(self, user: str, one: str, other: str, dated: bool) -> None:  # noqa: FBT001 - drawn
        when: dict[str, Any] = {"valid_from": "2019-01-01", "valid_to": "2021-01-01"} if dated else {}
        self.memory.graph.add(one, "knows", other, user_id=user, confidence=0.3, **when)

    def _relation(self, user: str, number: int) -> str:
        relations = self.memory.graph.relations(user_id=user)
        return list(relations)[number % len(relations)].id if relations else str(uuid.uuid4())

    def end(self, user: str, number: int) -> None:
        self.memory.graph.end(self._relation(user, number))

    def withdraw(self, user: str, number: int) -> None:
        self.memory.graph.delete(self._relation(user, number))

    def merge(self, user: str, one: str, other: str) -> None:
        self.memory.graph.merge(one, into=other, user_id=user)

    def split(self, user: str, one: str, _: str) -> None:
        self.memory.graph.split(one, user_id=user)

    def talk(self, user: str | None, session: str, number: int) -> None:
        drafts = drafts_of([HumanMessage("hi", id=f"{each}") for each in range(number)] + [AIMessage("yes")])
        self.memory.parts.database.write(lambda c: append(c, _conversation(user, session), drafts))

    def note(self, user: str | None, session: str) -> None:
        note = conversations.Note(kind="summary", text=f"of {session}", covers_to=1)
        self.memory.parts.database.write(lambda c: conversations.keep(c, _conversation(user, session), note))

    def clear(self, user: str | None, session: str) -> None:
        self.memory.parts.database.write(lambda c: clear(c, _conversation(user, session)))

    def put(self, label: str, key: str, data: dict[str, Any]) -> None:
        MemoryStore(self.memory).put((label, "x"), key, data)


def _conversation(user: str | None, session: str) -> Conversation:
    return Conversation(session, None if user is None else Scope(user))


def body(memory: Memory, **options: Any) -> list[bytes]:
    """The lines of an export of everything, below the first one."""
    return list(memory.export(everything=True, **options))[1:]


def emptied(memory: Memory) -> Memory:
    """A memory without a row."""

    def empty(connection: Any) -> None:
        for table in reversed(metadata.sorted_tables):
            if table is not meta:
                connection.execute(delete(table))
        connection.execute(delete(meta).where(meta.c.key.like("import:%") | meta.c.key.like("embeddings%")))

    memory.parts.database.write(empty)
    return memory


def signed(lines: Sequence[bytes]) -> list[bytes]:
    """Lines with a last one that fits."""
    inner = lines[1:-1]
    end = {"kind": "end", "lines": len(inner), "sha256": sha256(b"".join(inner)).hexdigest()}
    return [*lines[:-1], json.dumps(end).encode() + b"\n"]


def consistent(memory: Memory) -> bool:
    """Whether all rows fit what the ledger guarantees, read with SQL."""
    with memory.parts.database.read() as connection:
        rows = {table: connection.execute(select(table)).all() for table in metadata.sorted_tables}
    chains: dict[str, list[Any]] = {}
    for row in sorted(rows[history], key=lambda row: row.seq):
        chains.setdefault(row.memory_id, []).append(row)
    standing, homes = {row.id: row for row in rows[memories]}, {row.memory_id: row.scope_id for row in rows[history]}
    for memory_id, chain in chains.items():
        assert [row.revision for row in chain] == list(range(1, len(chain) + 1))
        assert {row.scope_id for row in chain} == {homes[memory_id]}
        assert all((row.new_memory is None) == (row.event == "DELETE") == bool(row.is_deleted) for row in chain)
        assert all(row.valid_to is None or row.valid_to >= row.valid_from for row in chain)
        assert all(homes.get(row.past_of, row.scope_id) == row.scope_id for row in chain)
        own = [row for row in chain if row.past_of is None and row.event != "NONE"]
        text = own[-1].new_memory if own else None
        assert (standing[memory_id].text if memory_id in standing else None) == text
    assert standing.keys() <= chains.keys()
    ends = {row.pk: row.scope_id for row in rows[entities]}
    believed = [row.id for row in rows[relations] if row.retired_at is None]
    assert len(believed) == len(set(believed))
    for row in rows[relations]:
        assert ends[row.source_pk] == ends[row.target_pk] == row.scope_id
        assert row.valid_from is None or row.valid_to is None or row.valid_from <= row.valid_to
    assert all(homes.get(row.memory_id, row.scope_id) == row.scope_id for row in rows[relation_memories])
    assert len({row.seq for row in rows[changes]}) == len(rows[changes])
    return True
