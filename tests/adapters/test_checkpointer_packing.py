"""Values of a state come back as they were put in, or there is an error that tells the fix."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict
from uuid import UUID

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from pydantic import BaseModel

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from langmem_adapter.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.serde.base import SerializerProtocol

T: Any = {"configurable": {"thread_id": "t"}}


@dataclass
class Trip:
    town: str


class Hotel(BaseModel):
    name: str


class Mood(Enum):
    GOOD = "good"


class Point(NamedTuple):
    x: int


class Moment(datetime):
    """What pendulum and others make."""


class State(TypedDict):
    value: Any


def keep(saver: SQLAlchemySaver, value: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("make", lambda _: {"value": value})
    builder.add_edge(START, "make")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"value": None}, T)
    return graph.get_state(T).values["value"]


@pytest.fixture(scope="module")
def opened() -> Iterator[SQLAlchemySaver]:
    with SQLAlchemySaver(":memory:") as saver:
        yield saver


@pytest.fixture
def saver(opened: SQLAlchemySaver) -> SQLAlchemySaver:
    opened.delete_thread("t")
    return opened


PLAIN = [
    None, True, -(2**63), 2**64 - 1, 1.5, float("inf"), "", "NUL \x00 ü 旅 😀", b"\x00\xff", [], [1, [2, {"a": None}]],
    {"a": {1, 2}}, {1: "int key"}, datetime(2026, 1, 2, tzinfo=UTC), UUID(int=1), Decimal("1.10"), Path("/a/b"),
    [HumanMessage("hi", id="1"), AIMessage("", tool_calls=[{"name": "t", "args": {"x": 1}, "id": "c", "type": "tool_call"}])],
    Document("text", metadata={"k": [1]}), ["builtins", "open", "x"],
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=str)
def test_plain_values_and_langchains_own_come_back_as_they_were(saver: SQLAlchemySaver, value: Any) -> None:
    assert keep(saver, value) == value


def test_an_error_about_state_that_is_read_names_the_channel(tmp_path: Path) -> None:
    where = tmp_path / "memory.db"
    with SQLAlchemySaver(where, serde=JsonPlusSerializer(allowed_msgpack_modules=[Trip])) as saver:
        assert keep(saver, [Trip("Lyon")]) == [Trip("Lyon")]
    with SQLAlchemySaver(where) as saver, pytest.raises(InvalidInputError, match=r"^channel 'value': .*Trip"):
        saver.get_tuple(T)


@pytest.mark.parametrize(
    "value",
    [Trip("Lyon"), [Trip("Lyon")], {"deep": [{"er": Hotel(name="x")}]}, Mood.GOOD, Point(1)],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_type_that_strict_msgpack_blocks_is_an_error_that_names_the_allowlist(
    saver: SQLAlchemySaver, value: Any
) -> None:
    with pytest.raises(InvalidInputError, match="strict msgpack does not read; allow it: serde=JsonPlusSer") as told:
        keep(saver, value)
    assert "allowed_msgpack_modules=[('" in str(told.value)
    assert "the only way behind a LangGraph server" in str(told.value) and "with_allowlist" in str(told.value)
    assert all(one.checkpoint["channel_values"].get("value") is None for one in saver.list(T))


@pytest.mark.parametrize(
    "value", [Trip("Lyon"), Hotel(name="x"), Mood.GOOD, Point(1)], ids=lambda value: type(value).__name__
)
def test_with_allowlist_and_serde_give_back_an_allowed_type(value: Any) -> None:
    allowed: Any = [(type(value).__module__, type(value).__name__)]
    with SQLAlchemySaver(":memory:") as strict:
        for saver in (strict.with_allowlist(allowed), strict.with_allowlist([*allowed, ("x", "Y")])):
            assert keep(saver, value) == value
        with pytest.raises(InvalidInputError, match="strict msgpack"):
            strict.get_tuple(T)
        assert strict.with_allowlist([]) is strict
    with SQLAlchemySaver(":memory:", serde=JsonPlusSerializer(allowed_msgpack_modules=[type(value)])) as saver:
        assert keep(saver, value) == value
        with pytest.raises(InvalidInputError, match=r"Moment.*convert it to a plain type"):
            keep(saver, Moment(2026, 1, 2, tzinfo=UTC))


def test_a_class_that_cannot_be_found_again_is_an_error() -> None:
    @dataclass
    class Local:
        x: int

    with (
        SQLAlchemySaver(":memory:").with_allowlist([(Local.__module__, "Local")]) as saver,
        pytest.raises(InvalidInputError, match=r"Local, and there is no such name at the top level of that module"),
    ):
        keep(saver, Local(1))


def test_a_class_that_was_removed_since_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with SQLAlchemySaver(":memory:") as strict:
        allowed = [(Trip.__module__, "Trip")]
        assert keep(strict.with_allowlist(allowed), Trip("Lyon")) == Trip("Lyon")
        monkeypatch.delattr(sys.modules[Trip.__module__], "Trip")
        with pytest.raises(InvalidInputError, match="keep the old name as an alias"):
            strict.with_allowlist(allowed).get_tuple(T)


@pytest.mark.parametrize("value", [object(), 2**64, lambda: 1, open])
def test_what_no_serializer_takes_is_an_error_that_tells_the_way_out(saver: SQLAlchemySaver, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot be kept.*UntrackedValue"):
        keep(saver, value)


def test_pickle_is_refused() -> None:
    pickling = JsonPlusSerializer(pickle_fallback=True)
    for serde in (pickling, EncryptedSerializer(Cipher(b"k"), pickling)):
        with pytest.raises(InvalidInputError, match="pickle_fallback runs code from the database"):
            SQLAlchemySaver(":memory:", serde=serde)


STRICT = """
import sys
from dataclasses import dataclass
from typing import TypedDict
from langgraph.graph import START, StateGraph
from langmem_adapter.adapters.checkpointer import SQLAlchemySaver

@dataclass
class Trip:
    town: str

class State(TypedDict):
    trip: Trip

builder = StateGraph(State)
builder.add_node("go", lambda _: {"trip": Trip("Lyon")})
builder.add_edge(START, "go")
with SQLAlchemySaver(":memory:") as saver:
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"trip": Trip("")}, {"configurable": {"thread_id": "t"}})
    print(graph.get_state({"configurable": {"thread_id": "t"}}).values)
"""


def test_in_langgraphs_strict_mode_the_types_of_the_schema_are_allowed_by_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", "true")
    done = subprocess.run([sys.executable, "-c", STRICT], capture_output=True, text=True, check=False, timeout=90)
    assert done.stdout.strip() == "{'trip': Trip(town='Lyon')}", done.stderr


# ── encryption ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Cipher:
    """A keystream from SHA-256 in counter mode and a tag over all of it: only the key undoes it."""

    def __init__(self, key: bytes) -> None:
        self.key = key

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        nonce = secrets.token_bytes(16)
        body = nonce + self._mixed(nonce, plaintext)
        return "sha", hmac.digest(self.key, body, "sha256") + body

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        tag, body = ciphertext[:32], ciphertext[32:]
        if ciphername != "sha" or not hmac.compare_digest(tag, hmac.digest(self.key, body, "sha256")):
            raise ValueError("another key")
        return self._mixed(body[:16], body[16:])

    def _mixed(self, nonce: bytes, data: bytes) -> bytes:
        blocks = range(len(data) // 32 + 1)
        stream = b"".join(hashlib.sha256(self.key + nonce + block.to_bytes(8)).digest() for block in blocks)
        return bytes(one ^ other for one, other in zip(data, stream, strict=False))


def encrypted(key: bytes, inner: SerializerProtocol | None = None) -> EncryptedSerializer:
    return EncryptedSerializer(Cipher(key), inner or JsonPlusSerializer(allowed_msgpack_modules=None))


def test_an_encrypted_state_is_read_with_its_key_only(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    config: Any = {**T, "metadata": {"customer": "Marigold Ltd"}}
    builder = StateGraph(State)
    builder.add_node("make", lambda _: {"value": "the secret of Lyon"})
    builder.add_edge(START, "make")
    with SQLAlchemySaver(path, serde=encrypted(b"key")) as saver:
        builder.compile(checkpointer=saver).invoke({"value": ""}, config)
        assert len(list(saver.list(None, filter={"customer": "Marigold Ltd", "step": 1}))) == 1
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"Lyon" not in stored and b"Marigold" not in stored
    with SQLAlchemySaver(path, serde=encrypted(b"key")) as saver:
        assert builder.compile(checkpointer=saver).get_state(T).values == {"value": "the secret of Lyon"}
    with SQLAlchemySaver(path, serde=encrypted(b"wrong")) as saver, pytest.raises(ValueError, match="another key"):
        saver.get_tuple(T)


def test_the_inner_serializer_of_an_encrypted_one_is_checked_as_well() -> None:
    with SQLAlchemySaver(":memory:", serde=encrypted(b"key")) as saver:
        with pytest.raises(InvalidInputError, match="strict msgpack"):
            keep(saver, Trip("Lyon"))
        allowed = saver.with_allowlist([(Trip.__module__, "Trip")])
        assert keep(allowed, Trip("Lyon")) == Trip("Lyon")


class Reprs:
    """A serializer of another make."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return "repr", repr(obj).encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return eval(data[1], {"inf": float("inf")})  # noqa: S307 - our own text


def test_a_serializer_of_another_make_is_used_as_it_is() -> None:
    with SQLAlchemySaver(":memory:", serde=Reprs()) as saver:
        assert keep(saver, (1, {"a": 2})) == (1, {"a": 2})
