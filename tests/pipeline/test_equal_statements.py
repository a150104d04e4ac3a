"""What is taken for known without asking: the same statement, and never one that differs in a sign, a symbol or its case."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from langmem_adapter.maintenance.consolidate import Tidier
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import meta
from langmem_adapter.storage.tables import memories
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from langmem_adapter.storage.database import Database

PAIRS = [
    ("My blood type is A-.", "My blood type is A."),
    ("My score is -5.", "My score is +5."),
    ("I like C.", "I like C++."),
    ("I scored 5.", "I scored -5."),
    ("My password is aB3x.", "My password is Ab3X."),
    ("My favourite emoji is 👍", "My favourite emoji is 👎"),
    ("I prefer x².", "I prefer x2."),
    ("我的血型是A-。", "我的血型是A。"),
    ("我喜欢C", "我喜欢C++"),
    ("我的密码是aB3x", "我的密码是Ab3X"),
]


@pytest.fixture(scope="module")
def offline() -> Iterator[Memory]:
    with Memory(":memory:") as memory:
        yield memory


@pytest.mark.parametrize("one", [pair for both in PAIRS for pair in (both, both[::-1])], ids=" / ".join)
def test_add_offline_a_statement_that_differs_in_a_sign_is_remembered(offline: Memory, one: tuple[str, str]) -> None:
    user = str(one)
    (first,), (second,) = (offline.add(said, user_id=user).results for said in one)
    assert first.text != second.text and second.event != "NONE"
    assert second.text in {item.text for item in offline.get_all(user_id=user)}
    assert [change.event for change in offline.add(one[1], user_id=user).results] == ["NONE"]


def replies(text: str) -> list[str]:
    found, decided = {"facts": [text]}, {"memory": [{"id": "1", "text": text, "event": "ADD", "fact": 0}]}
    return [json.dumps(found), json.dumps(decided)]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_add_with_a_model_it_is_the_model_that_judges(one: str, other: str) -> None:
    model = ScriptedChatModel(replies=[replies(one)[0], *replies(other), replies(one)[0]])
    with Memory(":memory:", model=model) as memory:
        done = [memory.add("hello", user_id="ann").results[0] for _ in range(3)]
    assert [(change.event, change.text) for change in done] == [("ADD", one), ("ADD", other), ("NONE", one)]
    assert len(model.calls) == 4  # the same statement again costs one call: nobody is asked to compare it


def test_add_hashes_of_an_older_tokenizer_are_made_anew(tmp_path: Path) -> None:
    def spoil(connection: Connection) -> None:
        connection.execute(update(memories).values(hash="a" * 32))
        meta.put(connection, "tokenizer", "2")

    with Memory(tmp_path / "m.db") as memory:
        for said in ("Blood type is A-", "Blood type is A"):
            memory.add(said, user_id="ann", infer=False)
        written = {item.text: item.hash for item in memory.get_all(user_id="ann")}
        database: Database = memory.parts.database
        database.write(spoil)
    with Memory(tmp_path / "m.db") as memory:
        assert {item.text: item.hash for item in memory.get_all(user_id="ann")} == written
        tidier, ann = Tidier(memory), Scope("ann")
        assert not any(tidier.tidy(each, ann).changes for each in tidier.pending(ann))
