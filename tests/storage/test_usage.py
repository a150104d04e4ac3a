"""Who has something here, and what an erasure of them would take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import conversations, jobs, keys
from langmem_adapter.storage.conversations import Conversation, Draft
from langmem_adapter.storage.erasure import SORT_KEYS, ScopeUsage, count_names, erasure_preview, list_usage, scope_usage
from langmem_adapter.storage.scopes import ids_within, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ADA = Scope(user_id="ada")
COUNTED = ("memories", "revisions", "relations", "entities", "traces", "turns", "notes", "keys", "jobs")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def memory(request: pytest.FixtureRequest, shared_url: Callable[[str], str]) -> Iterator[Memory]:
    with Memory(shared_url(request.param), graph=True) as memory:
        memory.reset()
        memory.add("I live in Lyon. I like tea.", user_id="ada")
        memory.add("I live in Oslo.", user_id="ada", agent_id="guide")
        memory.add("I like jazz.", user_id="bob", agent_id="guide")
        memory.add("我喜欢喝茶。", user_id="小明")
        memory.delete_all(user_id="小明")
        memory.parts.database.write(_say_and_wait)
        yield memory


def _say_and_wait(connection: Any) -> None:
    talk = Conversation("s1", Scope(user_id="mute"))
    conversations.append(connection, talk, [Draft(role="user", text="hello", message="{}")])
    keys.create(connection, "test", ADA, ["read"])
    jobs.submit(connection, [{"messages": "I like rain.", "user_id": "ada"}], most=10)


def test_within_refuses_a_missing_scope() -> None:
    nobody: Any = None
    for ask in (within, ids_within):
        with pytest.raises(AttributeError):
            ask(nobody)


def found(memory: Memory, *arguments: Any, **options: Any) -> list[ScopeUsage]:
    listed: list[ScopeUsage] = memory.parts.reading(list_usage, *arguments, **options)
    return listed


def names(memory: Memory, *arguments: Any, **options: Any) -> list[str]:
    return [next(iter(each.scope.named.values())) for each in found(memory, *arguments, **options)]


def test_list_usage_lists_each_user_once(memory: Memory) -> None:
    assert names(memory, "user_id", sort="name") == sorted(["ada", "bob", "mute", "小明"])
    ada, bob, *_ = found(memory, "user_id")
    assert (ada.scope, ada.memories, ada.relations, bob.memories) == (ADA, 3, 3, 1)
    assert ada.first is not None and ada.last is not None and ada.first <= ada.last
    assert memory.parts.reading(scope_usage, ADA) == ada
    (guide,) = found(memory, "agent_id")
    assert (guide.scope, guide.memories) == (Scope(agent_id="guide"), 2)
    deleted = memory.parts.reading(scope_usage, Scope(user_id="小明"))
    assert (deleted.memories, deleted.first) == (0, None)


def test_list_usage_sorts_narrows_and_cuts(memory: Memory) -> None:
    for order in SORT_KEYS:
        assert {*names(memory, "user_id", sort=order)} == {*names(memory, "user_id", sort=f"-{order}")}
    assert names(memory, "user_id", sort="-name") == names(memory, "user_id", sort="name")[::-1]
    assert names(memory, "user_id", sort="name", most=1, skipped=1) == ["bob"]
    assert names(memory, "user_id", begins="小") == ["小明"]
    assert names(memory, "user_id", begins="%") == [] == names(memory, "run_id")
    assert [each.scope for each in found(memory, "agent_id", ADA)] == [Scope(user_id="ada", agent_id="guide")]
    assert found(memory, "user_id", ADA)[0].scope == ADA
    count = memory.parts.reading
    assert (count(count_names, "user_id"), count(count_names, "user_id", ADA), count(count_names, "run_id")) == (
        4,
        1,
        0,
    )
    assert count(count_names, "user_id", begins="b") == 1


def test_erasure_preview_equals_purge(memory: Memory) -> None:
    for user in ("ada", "bob", "mute", "小明", "nobody"):
        counted = memory.parts.reading(erasure_preview, Scope(user_id=user))
        gone = memory.purge(user_id=user)
        assert {name: getattr(counted, name) for name in COUNTED} == {name: getattr(gone, name) for name in COUNTED}
        assert user not in names(memory, "user_id")
