"""The door for MetaGPT: its messages there and back, its memories, and the folders of its roles.

MetaGPT and llama-index are not installed here. The classes and files below are written by hand after their sources: `Message`
(metagpt/schema.py), `ObjectNode` (metagpt/rag/schema.py), and llama-index's `docstore.json` and `index_store.json`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel

from langmem_adapter.adapters.metagpt import (
    MessageImport,
    aimport_memory,
    aimport_role,
    brain_from_metagpt,
    from_metagpt,
    import_memory,
    import_role,
    to_metagpt,
)
from langmem_adapter.conversation import BrainMemory, LongTermMemory, WorkingMemory, carried, register, stamp
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

REQUIREMENT = "metagpt.actions.add_requirement.UserRequirement"


class Plan(BaseModel):
    """A payload of a class that nobody registers."""

    steps: list[str]


@register
class Design(BaseModel):
    """A payload of a class that is registered."""

    files: list[str]


@dataclass
class Said:
    """MetaGPT's `Message`, as far as its attributes go."""

    content: str
    id: str = "1"
    instruct_content: Any = None
    role: str = "user"
    cause_by: Any = REQUIREMENT
    sent_from: str = ""
    send_to: set[Any] = field(default_factory=lambda: {"<all>"})
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class Dumping(Said):
    """The same with MetaGPT's own dump."""

    def dump(self) -> str:
        """What MetaGPT writes: no fields that are `None`."""
        whole = vars(self) | {"send_to": [*self.send_to]}
        return json.dumps({name: value for name, value in whole.items() if value is not None})


@dataclass
class Log:
    """MetaGPT's `Memory`."""

    storage: list[Any]
    index: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    ignore_id: bool = False


def dump(content: str, number: str = "1", **fields: Any) -> dict[str, Any]:
    """A message as `model_dump(mode="json")` gives it."""
    whole: dict[str, Any] = {"id": number, "content": content, "instruct_content": None, "role": "user"}
    whole |= {"cause_by": REQUIREMENT, "sent_from": "", "send_to": ["<all>"], "metadata": {}}
    return whole | fields


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("role", "kind", "label"),
    [
        ("user", HumanMessage, ""),
        ("assistant", AIMessage, ""),
        ("system", SystemMessage, ""),
        ("Architect", HumanMessage, "Architect"),
        ("产品经理", HumanMessage, "产品经理"),
    ],
)
def test_the_roles_of_a_model_are_types_and_any_other_is_a_label(
    role: str, kind: type[BaseMessage], label: str
) -> None:
    message = from_metagpt(dump("写一个贪吃蛇游戏", role=role))
    assert (type(message), carried(message).label, message.text) == (kind, label, "写一个贪吃蛇游戏")
    assert to_metagpt(message)["role"] == role


@pytest.mark.parametrize("shape", [Said, Dumping])
def test_from_metagpt_reads_cause_by_sent_from_and_send_to_of_an_object(shape: Callable[..., object]) -> None:
    fields: dict[str, Any] = {"role": "Boss", "cause_by": "WritePRD", "sent_from": "Alice", "metadata": {"k": [1]}}
    taken = from_metagpt(shape("Goals", send_to={"Bob", "Eve"}, **fields))
    assert taken == from_metagpt(dump("Goals", send_to=["Bob", "Eve"], **fields))
    held = carried(taken)
    assert (held.cause_by, held.sent_from, held.send_to) == ("WritePRD", "Alice", frozenset({"Bob", "Eve"}))


def test_what_names_no_cause_is_a_requirement_and_what_names_nobody_is_for_everybody() -> None:
    held = carried(from_metagpt({"content": "Write a game."}))
    assert (held.cause_by, held.send_to) == (REQUIREMENT, frozenset())
    assert to_metagpt(HumanMessage("Write a game."))["send_to"] == ["<all>"]


def test_the_id_of_those_that_ignore_ids_is_none() -> None:
    assert from_metagpt(dump("Hi", "0")).id is None


def test_a_payload_of_a_class_is_plain_and_goes_back_with_its_name() -> None:
    made = {"class": "Plan", "module": __name__, "value": {"steps": ["ask"]}}
    for message in (
        from_metagpt(dump("Do.", instruct_content=made)),
        from_metagpt(Said("Do.", instruct_content=Plan(steps=["ask"]))),
    ):
        assert carried(message).payload == {"steps": ["ask"]}
        assert to_metagpt(message)["instruct_content"] == made


def test_a_payload_of_a_registered_class_comes_back_as_its_object() -> None:
    made = {"class": "Design", "module": __name__, "value": {"files": ["蛇.py"]}}
    assert carried(from_metagpt(dump("Do.", instruct_content=made))).payload == Design(files=["蛇.py"])
    assert to_metagpt(stamp(AIMessage("Do."), payload=Design(files=["蛇.py"])))["instruct_content"] == made


def test_a_payload_that_metagpt_made_of_a_mapping_goes_back_with_it() -> None:
    made = {"class": "PRD", "mapping": {"Goals": "(list[str], Ellipsis)"}, "value": {"Goals": ["fun"]}}
    message = from_metagpt(Dumping("Do.", instruct_content=made))
    assert carried(message).payload == {"Goals": ["fun"]}
    assert to_metagpt(message)["instruct_content"] == made


def test_no_class_that_a_payload_names_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trap.py").write_text("raise RuntimeError('imported')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    message = from_metagpt(dump("Do.", instruct_content={"class": "Trap", "module": "trap", "value": {}}))
    assert carried(message).payload == {}


def test_fields_that_a_fork_adds_come_back() -> None:
    whole = dump("Hi", ttl=60, created_at=1.5)
    assert to_metagpt(from_metagpt(whole)) == whole


@each(
    "wrong",
    [
        "text",
        None,
        {"id": "1"},
        dump("Hi", role=7),
        {"content": 7},
        dump("Hi", id=7),
        dump("Hi", cause_by=" "),
        dump("Hi", metadata=[1]),
        dump("Hi", metadata={"x": float("nan")}),
        dump("Hi", instruct_content={"value": {}}),
        dump("Hi", instruct_content={"class": "Plan", "value": {}}),
        dump("Hi", instruct_content=[1]),
    ],
)
def test_what_is_not_of_its_shape_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInputError):
        from_metagpt(wrong)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (ToolMessage("3", tool_call_id="1"), "ToolMessage"),
        (AIMessage("", tool_calls=[{"name": "add", "args": {}, "id": "1"}]), "tools"),
        (HumanMessage([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]), "text"),
        (stamp(HumanMessage("Hi"), payload={"a": 1}), "class"),
    ],
)
def test_what_metagpt_has_no_place_for_is_refused_not_lost(message: BaseMessage, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        to_metagpt(message)


names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).filter(str.strip)
plain = st.dictionaries(names, st.none() | st.booleans() | st.integers(-(2**53), 2**53) | names | st.lists(names))
modules = st.fixed_dictionaries(
    {
        "class": st.from_regex(r"[A-Z]\w*", fullmatch=True),
        "module": st.from_regex(r"[a-z]\w*(\.[a-z]\w*)?", fullmatch=True),
        "value": plain,
    }
)
mappings = st.fixed_dictionaries({"class": names, "mapping": st.dictionaries(names, names), "value": plain})
dumps = st.fixed_dictionaries(
    {
        "id": names.filter(lambda number: number != "0"),
        "content": st.text(st.characters(codec="utf-8", exclude_characters="\x00")),
        "instruct_content": st.none() | modules | mappings,
        "role": st.sampled_from(["user", "assistant", "system"]) | names,
        "cause_by": names,
        "sent_from": st.just("") | names,
        "send_to": st.just(["<all>"]) | st.sets(names, min_size=1).map(sorted),
        "metadata": plain,
    }
)


@given(whole=dumps)
def test_a_dump_comes_back_as_it_was(whole: dict[str, Any]) -> None:
    message = from_metagpt(whole)
    assert to_metagpt(message) == whole
    assert from_metagpt(to_metagpt(message)) == message


# ── memories ─────────────────────────────────────────────────────────────────────────────────────────────────────────

GOALS = dump("目标：好玩", "2", role="assistant", cause_by="WritePRD")


@pytest.mark.parametrize("shape", [Log, lambda *given: {"storage": given[0], "index": given[1], "ignore_id": False}])
async def test_a_memory_is_taken_in_order_and_twice_takes_nothing_new(shape: Callable[..., object]) -> None:
    memory = shape([dump("Write a game."), GOALS], {REQUIREMENT: [dump("Write a game.")], "WritePRD": [GOALS]})
    log = WorkingMemory()
    assert import_memory(memory, log) == MessageImport(new=2, known=0)
    assert await aimport_memory(memory, log) == MessageImport(new=0, known=2)
    assert [message.text for message in log.get()] == ["Write a game.", "目标：好玩"]
    assert [message.text for message in log.get_by_action("WritePRD")] == ["目标：好玩"]


def test_a_memory_that_ignores_ids_goes_into_one_that_does() -> None:
    memory = Log([dump("Hi", "0"), dump("Go on", "0"), dump("Hi", "0")], ignore_id=True)
    log = WorkingMemory(ignore_id=True)
    assert import_memory(memory, log) == MessageImport(new=2, known=1)
    assert len({message.id for message in log.get()}) == 2
    with pytest.raises(InvalidInputError, match="ignore_id=True"):
        import_memory(memory, WorkingMemory())


def test_what_cannot_be_taken_is_reported_and_the_rest_is_taken() -> None:
    memory = Log([dump("Hi"), {"id": "2"}, dump("N\x00L", "3")], {"A": [dump("Hi"), dump("Lost", "9"), 7]})
    done = import_memory(memory, WorkingMemory())
    assert (done.new, [refused.place for refused in done.refused]) == (
        1,
        ["storage 2", "storage 3", "index of A 2", "index of A 3"],
    )
    assert "does not hold it: 'Lost'" in done.refused[2].reason


@pytest.mark.parametrize("wrong", [None, "text", {"storage": 7}, {"index": {}}, Log([], {1: []})])  # type: ignore[dict-item]  # meant
def test_what_is_no_memory_of_its_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="storage"):
        import_memory(wrong, WorkingMemory())


def test_into_is_one_of_our_memories_of_conversations() -> None:
    wrong: Any = object()
    with pytest.raises(InvalidInputError, match="WorkingMemory"):
        import_memory(Log([]), wrong)


@dataclass
class Brain:
    """MetaGPT's `BrainMemory`."""

    history: list[Any]
    knowledge: list[Any]
    historical_summary: str = "安喜欢茶。"
    last_history_id: str = "2"
    is_dirty: bool = False
    last_talk: str | None = "再见"
    config: dict[str, str] = field(default_factory=lambda: {"api_key": "sk-secret"})


def test_what_a_brain_holds_is_loaded_without_its_keys() -> None:
    whole = Brain([dump("你好"), dump("您好！", "2", role="assistant")], [dump("Tea is hot.", "3")])
    told = brain_from_metagpt(whole)
    assert told == brain_from_metagpt(vars(whole)) == brain_from_metagpt(json.dumps(vars(whole)))
    with Memory(":memory:", embeddings="hash:64") as memory:
        chat = BrainMemory(memory, "monday", user_id="ann")
        chat.loads(told)
        assert [(message.type, message.text) for message in chat.history] == [("human", "你好"), ("ai", "您好！")]
        assert (chat.historical_summary, chat.knowledge, chat.last_talk) == ("安喜欢茶。", ["Tea is hot."], "再见")
        assert "secret" not in chat.dumps()


@pytest.mark.parametrize(
    "wrong",
    ["{", "[]", {}, {"history": [], "knowledge": [7]}, {"history": [dump("Hi"), 7]}, {"history": [], "last_talk": 7}],
)
def test_what_is_no_brain_of_its_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInputError, match=r"history|knowledge|last_talk|JSON"):
        brain_from_metagpt(wrong)


# ── folders ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def node(place: str, message: Any) -> dict[str, Any]:
    """A node as llama-index writes it, with MetaGPT's metadata."""
    named = {"is_obj": True, "obj": None, "obj_cls_name": "Message", "obj_mod_name": "metagpt.schema"}
    data = {"id_": place, "embedding": None, "metadata": named | {"obj_json": message}, "relationships": {}}
    return {"__data__": data | {"text": "…", "class_name": "ObjectNode"}, "__type__": "1"}


def role_folder(folder: Path, nodes: dict[str, Any], indexed: Iterable[str] | None = None) -> Path:
    """A folder of a role, as MetaGPT leaves it; its vectors are a file that nobody may read as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    docstore = {"docstore/metadata": {}, "docstore/data": nodes, "docstore/ref_doc_info": {}} if nodes else {}
    (folder / "docstore.json").write_text(json.dumps(docstore), encoding="utf-8")
    places = dict(enumerate(nodes if indexed is None else indexed))
    index = {"index_id": "i", "summary": None, "nodes_dict": places, "doc_id_dict": {}, "embeddings_dict": {}}
    entry = {"__type__": "vector_store", "__data__": json.dumps(index)}
    (folder / "index_store.json").write_text(json.dumps({"index_store/data": {"i": entry}}), encoding="utf-8")
    (folder / "default__vector_store.json").write_bytes(b"IxF2\x80\x04\x95")
    return folder


def messages_of(*dumped: dict[str, Any]) -> dict[str, Any]:
    return {f"n{number}": node(f"n{number}", json.dumps(each)) for number, each in enumerate(dumped, start=1)}


@pytest.mark.parametrize("role_id", ["Alice(Product Manager)", "产品经理", ".. x"])
async def test_import_role_takes_a_folder_of_any_role_id_in_order_and_once(tmp_path: Path, role_id: str) -> None:
    folder = role_folder(tmp_path / "role_mem" / role_id, messages_of(dump("Write a game."), GOALS))
    with Memory(":memory:", embeddings="hash:64") as memory:
        log = WorkingMemory(memory=memory, agent_id=role_id)
        assert import_role(folder, log) == MessageImport(new=2, known=0)
        assert await aimport_role(folder, WorkingMemory(memory=memory, agent_id=role_id)) == MessageImport(
            new=0, known=2
        )
        assert [message.text for message in log.get()] == ["Write a game.", "目标：好玩"]
        assert log.get() == [from_metagpt(dump("Write a game.")), from_metagpt(GOALS)]


def test_a_folder_is_taken_into_the_long_term_memory_of_a_role(tmp_path: Path) -> None:
    folder = role_folder(tmp_path / "产品经理", messages_of(dump("Write a snake game"), dump("目标：好玩", "2")))
    with Memory(":memory:") as memory:
        role = LongTermMemory(memory, folder.name, user_id="alice")
        assert import_role(folder, role) == MessageImport(new=2, known=0)
        assert import_role(folder, role) == MessageImport(new=0, known=2)
        assert [found.message for found in role.search_similar("目标：好玩！")] == [
            from_metagpt(dump("目标：好玩", "2"))
        ]
        assert len(memory.get_all(agent_id="产品经理", user_id="alice")) == 2


def test_what_metagpt_wrote_twice_is_taken_once_and_what_has_no_id_gets_its_nodes(tmp_path: Path) -> None:
    folder = role_folder(tmp_path, messages_of(dump("Hi"), dump("Hi"), dump("Yo", "0"), dump("Yo", "0")))
    log = WorkingMemory()
    assert import_role(folder, log) == MessageImport(new=3, known=1)
    assert import_role(folder, log) == MessageImport(new=0, known=4)
    assert [message.id for message in log.get()] == ["1", "n3", "n4"]


def test_rows_that_cannot_be_taken_are_reported_by_their_node(tmp_path: Path) -> None:
    nodes = {
        "good": node("good", json.dumps(dump("Hi"))),
        "no JSON": node("no JSON", "{"),
        "no message": node("no message", json.dumps([1])),
        "no object": {"__data__": {"metadata": {}}, "__type__": "1"},
        "nothing": 7,
        "deep": node("deep", "[" * 200_000),
    }
    done = import_role(role_folder(tmp_path, nodes, indexed=[*nodes, "gone"]), WorkingMemory())
    assert (done.new, [refused.place for refused in done.refused]) == (1, [*[*nodes][1:], "gone"])
    assert all(refused.reason for refused in done.refused)


@pytest.mark.parametrize("name", ["docstore.json", "index_store.json"])
@pytest.mark.parametrize(
    "damaged",
    [
        *(b"", b"{", b"\x80\x04\x95", b"\xff\xfe", b"[]", b"7", b'{"other": {}}', b"[" * 200_000),
        b'{"docstore/data": [], "index_store/data": {"i": {}}}',
        b'{"docstore/data": 7, "index_store/data": {"i": 7}}',
    ],
)
def test_a_damaged_file_is_an_error_that_names_it_and_nothing_is_taken(
    tmp_path: Path, name: str, damaged: bytes
) -> None:
    folder = role_folder(tmp_path, messages_of(dump("Hi")))
    (folder / name).write_bytes(damaged)
    log = WorkingMemory()
    with pytest.raises(InvalidInputError, match=name):
        import_role(folder, log)
    assert log.count() == 0


def test_a_folder_with_pickles_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "faiss_store.pkl").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    with pytest.raises(InvalidInputError, match=r"docstore\.json.*pickles"):
        import_role(tmp_path, WorkingMemory())
