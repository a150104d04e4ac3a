"""What is kept of a scope between searches is what a new process would read."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.search import scope_cache
from langmem_adapter.search import scope_cache as scope_caches
from langmem_adapter.search.scope_cache import CachedAt, ScopeCaches, posting_loader
from langmem_adapter.settings import Settings
from langmem_adapter.storage.feed import last_seq

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sqlalchemy import Connection

QUIET = Settings(trace_days=0)
WORDS = "tea coffee jazz chess sister moved live bicycle 茶 猫".split()
QUESTIONS = ("where does my sister live?", "tea and jazz", "chess", "谁喜欢茶？", "when was it?")
WHO: Sequence[dict[str, Any]] = ({"user_id": "a"}, {"user_id": "a", "run_id": "1"}, {"user_id": "b"}, {"agent_id": "x"})
STEP = st.tuples(
    st.sampled_from(["add", "add", "add", "update", "delete", "clear"]),
    st.sampled_from(WHO),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join),
    st.integers(0, 7),
)


def found(memory: Memory) -> list[Any]:
    """Every hit of every question in every scope, with all that speaks for it."""
    scopes: Sequence[dict[str, Any]] = ({"user_id": "a"}, {"user_id": "a", "run_id": "1"}, {"agent_id": "x"})
    hits = [
        (hit.id, hit.score, hit.explanation)
        for who in scopes
        for question in QUESTIONS
        for hit in memory.search(question, **who, k=20, explain=True)
    ]
    return [
        (id_, round(score, 6), why and {name: round(part, 6) for name, part in why.parts.items()})
        for id_, score, why in hits
    ]


def take(memory: Memory, step: tuple[str, dict[str, Any], str, int]) -> None:
    kind, who, text, number = step
    if kind == "add":
        turns = [{"role": "user", "name": ("Ann", "Ben")[number % 2], "content": word} for word in (text, text[::-1])]
        memory.add(turns, **who, infer=False, timestamp=1_700_000_000 + 1_000 * number)
        return
    items = memory.get_all(**who)
    if kind == "clear":
        memory.delete_all(**who)
    elif items and kind == "update":
        memory.update(items[number % len(items)].id, text)
    elif items:
        memory.delete(items[number % len(items)].id)


@settings(max_examples=12)
@given(st.lists(STEP, min_size=1, max_size=8))
def test_after_any_changes_a_search_gives_what_a_new_process_gives(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, dict[str, Any], str, int]]
) -> None:
    path = tmp_path_factory.mktemp("caches") / "m.db"
    with Memory(path, settings=QUIET) as old, Memory(path, settings=QUIET) as writer:
        for number, step in enumerate(steps):
            take((old, writer)[number % 2], step)
            found(old)
        with Memory(path, settings=QUIET) as new:
            assert found(old) == found(new)


def test_only_so_much_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope_caches, "_MOST", 100)
    with Memory(tmp_path / "m.db", settings=QUIET) as memory:
        for number in range(30):
            memory.add(f"I like tea number {number}", user_id=f"u{number}", infer=False)
        caches, version = ScopeCaches(memory.parts.database), memory.parts.database.version()
        given = [caches.of(Scope(f"u{number}"), version) for number in range(30)]
        assert caches.of(Scope("u29"), version) is given[29]
        assert caches.of(Scope("u0"), version) is not given[0]
        assert memory.search("tea", user_id="u0")[0].text == "I like tea number 0"


@pytest.mark.parametrize("newer", [1, 2 * scope_cache._MOST_PATCHES])
def test_what_was_read_in_an_older_state_hides_nothing(tmp_path: Path, newer: int) -> None:
    with Memory(tmp_path / "m.db", settings=QUIET) as memory:
        database, scope = memory.parts.database, Scope("a")
        caches = ScopeCaches(database)

        def add(text: str) -> CachedAt:
            memory.add(text, user_id="a", infer=False)
            return caches.of(scope, database.version())

        old = add("I like tea.")
        with database.reading() as connect:  # a search that is overtaken between two of its steps
            load = posting_loader(connect, old.scope_ids)
            assert [len(pks) for pks in old.cache.holders(["tea"], load)] == [1]
            new = [add(f"I like tea and jazz {number}") for number in range(newer)][-1]
            assert [len(pks) for pks in old.cache.holders(["jazz"], load)] in ([0], [newer])
        with database.reading() as connect:
            load = posting_loader(connect, new.scope_ids)
            assert [len(pks) for pks in new.cache.holders(["tea", "jazz"], load)] == [newer + 1, newer]


def test_who_reads_later_waits_for_his_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory(tmp_path / "m.db", settings=QUIET) as memory, ThreadPoolExecutor(2) as pool:
        database, scope, read = memory.parts.database, Scope("a"), memory.parts.database.read
        caches, begun, go_on = ScopeCaches(database), threading.Event(), threading.Event()

        @contextmanager
        def slowly() -> Iterator[Connection]:
            with read() as connection:
                last_seq(connection)  # now it sees one state
                begun.set()
                assert go_on.wait(30)
                yield connection

        memory.add("I like tea.", user_id="a", infer=False)
        with monkeypatch.context() as patched:
            patched.setattr(database, "read", slowly)
            first = pool.submit(caches.of, scope, database.version())
            assert begun.wait(30)
        memory.add("I like jazz.", user_id="a", infer=False)
        second = pool.submit(caches.of, scope, database.version())
        with pytest.raises(FutureTimeoutError):
            second.result(0.2)
        go_on.set()
        assert [len(one.result(30).cache.columns.pks) for one in (first, second)] == [1, 2]
        assert caches.of(scope, database.version()) is second.result()


def test_a_scope_that_appears_later_joins_the_searches_that_cover_it(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", settings=QUIET) as one, Memory(tmp_path / "m.db", settings=QUIET) as two:
        one.add("I like tea.", user_id="a", infer=False)
        assert len(one.search("tea", user_id="a")) == 1
        two.add("I like green tea.", user_id="a", run_id="new", infer=False)
        two.add("I like black tea.", user_id="ab", run_id="new", infer=False)
        assert {hit.text for hit in one.search("tea", user_id="a")} == {"I like tea.", "I like green tea."}


def test_another_tenants_texts_change_nobodys_ranking(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", settings=QUIET) as memory:
        for text in ("Likes hiking in the Alps", "Works in Paris", "Hikes with Anna", "喜欢喝绿茶"):
            memory.add(text, user_id="a", infer=False)
        before = [(hit.id, hit.score) for hit in memory.search('hikes "in" Alps OR NEAR(', user_id="a")]
        memory.add_many([{"messages": f"hiking {n}", "user_id": "b", "infer": False} for n in range(50)])
        assert [(hit.id, hit.score) for hit in memory.search('hikes "in" Alps OR NEAR(', user_id="a")] == before


def test_a_question_of_thousands_of_words_is_answered_like_any_other(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", settings=QUIET) as memory:
        memory.add("Owns house w77", user_id="a", infer=False)
        memory.search(" ".join(f"w{n}" for n in range(3_000)), user_id="a")
        assert (
            memory.search(" ".join(f"w{n}" for n in range(6_000)), user_id="a", explain=True)[0].text
            == "Owns house w77"
        )
        assert memory.search("w77", user_id="a", explain=True)[0].explanation is not None
