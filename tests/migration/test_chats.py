"""`migrate chat`: files of every form, written here after the documented forms; each message is accounted for."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import zipfile
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, messages_to_dict

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.migration.chats import chat_rows, cost_of, remembered, windows
from langmem_adapter.migration.writer import Migration
from langmem_adapter.records.scope import Scope
from tests.cases import each

if TYPE_CHECKING:
    from pathlib import Path

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.migration.writer import MigrationReport

ANN = Scope(user_id="ann")
BRANCH = "of another branch: a regenerated answer or an edited question"


def migrate(memory: Memory, source: object, scope: Scope | None = ANN, **how: Any) -> MigrationReport:
    migration = Migration(memory, **how)
    report = migration.take(chat_rows(str(source), scope, migration.report.lost))
    assert report.read["messages"] == (
        report.added["messages"] + report.unchanged["messages"] + report.left_out.total() + report.rejected
    )
    return report


def said(memory: Memory, session: str) -> list[tuple[str, str]]:
    return [(each.type, each.text) for each in SQLChatMessageHistory(session, memory, user_id="ann").messages]


def node(id_: str, parent: str | None, role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    content = more.pop("content", {"content_type": "text", "parts": list(parts)})
    message = {
        "id": id_,
        "author": {"role": role},
        "create_time": 1_700_000_000 + len(id_),
        "content": content,
        "weight": 1,
    }
    return {
        id_: {
            "id": id_,
            "message": {**message, "recipient": "all", "metadata": {}, **more},
            "parent": parent,
            "children": [],
        }
    }


def chatgpt() -> dict[str, Any]:
    root: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    mapping = root | node("s", "root", "system", "", metadata={"is_visually_hidden_from_conversation": True})
    mapping |= node("q1", "s", "user", "What is a fugue?") | node("a1", "q1", "assistant", "A dance.")
    mapping |= node("a2", "q1", "assistant", "A piece of counterpoint.")
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    kind = {"content": {"content_type": "multimodal_text", "parts": [picture, "And this score?"]}}
    mapping |= node("q2", "a2", "user", **kind) | node("t1", "q2", "assistant", "search()", recipient="browser")
    mapping |= node("t2", "t1", "tool", "found") | node("h", "t2", "assistant", "hidden", weight=0)
    thoughts = {"content_type": "thoughts", "thoughts": [{"content": "hm"}]}
    mapping |= node("th", "h", "assistant", content=thoughts) | node(
        "a3", "th", "assistant", "By Bach.", create_time=None
    )
    return {
        "title": "Music",
        "create_time": 1_690_000_000.5,
        "mapping": mapping,
        "current_node": "a3",
        "conversation_id": "c1",
    }


def claude() -> dict[str, Any]:
    texts = [
        ("human", "Hello", []),
        ("assistant", "", [{"type": "text", "text": "Hi!"}, {"type": "tool_use", "name": "x"}]),
    ]
    texts += [("human", "", []), ("robot", "beep", [])]
    messages = [
        {
            "uuid": f"m{n}",
            "sender": sender,
            "text": text,
            "content": content,
            "created_at": f"2025-03-0{n + 1}T10:00:00Z",
        }
        for n, (sender, text, content) in enumerate(texts)
    ]
    messages[0] |= {"attachments": [{"file_name": "a.txt"}], "files": []}
    return {"uuid": "c2", "name": "Greetings", "created_at": "2025-03-01T10:00:00Z", "chat_messages": messages}


def test_migrate_chat_takes_the_shown_branch_of_chatgpt(memory: Memory, tmp_path: Path) -> None:
    file = tmp_path / "export.zip"
    loop = {"a": {"id": "a", "parent": "b", "message": None}, "b": {"id": "b", "parent": "a", "message": None}}
    lost = {
        "title": "No current node",
        "id": "c3",
        "mapping": node("x", None, "user", "first") | node("yy", "x", "user", "last"),
    }
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json", "{}")
        archive.writestr(
            "conversations-000.json", json.dumps([chatgpt(), {"id": "loop", "mapping": loop, "current_node": "a"}])
        )
        archive.writestr("nested/conversations-001.json", json.dumps([lost, {"mapping": {"n": {"message": 7}}}]))
    kept: list[Any] = []
    report = migrate(memory, file, rejected=kept.append)
    assert said(memory, "c1") == [
        ("human", "What is a fugue?"),
        ("ai", "A piece of counterpoint."),
        ("human", "And this score?"),
        ("ai", "By Bach."),
    ]
    assert said(memory, "c3") == [("human", "first"), ("human", "last")]
    assert report.left_out == {
        BRANCH: 1,
        "sent to a tool": 1,
        "of the role tool": 1,
        "not shown in the chat": 2,
        "content of the type thoughts": 1,
    }
    assert report.lost == {"picture or file of a message": 1} and report.rejected == len(kept) == 1
    again = migrate(memory, file)
    with pytest.raises(InvalidInputError, match="give -u NAME"):
        migrate(memory, file, None)
    assert again.added["messages"] == 0 and again.unchanged["messages"] == 6


def test_migrate_chat_takes_claudes_messages_with_their_dates(memory: Memory, tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    file.write_text("\ufeff" + json.dumps([claude()], indent=2))
    report = migrate(memory, file)
    assert said(memory, "c2") == [("human", "Hello"), ("ai", "Hi!")]
    assert report.left_out == {"without text": 1, "of the role robot": 1}
    assert report.lost == {"picture or file of a message": 1}
    rows = [row for row in chat_rows(str(file), ANN, Counter()) if hasattr(row, "created_at")]
    assert [row.created_at for row in rows] == [datetime(2025, 3, day, 10, tzinfo=UTC) for day in (1, 2)]


def test_migrate_chat_takes_langchains_messages_word_for_word(memory: Memory, tmp_path: Path) -> None:
    call = {"name": "look", "args": {"q": "x"}, "id": "t1"}
    messages = [
        HumanMessage("Grüße", id="h1", name="ann"),
        AIMessage([{"type": "text", "text": "one"}], tool_calls=[call]),
        ToolMessage("two", tool_call_id="t1"),
    ]
    dumped = messages_to_dict(messages)
    (tmp_path / "talk.json").write_text(json.dumps(dumped))
    with sqlite3.connect(tmp_path / "history.db") as connection:
        connection.execute("CREATE TABLE message_store (id INTEGER PRIMARY KEY, session_id TEXT, message TEXT)")
        rows = [(session, json.dumps(each)) for each in dumped for session in ("s1", "s2")]
        connection.executemany("INSERT INTO message_store (session_id, message) VALUES (?, ?)", [*rows, ("s1", "junk")])
    assert migrate(memory, tmp_path / "talk.json").added["messages"] == 3
    report = migrate(memory, tmp_path / "history.db")
    assert (report.added["messages"], report.rejected) == (6, 1)
    assert migrate(memory, tmp_path / "history.db").unchanged["messages"] == 6
    for session in ("talk", "s1", "s2"):
        kept = SQLChatMessageHistory(session, memory, user_id="ann").messages
        assert [each.model_copy(update={"id": None}) for each in kept] == [
            each.model_copy(update={"id": None}) for each in messages
        ]
        assert kept[0].id == "h1"


def test_migrate_chat_takes_json_lines_of_several_sessions(memory: Memory, tmp_path: Path) -> None:
    lines: list[Any] = [
        {"role": "user", "content": "I live in Lyon", "timestamp": "2025-01-02T03:04:05+02:00", "session": "one"},
        {"role": "assistant", "content": "Noted", "session": "one"},
        {"role": "user", "content": "I live in Lyon", "session": "two", "name": "Ann"},
        {"role": "user", "content": "mine", "user_id": "bob"},
        {"role": "pilot", "content": "what"},
        {"content": "no role"},
        "text",
    ]
    file = tmp_path / "chat.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\nbroken\n")
    kept: list[Any] = []
    report = migrate(memory, file, rejected=kept.append)
    assert [row.place for row in kept] == [f"line {number}" for number in (5, 6, 7, 8)]
    assert said(memory, "one") == [("human", "I live in Lyon"), ("ai", "Noted")] and len(said(memory, "two")) == 1
    file.write_text(file.read_text() + json.dumps({"role": "user", "content": "more", "session": "one"}) + "\n")
    assert migrate(memory, file).added["messages"] == 1
    assert report.users == {"user=ann": 3, "user=bob": 1}
    kept.clear()
    alone = migrate(memory, file, None, rejected=kept.append)
    assert alone.unchanged["messages"] == 1 and len(kept) == 4
    assert alone.left_out == {"message that names no user, agent or run; -u NAME takes it": 4}


def test_migrate_chat_remembers_each_window_once(memory: Memory, tmp_path: Path) -> None:
    lines = [{"role": "user", "content": f"My lucky number is {number}.", "session": "s"} for number in range(45)]
    file = tmp_path / "chat.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    groups = list(windows(chat_rows(str(file), ANN, Counter())))
    assert [len(each) for each in groups] == [20, 20, 5]
    adds, calls, tokens = cost_of(groups, "openai:gpt-5-mini")
    assert (adds, calls) == (3, 6) and tokens > sum(len(row.message.text) for group in groups for row in group) // 2
    assert cost_of(groups, "offline") == (3, 0, 0)
    for _ in range(2):
        for group in groups:
            memory.add(**remembered(group))
        assert (memory.stats().memories, memory.stats().revisions) == (1, 3)  # the last number of each window


@each(
    ("content", "message"),
    [
        (b"hello", "rejected"),
        (b"[1, 2]", "rejected"),
        (b'[{"mapping": {', "damaged, or ends too early"),
        (b'[{"mapping": {}} junk]', "damaged"),
        (b'{"role": "user", "content": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "damaged"),
    ],
)
def test_migrate_chat_refuses_what_is_no_chat(memory: Memory, tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "chat.json"
    file.write_bytes(content)
    if message == "rejected":
        assert migrate(memory, file).rejected == migrate(memory, file).read["messages"] > 0
    else:
        with pytest.raises(InvalidInputError, match=message):
            migrate(memory, file)


MEASURED = """
import json, resource, sys
from collections import Counter
from langmem_adapter.migration.chats import chat_rows
from langmem_adapter.records.scope import Scope
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
count = sum(1 for _ in chat_rows(sys.argv[1], Scope(user_id="ann"), Counter()))
print(count, peak() - before)
"""


def test_migrate_chat_reads_a_large_export_a_conversation_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    one = json.dumps([{**chatgpt(), "filler": "é" * 200_000}], ensure_ascii=False)[1:-1]
    with file.open("w", encoding="utf-8") as out:
        out.write("[" + ",\n".join([one] * 200) + "]")
    assert file.stat().st_size > 80_000_000
    done = subprocess.run([sys.executable, "-c", MEASURED, str(file)], capture_output=True, text=True, check=True)
    count, grown = map(int, done.stdout.split())
    assert count == 200 * 10 and grown < 60, "megabytes; the file has 80"


def test_migrate_chat_rejects_a_damaged_conversation_alone(memory: Memory, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    damage: list[dict[str, Any]] = [{"current_node": [1]}, {"current_node": {}}]
    parents: list[Any] = [{"x": 1}, [1]]
    conversations = [{**chatgpt(), "conversation_id": f"d{number}", **each} for number, each in enumerate(damage)]
    for number, parent in enumerate(parents):
        odd = node("q", None, "user", "Hello")
        odd["q"]["parent"] = parent
        conversations.append({"conversation_id": f"p{number}", "mapping": odd})
    file.write_text(json.dumps(conversations))
    report = migrate(memory, file)
    assert report.added["messages"] >= len(conversations)
    with sqlite3.connect(tmp_path / "m.db") as connection:
        connection.execute("CREATE TABLE message_store (id INTEGER PRIMARY KEY, session_id TEXT, message TEXT)")
        good = json.dumps({"type": "human", "data": {"content": "Hello"}})
        for message in (None, 5, b"\xff", "{broken", good):
            connection.execute("INSERT INTO message_store (session_id, message) VALUES ('s', ?)", (message,))
    report = migrate(memory, tmp_path / "m.db")
    assert (report.rejected, report.added["messages"]) == (4, 1)


def test_migrate_chat_refuses_a_damaged_or_encrypted_zip(memory: Memory, tmp_path: Path) -> None:
    whole = tmp_path / "whole.zip"
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([chatgpt()] * 9))
    content = whole.read_bytes()
    head = content.index(b"PK\1\2")
    for places in ({6: 1, head + 8: 1}, {14: 9, head + 16: 9}, {8: 99, head + 10: 99}, {60: 0, 61: 255}):
        damaged = bytearray(content)
        for place, value in places.items():
            damaged[place] ^= value or 255
        (tmp_path / "c.zip").write_bytes(damaged)
        with pytest.raises(InvalidInputError, match="cannot be read"):
            migrate(memory, tmp_path / "c.zip")
    (tmp_path / "c.zip").write_bytes(content[:40] + content[head:])
    with pytest.raises(InvalidInputError):
        migrate(memory, tmp_path / "c.zip")


def test_migrate_chat_reads_a_line_without_end_in_pieces(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langmem_adapter.migration.chats._LONGEST", 1_000_000)
    file = tmp_path / "c.jsonl"
    file.write_text("a" * 5_500_000 + "\n" + json.dumps({"role": "user", "content": "Hello"}))
    report = migrate(memory, file)
    assert (report.rejected, report.added["messages"]) == (5, 1)


def test_migrate_chat_remembers_only_messages_that_can_be_kept(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    rows = [{"role": "user", "content": content} for content in ("I live in Lyon", "a \0 in it", "I have a dog")]
    file.write_text("\n".join(map(json.dumps, rows)))
    (window,) = windows(chat_rows(str(file), ANN, Counter()))
    assert [row.message.text for row in window] == ["I live in Lyon", "I have a dog"]
