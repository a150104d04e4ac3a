"""A database with rows in every table, and what of it a copy must have."""

from __future__ import annotations

import json
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import HumanMessage, message_to_dict
from langgraph.checkpoint.base import empty_checkpoint
from sqlalchemy import insert, select

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import conversations, feed, jobs, keys
from langmem_adapter.storage import conversations as notes
from langmem_adapter.storage import keys as sessions
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.tables import metadata, reembedded

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["LEFT_OUT", "Rows", "copied", "fill", "open_memory", "rows_of", "talk"]

Rows = dict[str, list[tuple[Any, ...]]]
LEFT_OUT: Final = {"sessions", "cursors", "reembedded"}


def open_memory(database: str) -> Memory:
    return Memory(database, embeddings="hash:64", graph=True)


def fill(database: str) -> None:
    """Write rows into every table of a new database."""
    with open_memory(database) as memory:
        message = HumanMessage("I live in Lyon. I have a sister named Jesica. 我喜欢茶。", id="m1")
        first = memory.add([message], user_id="ada", thread_id="t", metadata={"a": 1.5, "é": [1, None, "x"]})
        memory.add("I live in Kyoto.", user_id="ada", expires_at="2100-01-01T00:00:00+02:00")
        memory.update(str(first.results[1].id), 'Has a sister: "Jesica"\t\\N')
        memory.delete(str(first.results[2].id))
        memory.graph.add("Ben", "knows", "Cleo", user_id="ada")
        memory.graph.add("Benjamin", "knows", "Dora", user_id="ada")
        memory.graph.merge("Benjamin", "Ben", user_id="ada")
        MemoryStore(memory).put(("notes", "ada"), "tea", {"text": "likes tea"})
        memory.parts.database.write(_fill_more)
    with SQLAlchemySaver(database) as saver:
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        checkpoint = empty_checkpoint() | {"channel_values": {"x": [1]}, "channel_versions": {"x": "1"}}
        config = saver.put(config, checkpoint, {"step": 1}, {"x": "1"})
        saver.put_writes(config, [("answer", 7)], "task")


def _fill_more(connection: Connection) -> None:
    talk(connection)
    key, _ = keys.create(connection, "program", None, {"read"})
    sessions.begin(connection, key)
    jobs.submit(connection, [{"messages": "I like tea.", "user_id": "ada"}, {"messages": "x", "user_id": "ada"}], 9)
    jobs.take(connection, "worker", 60)
    feed.put(connection, "a store", feed.last(connection, "hash:64/2"))
    connection.execute(insert(reembedded).values(pk=2, seq=2, embedding=b"vector"))


def talk(connection: Connection) -> int:
    """Begin a conversation, and keep a note of it; the note's number."""
    name = conversations.Conversation(str(uuid.uuid4()), Scope("ada"))
    message = json.dumps(message_to_dict(HumanMessage("hello, é")))
    conversations.append(connection, name, [conversations.Draft(role="human", text="hello, é", message=message)])
    return notes.keep(connection, name, notes.Note(kind="title", text="Greetings"))


def rows_of(database: str) -> Rows:
    """The rows of all tables, in one order and form on both databases."""
    with closing(Database(database)) as opened, opened.read() as connection:
        return {
            table.name: sorted((tuple(map(_plain, row)) for row in connection.execute(select(table))), key=repr)
            for table in metadata.sorted_tables
        }


def copied(rows: Rows) -> Rows:
    """The rows of those tables that are equal in a copy."""
    return {name: each for name, each in rows.items() if name not in LEFT_OUT | {"jobs", "changes"}}


def _plain(value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value
