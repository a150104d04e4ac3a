from __future__ import annotations

import itertools
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import ConflictError, EmbeddingMismatchError, InvalidInputError, MemoryNotFoundError
from langmem_adapter.records.results import Change, Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import memories as reading
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.erasure import remove
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.tables import changes, history, memories, scopes, words
from langmem_adapter.storage.write import Write

if TYPE_CHECKING:
    from collections.abc import Iterator

ALICE, BOB = Scope(user_id="alice"), Scope(user_id="bob")
EMBEDDINGS = HashEmbeddings(64)


def write(*decisions: Decision, scope: Scope = ALICE, **options: Any) -> Write:
    vectors = {d.text: EMBEDDINGS.vector(d.text) for d in decisions if d.text is not None}
    return Write(decisions, scope=scope, vectors=vectors, **{"within": scope, **options})


def add(text: str, **fields: Any) -> Decision:
    return Decision("ADD", str(uuid.uuid4()), text, "new", **fields)


@pytest.fixture
def ledger(database: Database) -> Ledger:
    return Ledger(database, fingerprint="hash:64/2")


def test_apply_adds_updates_deletes_and_records_history(database: Database, ledger: Ledger) -> None:
    (added,) = ledger.apply(write(add("Has a sister", metadata={"a": 1, "b": 2}, actor_id="d", role="user")))
    memory_id = str(added.id)
    decision = Decision(
        "UPDATE", memory_id, "Has a sister named Jesica", "more is known", metadata={"b": None, "c": [3]}
    )
    assert ledger.apply(write(decision)) == (
        Change(memory_id, "Has a sister named Jesica", "UPDATE", "Has a sister", "more is known"),
    )
    with database.read() as connection:
        item = reading.get(connection, memory_id, ALICE)
    assert (item.text, item.revision, item.metadata) == ("Has a sister named Jesica", 2, {"a": 1, "c": [3]})
    assert (item.actor_id, item.role) == ("d", "user")
    ledger.apply(write(Decision("DELETE", memory_id, None, "gone")))
    with database.read() as connection:
        rows = connection.execute(select(history).order_by(history.c.seq)).all()
        told = [(r.event, r.old_memory, r.new_memory, r.is_deleted, r.revision) for r in rows]
        assert told == [
            ("ADD", None, "Has a sister", 0, 1),
            ("UPDATE", "Has a sister", "Has a sister named Jesica", 0, 2),
            ("DELETE", "Has a sister named Jesica", None, 1, 3),
        ]
        assert rows[0].updated_at is None and rows[1].updated_at is not None
        with pytest.raises(MemoryNotFoundError):
            reading.get(connection, memory_id)
        assert connection.execute(select(func.count()).select_from(words)).scalar() == 0
        assert connection.execute(select(scopes.c.word_count)).scalar_one() == 0


def test_is_verbatim_marks_the_words_of_a_user_until_they_are_edited(database: Database, ledger: Ledger) -> None:
    quoted, tidy = ledger.apply(write(add("My locker code is 4312", is_verbatim=True), add("Likes tea")))
    with database.read() as connection:
        marks = {item.text: item.is_verbatim for item in reading.page(connection, ALICE, k=9)[0]}
        assert marks == {"My locker code is 4312": True, "Likes tea": False}
        pks = connection.execute(select(memories.c.pk).order_by(memories.c.pk)).scalars().all()
        assert [row.text for row in reading.every_text(connection, ALICE)] == ["Likes tea"]
        assert reading.latest(connection, ALICE, 9, compared=True) == reading.compared(connection, pks) == [pks[1]]
        terms = connection.execute(select(words.c.term).where(words.c.memory_pk == pks[0])).scalars().all()
        assert not any(term.startswith(":") for term in terms)  # no attribute is read
    ledger.apply(write(Decision("UPDATE", quoted.id, None, metadata={"a": 1})))
    with database.read() as connection:
        assert reading.get(connection, str(quoted.id)).is_verbatim
    ledger.apply(write(Decision("UPDATE", quoted.id, "Locker code: 4312")))
    ledger.apply(write(Decision("DELETE", tidy.id, None)))
    with database.read() as connection:
        assert not reading.get(connection, str(quoted.id)).is_verbatim
        marked = connection.execute(select(history.c.is_verbatim).order_by(history.c.seq)).scalars().all()
        assert marked == [True, False, True, False, False]


def test_apply_of_none_changes_nothing(database: Database, ledger: Ledger) -> None:
    (added,) = ledger.apply(write(add("Likes tea")))
    before = database.version() if database.dialect == "postgresql" else None
    (result,) = ledger.apply(write(Decision("NONE", added.id, "Likes tea", "already known")))
    assert result == Change(added.id, "Likes tea", "NONE", reason="already known")
    if before is not None:
        assert database.version() == before
    with database.read() as connection:
        assert last_seq(connection) == 1


def test_apply_undoes_the_list_of_a_bad_decision(database: Database, ledger: Ledger) -> None:
    with pytest.raises(MemoryNotFoundError):
        ledger.apply(write(add("Likes tea"), Decision("DELETE", "nobody", None)))
    with database.read() as connection:
        assert last_seq(connection) == 0
        assert connection.execute(select(func.count()).select_from(scopes)).scalar() == 0


def test_apply_refuses_a_memory_that_changed_since_seen(ledger: Ledger) -> None:
    (added,) = ledger.apply(write(add("Likes tea")))
    ledger.apply(write(Decision("UPDATE", added.id, "Likes green tea", seen=1)))
    for event in ("UPDATE", "DELETE", "NONE"):
        with pytest.raises(ConflictError):
            ledger.apply(write(Decision(event, added.id, "Likes black tea", seen=1)))


_WHOSE = [ALICE, BOB, *(Scope("alice", agent, run) for agent in (None, "guide") for run in (None, "r1"))]


@settings(max_examples=20)
@given(
    theirs=st.sampled_from(_WHOSE),
    ours=st.sampled_from(_WHOSE),
    about=st.sampled_from(_WHOSE),
    changes=st.booleans(),
    compared=st.booleans(),
)
@example(theirs=ALICE, ours=ALICE, about=Scope("alice", run_id="r1"), changes=True, compared=True)
def test_apply_refuses_a_write_that_did_not_compare_with_a_later_one(
    *, theirs: Scope, ours: Scope, about: Scope, changes: bool, compared: bool
) -> None:
    database = Database(":memory:")
    prepare(database)
    ledger = Ledger(database, fingerprint="hash:64/2")
    (old,) = ledger.apply(write(add("Lives in Porto"), scope=about))
    changes = changes and theirs.covers(about)
    news = Decision("UPDATE", old.id, "Lives in Braga") if changes else add("Lives in Braga")
    ledger.apply(write(news, scope=theirs, seen=1 if compared else None))
    touched = about if changes else theirs
    both_saw = compared and theirs.covers(ours) and ours.covers(touched)
    reading = write(Decision("NONE", None, "Likes tea"), scope=ours, seen=1)
    assert ledger.apply(reading)[0].event == "NONE"  # who changes nothing is right as of when he looked
    try:
        assert ledger.apply(write(add("Lives in Faro"), scope=ours, seen=1))[0].event == "ADD"
        assert not both_saw or (changes and ours not in {theirs, about})
    except ConflictError:
        assert both_saw
    assert ledger.apply(write(add("Lives in Faro"), scope=ours, seen=3))[0].event == "ADD"  # who has seen it all
    database.close()


def test_apply_of_a_repeated_run_gives_the_same_result(database: Database, ledger: Ledger) -> None:
    run = write(Decision("ADD", None, "Likes tea"), Decision("NONE", None, "Hello", "no fact"), key="order 1")
    assert ledger.apply(run) == ledger.apply(run)
    with database.read() as connection:
        assert last_seq(connection) == 1


def test_write_key_names_a_run_within_its_scope(ledger: Ledger) -> None:
    new, elsewhere = Decision("ADD", None, "Likes tea"), Scope(user_id="alice", run_id="r1")
    runs = [ledger.apply(write(new, key="order 1", scope=scope)) for scope in (ALICE, BOB, elsewhere)]
    assert len({change.id for (change,) in runs}) == 3
    assert [ledger.finished(scope, "order 1") for scope in (ALICE, BOB, elsewhere)] == runs
    with pytest.raises(InvalidInputError, match="key within a scope"):
        Write((new,), key="order 1")


def test_apply_refuses_ids_that_a_run_chooses(ledger: Ledger) -> None:
    with pytest.raises(InvalidInputError, match="does not choose"):
        ledger.apply(write(add("Likes tea"), key="order 1"))


def test_apply_survives_an_imported_memory_with_the_id_of_its_run(ledger: Ledger) -> None:
    """Who guesses an idempotency key knows the ids that its run would give, and can import a memory with one of them."""
    order = write(Decision("ADD", None, "Likes tea"), Decision("ADD", None, "Likes chess"), key="order 1")
    guess = str(order.new_ids[1])
    ledger.apply(write(Decision("ADD", guess, "Mine now"), scope=BOB))
    done = ledger.apply(order)
    assert guess not in {change.id for change in done}
    assert ledger.apply(order) == done
    with ledger.database.read() as connection:
        assert [reading.get(connection, str(change.id)).scope for change in done] == [ALICE, ALICE]
        assert [revision.new_text for revision in reading.revisions(connection, guess)] == ["Mine now"]


def test_apply_refuses_an_id_in_use_without_naming_its_scope(ledger: Ledger) -> None:
    lives, gone = (str(ledger.apply(write(add(text)))[0].id) for text in ("Likes tea", "Likes chess"))
    ledger.apply(write(Decision("DELETE", gone, None)))
    for memory_id, scope in ((lives, BOB), (gone, BOB), (lives, ALICE), (lives, Scope("alice", run_id="r1"))):
        with pytest.raises(ConflictError) as refused:
            ledger.apply(write(Decision("ADD", memory_id, "Mine now"), scope=scope))
        assert str(refused.value) == f"the id {memory_id} is not free: leave it out to have a new one"
    with pytest.raises(ConflictError):
        ledger.apply(write(*[Decision("ADD", gone, "Likes chess")] * 2))
    ledger.apply(write(Decision("ADD", gone, "Likes chess")))
    with ledger.database.read() as connection:
        assert [revision.revision for revision in reading.revisions(connection, gone)] == [1, 2, 3]


def test_apply_refuses_a_successor_of_another_scope(ledger: Ledger) -> None:
    (hers,) = ledger.apply(write(add("Likes tea")))
    (his,) = ledger.apply(write(add("Likes tea"), scope=BOB))
    with pytest.raises(MemoryNotFoundError):
        ledger.apply(write(Decision("DELETE", his.id, None, successor_id=hers.id), scope=BOB))


def test_apply_refuses_vectors_of_another_model(database: Database, ledger: Ledger) -> None:
    ledger.apply(write(add("Likes tea")))
    with pytest.raises(EmbeddingMismatchError, match="hash:64"):
        Ledger(database, fingerprint="other:3").apply(write(add("Likes coffee")))


def test_apply_changes_a_memory_once_in_a_list(ledger: Ledger) -> None:
    (added,) = ledger.apply(write(add("Likes tea")))
    with pytest.raises(InvalidInputError, match="twice"):
        ledger.apply(write(Decision("UPDATE", added.id, "a"), Decision("DELETE", added.id, None)))


def test_delete_all_keeps_the_history_and_reset_keeps_only_the_feed(database: Database, ledger: Ledger) -> None:
    ledger.apply(write(add("Likes tea"), add("Likes chess")))
    ledger.apply(write(add("Likes tea"), scope=Scope(user_id="alice", run_id="r1")))
    ledger.apply(write(add("Likes tea"), scope=BOB))
    assert ledger.delete_all(ALICE, reason="asked for") == 3
    with database.read() as connection:
        assert connection.execute(select(func.count()).select_from(memories)).scalar() == 1
        assert connection.execute(select(func.count()).select_from(history)).scalar() == 7
    assert remove(database, None).memories == 1
    with database.read() as connection:
        for table in (memories, history, words, scopes):
            assert connection.execute(select(func.count()).select_from(table)).scalar() == 0
        assert connection.execute(select(changes.c.op).order_by(changes.c.seq)).scalars().all()[-1] == "delete"
    ledger.apply(write(add("Likes tea")))


def test_apply_uses_no_number_of_the_feed_twice(database: Database, ledger: Ledger) -> None:
    (added,) = ledger.apply(write(add("Likes tea")))
    ledger.apply(write(Decision("DELETE", added.id, None)))
    ledger.apply(write(add("Likes tea")))
    with database.read() as connection:
        assert connection.execute(select(changes.c.seq, changes.c.row)).all() == [(1, 1), (2, 1), (3, 3)]


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["ADD", "UPDATE", "DELETE"]), st.integers(0, 5), st.text("ab ", min_size=1, max_size=6)),
    max_size=25,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = Database(tmp_path_factory.mktemp("ledger") / "m.db")
    prepare(database)
    yield database
    database.close()


@given(operations=OPERATIONS)
@settings(max_examples=20)
def test_current_memories_are_the_replay_of_the_history(
    shared: Database, operations: list[tuple[str, int, str]]
) -> None:
    scope, ledger = Scope(user_id=str(uuid.uuid4())), Ledger(shared, fingerprint="hash:64/2")
    expected: dict[str, str] = {}
    for event, place, text in operations:
        known = next(itertools.islice(expected, place, None), None)
        memory_id = str(uuid.uuid4()) if event == "ADD" or known is None else known
        kind: Any = "ADD" if known is None else event
        ledger.apply(write(Decision(kind, memory_id, text), scope=scope))
        if kind == "DELETE":
            del expected[memory_id]
        else:
            expected[memory_id] = text
    with shared.read() as connection:
        items, _ = reading.page(connection, scope, k=1000)
        assert {item.id: item.text for item in items} == expected
        assert _replayed(connection, scope) == expected


def _replayed(connection: Any, scope: Scope) -> dict[str, str]:
    query = select(history).join(scopes, scopes.c.id == history.c.scope_id).where(scopes.c.user_id == scope.user_id)
    replay: dict[str, str] = {}
    for row in connection.execute(query.order_by(history.c.seq)):
        if row.is_deleted:
            del replay[row.memory_id]
        else:
            replay[row.memory_id] = row.new_memory
    return replay
