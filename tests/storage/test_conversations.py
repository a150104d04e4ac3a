"""Conversations as rows: positions that never come back, lists by scope, erasure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.conversations import Conversation, Draft, TurnFilter, append, clear, listed, read
from langmem_adapter.storage.erasure import remove

if TYPE_CHECKING:
    from pathlib import Path

    from langmem_adapter.storage.database import Database

ALICE = Scope(user_id="alice@example.com")
HERS = Conversation("s1", ALICE)
OF_HER_AGENT = Conversation("s1", Scope(user_id="alice@example.com", agent_id="guide"))
BOBS = Conversation("s1", Scope(user_id="bob"))
NOBODYS = Conversation("s1")
EVERY = (HERS, OF_HER_AGENT, BOBS, NOBODYS)


def say(database: Database, conversation: Conversation, *texts: str) -> int:
    drafts = [Draft(role="human", text=text, message=f'{{"said": "{text}"}}') for text in texts]
    return database.write(lambda connection: append(connection, conversation, drafts))


def said(database: Database, conversation: Conversation, *, last: int | None = None, after: int = 0) -> list[str]:
    with database.read() as connection:
        return [turn.text for turn in read(connection, conversation, TurnFilter(last=last, after=after))]


def fill(database: Database) -> None:
    for conversation in EVERY:
        say(database, conversation, "one", "two")


def test_read_after_continues_where_a_reader_stopped(database: Database) -> None:
    assert say(database, HERS, "one", "two") == 2
    assert say(database, HERS) == 2
    assert say(database, HERS, "three") == 3
    assert said(database, HERS, after=1) == ["two", "three"]
    assert said(database, HERS, last=1) == ["three"]
    assert said(database, HERS, last=1, after=3) == []
    assert say(database, BOBS) == 0


def test_clear_never_reuses_a_position(database: Database) -> None:
    fill(database)
    assert database.write(lambda connection: clear(connection, HERS)) == 2
    assert say(database, HERS, "three") == 3
    assert said(database, HERS, after=2) == ["three"]
    assert said(database, BOBS) == ["one", "two"]
    assert database.write(lambda connection: clear(connection, Conversation("never"))) == 0


def test_listed_conversations_are_of_a_scope_latest_first(database: Database) -> None:
    fill(database)
    say(database, HERS, "three")
    with database.read() as connection:
        first, following = listed(connection, ALICE, k=1)
        then, last = listed(connection, ALICE, k=1, after=following)
        assert [(found.conversation, found.turns) for found in (*first, *then)] == [(HERS, 3), (OF_HER_AGENT, 2)]
        everybody, end = listed(connection, None, k=10)
    assert {found.conversation for found in everybody} == set(EVERY)
    assert last is end is None


def test_remove_erases_conversations_of_a_scope_alone(database: Database) -> None:
    fill(database)
    assert remove(database, ALICE).turns == 4
    assert said(database, HERS) == said(database, OF_HER_AGENT) == []
    with database.read() as connection:
        assert {found.conversation for found in listed(connection, None, k=10)[0]} == {BOBS, NOBODYS}
    assert remove(database, ALICE).turns == 0
    assert say(database, HERS, "anew") == 1
    assert said(database, BOBS) == said(database, NOBODYS) == ["one", "two"]


def test_conversation_keys_of_similar_names_differ(database: Database) -> None:
    pairs = [("a:b", "c"), ("a", "b:c"), ("-:-:s", "x"), ("%", "_")]
    names = [Conversation(session, Scope(user_id=user)) for session, user in pairs]
    for number, name in enumerate(names):
        say(database, name, str(number))
    assert [said(database, name) for name in names] == [["0"], ["1"], ["2"], ["3"]]


def test_stats_counts_messages_and_verify_names_unreadable_ones(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory.db") as memory:
        SQLChatMessageHistory("s", memory, user_id="a").add_user_message("你好")
        assert (memory.stats().conversations, memory.stats().turns, memory.verify().turns) == (1, 1, 1)
        assert memory.verify().ok
        say(memory.parts.database, HERS, "one")
        found = memory.verify()
        assert not found.ok
        assert [str(each) for each in found.unreadable] == [
            'turns.message of conversation_id 2, position 1: \'{"said": "one"}\''
        ]
