"""The pipeline as a LangGraph graph: streamed, checkpointed, resumed, nested, traced, and in conflict with others."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.base import BaseTracer
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import ConflictError, InvalidInputError, ModelError, ScopeError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.testing import CountingEmbeddings, ScriptedChatModel
from tests.faults.processes import call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tracers.schemas import Run

STAGES = ["parse", "extract", "retrieve", "decide", "apply"]
ANN: Any = {"user_id": "ann"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400}}
CONVERSATION: list[Any] = [
    HumanMessage([{"type": "text", "text": "I live in Rome. She has a dog."}, IMAGE], name="Ann"),
    AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}]),
    {"role": "user", "content": "I like tea.", "timestamp": "2024-05-01"},
]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m.db") as opened:
        yield opened


@pytest.fixture
def saver() -> InMemorySaver:
    """A checkpointer that refuses to bring back anything but plain types and LangChain's own."""
    return InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))


def thread(name: str = "1") -> RunnableConfig:
    return {"configurable": {"thread_id": name}}


def texts(memory: Memory, **scope: str) -> set[str]:
    return {item.text for item in memory.get_all(**(scope or ANN))}


def plain(value: object) -> bool:
    return bool(json.loads(json.dumps(value, allow_nan=False)) == value)


# ── what it looks like ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_picture_of_the_graph_is_that_of_the_readme(memory: Memory) -> None:
    drawn = memory.pipeline.get_graph()
    assert [name for name in drawn.nodes if not name.startswith("__")] == STAGES
    edges = {(edge.source, edge.target) for edge in drawn.edges}
    assert {("__start__", "parse"), *pairwise(STAGES), ("apply", "__end__")} <= edges
    assert ("apply", "retrieve") in edges and ("extract", "decide") in edges
    assert len(edges) == 8


def test_pipeline_each_stage_streams_its_own_keys_in_order(memory: Memory) -> None:
    graph = memory.build_pipeline()
    memory.add("I live in Paris.", **ANN)
    steps = list(graph.stream({"messages": "I live in Rome.", "scope": ANN}, stream_mode="updates"))
    assert [name for step in steps for name in step] == STAGES
    made = dict(zip(STAGES, ("turns", "facts", "candidates", "decisions", "result"), strict=True))
    for step in steps:
        for name, update in step.items():
            assert update[made[name]]
            assert plain(update)
    assert steps[-1]["apply"]["result"]["results"][0]["event"] == "UPDATE"
    order = ["task", "turns", "before", "facts", "candidates", "decisions", "result", "work"]
    assert list(steps[0]["parse"]) == order


@pytest.mark.parametrize(("said", "infer"), [("Hello there.", True), ("I like tea.", False)])
def test_pipeline_where_there_is_nothing_to_compare_retrieve_is_passed_over(
    memory: Memory, said: str, *, infer: bool
) -> None:
    given = {"messages": said, "scope": ANN, "infer": infer}
    steps = [name for step in memory.build_pipeline().stream(given, stream_mode="updates") for name in step]
    assert set(STAGES) - set(steps) <= {"retrieve"}
    assert not infer or texts(memory) == set()


def test_pipeline_the_output_is_the_work_of_the_stages_and_no_more(memory: Memory) -> None:
    output = memory.build_pipeline().invoke({"messages": CONVERSATION, "scope": ANN})
    assert set(output) == {"turns", "facts", "candidates", "decisions", "result"}
    assert plain(output)
    assert [turn["role"] for turn in output["turns"]] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"messages": "I like tea.", "scope": {}}, ScopeError),
        ({"scope": ANN}, InvalidInputError),
        ({"messages": "", "scope": ANN}, InvalidInputError),
        ({"messages": "x", "items": [{"messages": "y"}], "scope": ANN}, InvalidInputError),
        ({"items": [{"messages": "y"}, {"metadata": {}}], "scope": ANN}, InvalidInputError),
        ({"messages": "x", "scope": ANN, "metadata": {"x": float("nan")}}, InvalidInputError),
        ({"messages": "x", "scope": ANN, "expires_at": "soon"}, InvalidInputError),
    ],
)
def test_a_graph_refuses_what_add_refuses(memory: Memory, given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        memory.build_pipeline().invoke(given)
    assert memory.stats().changes == 0


# ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("messages", ["I live in Rome. I like tea.", CONVERSATION])
@pytest.mark.parametrize("infer", [True, False])
def test_pipeline_the_state_is_plain_json_after_every_stage(memory: Memory, messages: Any, *, infer: bool) -> None:
    memory.add("I live in Paris. I have a sister.", **ANN)
    given = {"messages": messages, "scope": ANN, "infer": infer, "metadata": {"source": ["chat", 1, None]}}
    states = list(memory.build_pipeline().stream(given, stream_mode="values"))[1:]  # the first is the input as it came
    assert len(states) >= 4
    for state in states:
        assert plain(state)
        assert "base64" not in json.dumps(state)
        assert not vectors_in(state)


def test_pipeline_a_strict_checkpointer_gives_every_state_back_as_it_was(memory: Memory, saver: InMemorySaver) -> None:
    graph = memory.build_pipeline(checkpointer=saver)
    streamed = list(graph.stream({"messages": CONVERSATION, "scope": ANN}, thread(), stream_mode="values"))
    kept = [snapshot.values for snapshot in graph.get_state_history(thread())][-2::-1]
    assert kept[1:] == streamed[1:]
    assert graph.get_state(thread()).next == ()


def test_pipeline_a_thread_takes_one_conversation_after_the_other(memory: Memory, saver: InMemorySaver) -> None:
    graph = memory.build_pipeline(checkpointer=saver)
    memory.add("I live in Paris.", **ANN)
    said: list[dict[str, Any]] = [
        {"messages": "I live in Rome.", "metadata": {"n": 1}, "expires_at": "2999-01-01", "timestamp": "2020-01-01"},
        {"messages": "I live in Oslo."},
        {"items": [{"messages": "I like tea."}, {"messages": "I like chess.", "metadata": {"n": 2}}]},
        {"messages": "I said this.", "infer": False},
        {"messages": "I own a red bicycle.", "infer": True},
    ]
    results = [graph.invoke({**given, "scope": ANN}, thread())["result"]["results"] for given in said]
    assert [[change["event"] for change in result] for result in results] == [
        ["ADD"], ["UPDATE"], ["ADD", "ADD"], ["ADD"], ["ADD"],
    ]  # fmt: skip
    assert texts(memory) == {"Lives in Oslo", "Likes tea", "Likes chess", "I said this.", "I own a red bicycle."}
    tea = memory.search("tea", **ANN)[0].item
    assert (tea.metadata, tea.expires_at) == ({}, None) and tea.created_at.year > 2020


def test_pipeline_a_run_that_is_named_happens_once_in_any_thread(memory: Memory, saver: InMemorySaver) -> None:
    graph = memory.build_pipeline(checkpointer=saver)
    given = {"messages": "I like tea.", "scope": ANN, "key": "6f2d1c1e-9f1b-5d0a-8a53-6c616e676d65"}
    first = graph.invoke(given, thread("1"))["result"]["results"]
    assert graph.invoke(given, thread("2"))["result"]["results"][0]["id"] == first[0]["id"]
    assert memory.stats().revisions == 1
    other = graph.invoke({"messages": "I like milk.", "scope": ANN}, thread("1"))["result"]["results"]
    assert other[0]["text"] == "Likes milk"


@pytest.mark.parametrize("stage", STAGES[1:])
def test_pipeline_a_run_that_stopped_before_a_stage_is_resumed_by_another_process(
    tmp_path: Path, saver: InMemorySaver, stage: str
) -> None:
    with Memory(tmp_path / "m.db") as one:
        one.add("I live in Paris.", **ANN)
        graph = one.build_pipeline(checkpointer=saver)
        graph.invoke({"messages": "I live in Rome.", "scope": ANN}, thread(), interrupt_before=[stage])
        assert graph.get_state(thread()).next == (stage,)
        assert texts(one) == {"Lives in Paris"}
    counting = CountingEmbeddings(HashEmbeddings(512))
    with Memory(tmp_path / "m.db", embeddings=counting) as two:
        output = two.build_pipeline(checkpointer=saver).invoke(None, thread())
        assert output["result"]["results"][0]["event"] == "UPDATE"
        assert counting.documents == [["Lives in Rome"]]
        assert texts(two) == {"Lives in Rome"}


def test_pipeline_a_model_that_failed_is_asked_again_where_the_run_stopped(
    tmp_path: Path, saver: InMemorySaver
) -> None:
    model = ScriptedChatModel(
        replies=[facts("Lives in Rome"), ValueError("the model is down"), decision("UPDATE", "Lives in Rome")]
    )
    with Memory(tmp_path / "m.db", model=model) as memory, Memory(tmp_path / "m.db") as offline:
        offline.add("I live in Paris.", **ANN)
        graph = memory.build_pipeline(checkpointer=saver)
        with pytest.raises(ModelError, match="down"):
            graph.invoke({"messages": "I live in Rome.", "scope": ANN}, thread())
        assert graph.get_state(thread()).next == ("decide",)
        assert texts(memory) == {"Lives in Paris"}
        graph.invoke(None, thread())
        assert texts(memory) == {"Lives in Rome"}
    assert len(model.calls) == 3


# ── conflicts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def facts(*found: str) -> str:
    return json.dumps({"facts": list(found)})


def decision(event: str, text: str, number: str = "0") -> str:
    return json.dumps({"memory": [{"id": number, "text": text, "event": event, "old_memory": None, "fact": 0}]})


def meanwhile(action: Callable[[], object], reply: str) -> Callable[[list[BaseMessage]], str]:
    """A reply before which somebody else does something."""

    def answer(_: list[BaseMessage]) -> str:
        action()
        return reply

    return answer


class Rivals:
    """Two memories on one file: one with a scripted model, and one for those who write meanwhile."""

    def __init__(self, path: Path, replies: list[Any], **options: Any) -> None:
        self.model = ScriptedChatModel(replies=replies)
        self.other = Memory(path)
        self.mine = Memory(path, model=self.model, settings=Settings(**options))

    def said(self, text: str) -> str:
        """The other one remembers a text as it stands; its id."""
        return str(self.other.add(text, infer=False, **ANN).results[0].id)

    def run(self, messages: str) -> list[str]:
        """The stages that a run passes, in order."""
        given = {"messages": messages, "scope": ANN}
        stream = self.mine.build_pipeline().stream(given, stream_mode="updates")
        return [name for step in stream for name in step]


@pytest.fixture
def rivals(tmp_path: Path) -> Iterator[Callable[..., Rivals]]:
    opened: list[Rivals] = []

    def open_them(*replies: Any, **options: Any) -> Rivals:
        opened.append(Rivals(tmp_path / "m.db", list(replies), **options))
        return opened[-1]

    yield open_them
    for pair in opened:
        pair.mine.close()
        pair.other.close()


ONCE_MORE = [*STAGES, "retrieve", "decide", "apply"]


def test_pipeline_a_neighbour_that_changed_meanwhile_is_looked_at_again(rivals: Callable[..., Rivals]) -> None:
    ids: list[str] = []
    pair = rivals(
        facts("Lives in Rome"),
        meanwhile(lambda: pair.other.update(ids[0], "Lives in Paris, France"), decision("UPDATE", "Lives in Rome")),
        decision("UPDATE", "Lives in Rome, before in Paris"),
    )
    ids.append(pair.said("Lives in Paris"))
    assert pair.run("I live in Rome.") == ONCE_MORE
    assert "Lives in Paris, France" in str(pair.model.calls[2][-1].content)
    assert [revision.new_text for revision in pair.mine.history(ids[0])] == [
        "Lives in Paris", "Lives in Paris, France", "Lives in Rome, before in Paris",
    ]  # fmt: skip


def test_pipeline_a_neighbour_that_was_deleted_meanwhile_is_not_brought_back(rivals: Callable[..., Rivals]) -> None:
    ids: list[str] = []
    pair = rivals(
        facts("Lives in Rome"), meanwhile(lambda: pair.other.delete(ids[0]), decision("UPDATE", "Lives in Rome"))
    )
    ids.append(pair.said("Lives in Paris"))
    assert pair.run("I live in Rome.") == ONCE_MORE
    assert texts(pair.mine) == {"Lives in Rome"} and pair.mine.get_all(**ANN)[0].id != ids[0]
    assert len(pair.model.calls) == 2  # nothing near is left, so nobody needs to judge


def compared_elsewhere(path: Path, text: str) -> None:
    """In another process, whose adds stand in no queue of this one."""
    with Memory(path, model=ScriptedChatModel(replies=[facts(text), decision("ADD", text, "9")])) as other:
        other.add(text, **ANN)


def test_the_same_fact_compared_and_written_meanwhile_is_not_added_twice(
    rivals: Callable[..., Rivals], tmp_path: Path
) -> None:
    pair = rivals(
        facts("Likes green tea"),
        meanwhile(
            lambda: call(compared_elsewhere, tmp_path / "m.db", "likes green tea."),
            decision("ADD", "Likes green tea", "9"),
        ),
    )
    pair.said("Likes green tea with milk")
    assert pair.run("I like green tea.") == ONCE_MORE
    assert texts(pair.mine) == {"Likes green tea with milk", "likes green tea."}
    assert len(pair.model.calls) == 2


def test_pipeline_the_model_is_not_asked_again_where_it_would_be_shown_the_same(
    rivals: Callable[..., Rivals], tmp_path: Path
) -> None:
    path = tmp_path / "m.db"

    def comes_and_goes() -> None:
        call(compared_elsewhere, path, "Plays chess")
        (chess,) = (item.id for item in pair.other.get_all(**ANN) if item.text == "Plays chess")
        pair.other.delete(chess)

    pair = rivals(facts("Likes green tea"), meanwhile(comes_and_goes, decision("ADD", "Likes green tea", "9")))
    pair.said("Likes milk")
    assert pair.run("I like green tea.") == ONCE_MORE
    assert texts(pair.mine) == {"Likes milk", "Likes green tea"}
    assert len(pair.model.calls) == 2


def test_pipeline_what_is_written_elsewhere_or_compared_with_nothing_is_no_conflict(
    rivals: Callable[..., Rivals],
) -> None:
    pair = rivals(
        facts("Likes green tea"),
        meanwhile(
            lambda: (pair.said("Likes green tea"), pair.other.add("I like green tea", user_id="bob")),
            decision("ADD", "Likes green tea", "9"),
        ),
    )
    pair.said("Likes green tea with milk")
    assert pair.run("I like green tea.") == STAGES
    assert len(pair.mine.get_all(**ANN)) == 3


def _always_disturbed(rivals: Callable[..., Rivals], attempts: int) -> tuple[Rivals, str]:
    ids: list[str] = []
    count = iter(range(100))
    disturbed = meanwhile(
        lambda: pair.other.update(ids[0], f"Lives in Paris {next(count)}"), decision("UPDATE", "Lives in Rome")
    )
    pair = rivals(facts("Lives in Rome"), *[disturbed] * attempts, attempts=attempts)
    ids.append(pair.said("Lives in Paris"))
    return pair, ids[0]


@pytest.mark.parametrize("attempts", [1, 3, 20])
def test_pipeline_one_who_is_always_disturbed_gives_up_with_nothing_written(
    rivals: Callable[..., Rivals], attempts: int
) -> None:
    pair, memory_id = _always_disturbed(rivals, attempts)
    with pytest.raises(ConflictError, match=f"{attempts} times in a row; nothing was written"):
        pair.mine.add("I live in Rome.", **ANN)
    assert len(pair.model.calls) == 1 + attempts
    assert pair.mine.get(memory_id).text == f"Lives in Paris {attempts - 1}"
    assert len(pair.mine.history(memory_id)) == 1 + attempts


# ── inside other graphs ───────────────────────────────────────────────────────────────────────────────────────────────


class Chat(TypedDict, total=False):
    """A parent graph's state: some keys are the pipeline's, some its own."""

    messages: list[AnyMessage]
    scope: dict[str, Any]
    result: dict[str, Any]
    answer: str


def _parent(node: Any) -> StateGraph[Chat, None, Chat, Chat]:
    graph = StateGraph(Chat)
    graph.add_node("answer", lambda _: {"answer": "Noted."})
    graph.add_node("remember", node)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", "remember")
    return graph


def _spaces(saver: InMemorySaver) -> set[str]:
    return {kept.config["configurable"]["checkpoint_ns"].partition(":")[0] for kept in saver.list(None)}


def test_as_a_subgraph_it_keeps_its_state_with_the_parents(memory: Memory, saver: InMemorySaver) -> None:
    parent = _parent(memory.build_pipeline()).compile(checkpointer=saver)
    said: list[AnyMessage] = [HumanMessage("I like tea.")]
    output = parent.invoke({"messages": said, "scope": ANN}, thread())
    assert set(output) == {"messages", "scope", "result", "answer"}
    assert output["messages"] == said and output["result"]["results"][0]["text"] == "Likes tea"
    again = parent.invoke({"messages": [HumanMessage("I live in Rome.")]}, thread())
    assert again["result"]["results"][0]["text"] == "Lives in Rome"
    assert texts(memory) == {"Likes tea", "Lives in Rome"}
    assert _spaces(saver) == {"", "remember"}


def test_as_a_subgraph_it_is_streamed_and_resumed_with_the_parent(memory: Memory, saver: InMemorySaver) -> None:
    pipeline = memory.build_pipeline()
    parent = _parent(pipeline).compile(checkpointer=saver)
    given: Chat = {"messages": [HumanMessage("I like tea.")], "scope": ANN}
    stream = parent.stream(given, thread(), stream_mode="updates", subgraphs=True)
    assert [name for space, step in stream if space for name in step] == STAGES

    stopping = memory.build_pipeline()
    stopping.interrupt_before_nodes = ["apply"]
    other = _parent(stopping).compile(checkpointer=saver)
    other.invoke({"messages": [HumanMessage("I like milk.")], "scope": ANN}, thread("2"))
    assert texts(memory) == {"Likes tea"}
    other.invoke(None, thread("2"))
    assert texts(memory) == {"Likes tea", "Likes milk"}


def test_add_within_a_node_leaves_nothing_in_the_graphs_thread(memory: Memory, saver: InMemorySaver) -> None:
    def remember(state: Chat) -> Chat:
        return {"result": {"events": [c.event for c in memory.add(state["messages"], **state["scope"]).results]}}

    parent = _parent(remember).compile(checkpointer=saver)
    output = parent.invoke({"messages": [HumanMessage("I like tea.")], "scope": ANN}, thread())
    assert output["result"] == {"events": ["ADD"]}
    assert _spaces(saver) == {""}
    assert all("turns" not in kept.checkpoint["channel_values"] for kept in saver.list(None))
    assert {key for snapshot in parent.get_state_history(thread()) for key in snapshot.values} <= set(
        Chat.__annotations__
    )


async def test_aadd_within_a_node_leaves_nothing_there_either(memory: Memory, saver: InMemorySaver) -> None:
    async def remember(state: Chat) -> Chat:
        await memory.aadd(state["messages"], **state["scope"])
        return {"result": {}}

    parent = _parent(remember).compile(checkpointer=saver)
    await parent.ainvoke({"messages": [HumanMessage("I like tea.")], "scope": ANN}, thread())
    assert texts(memory) == {"Likes tea"}
    assert _spaces(saver) == {""}


def test_add_within_a_node_is_not_taken_for_a_step_of_the_outer_stream(memory: Memory) -> None:
    def remember(state: Chat) -> Chat:
        memory.add(state["messages"], **state["scope"])
        return {"answer": "done"}

    given: Chat = {"messages": [HumanMessage("I like tea.")], "scope": ANN}
    steps = list(_parent(remember).compile().stream(given, stream_mode="updates"))
    assert [name for step in steps for name in step] == ["answer", "remember"]


# ── traces ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def vectors_in(value: object) -> bool:
    """Whether anything in it is, or looks like, an embedding."""
    if isinstance(value, np.ndarray | bytes):
        return True
    if isinstance(value, dict):
        return any(map(vectors_in, value.values()))
    if isinstance(value, list | tuple):
        return sum(isinstance(part, float) for part in value) > 8 or any(map(vectors_in, value))
    return hasattr(value, "__dict__") and any(map(vectors_in, vars(value).values()))


def _all_of(run: Run) -> Iterator[Run]:
    yield run
    for child in run.child_runs:
        yield from _all_of(child)


class Collector(BaseTracer):
    """Keeps what is traced, as LangSmith's tracer would send it."""

    def __init__(self) -> None:
        super().__init__()
        self.roots: list[Run] = []

    def _persist_run(self, run: Run) -> None:
        self.roots.append(run)

    @property
    def config(self) -> RunnableConfig:
        """How a run is traced with it."""
        return {"callbacks": [self], "run_name": "caller"}

    @property
    def called(self) -> list[Run]:
        """What the one caller did."""
        (root,) = self.roots
        assert root.name == "caller"
        return root.child_runs


def _traced(action: Callable[[], object], tracer: Collector) -> None:
    def caller(_: int) -> None:
        action()

    RunnableLambda(caller).invoke(0, tracer.config)


def _check(runs: list[Run], name: str) -> None:
    (root,) = runs
    assert root.name == name
    assert [child.name for child in root.child_runs] == STAGES
    assert "langmem_adapter" in (root.tags or [])
    assert root.extra is not None
    assert (root.extra["metadata"]["user_id"], root.extra["metadata"]["memory_mode"]) == ("ann", "offline")
    for run in _all_of(root):
        assert run.error is None
        assert not vectors_in(run.inputs) and not vectors_in(run.outputs), run.name


def test_pipeline_a_trace_reads_as_the_picture_and_holds_no_vectors(memory: Memory) -> None:
    memory.add("I live in Paris. I like tea.", **ANN)
    tracer = Collector()
    _traced(lambda: memory.add("I live in Rome. She has a dog.", **ANN), tracer)
    _check(tracer.called, "memory.add")


def test_many_adds_of_one_scope_are_one_trace(memory: Memory) -> None:
    tracer = Collector()
    items = [{"messages": f"I like tea number {n}.", **ANN} for n in range(3)]
    _traced(lambda: memory.add_many(items), tracer)
    _check(tracer.called, "memory.add_many")


def test_a_graph_of_ones_own_is_traced_likewise(memory: Memory) -> None:
    tracer = Collector()
    graph = memory.build_pipeline()
    graph.invoke({"messages": "I like tea.", "scope": ANN}, {"callbacks": [tracer]})
    (root,) = tracer.roots
    assert root.name == "memory_pipeline"
    assert [child.name for child in root.child_runs] == STAGES


def test_pipeline_a_search_and_an_edit_hand_no_vectors_to_a_tracer(memory: Memory) -> None:
    memory.add("I like tea.", **ANN)
    tracer = Collector()

    _traced(lambda: memory.update(memory.search("tea", **ANN)[0].id, "Likes green tea"), tracer)
    assert [run.name for run in tracer.called] == ["memory.search", "embed"]  # the latter is the edit's
    for run in [*tracer.called, *tracer.called[0].child_runs]:
        assert not vectors_in(run.inputs) and not vectors_in(run.outputs), run.name


def test_pipeline_what_one_run_of_a_thread_was_given_is_no_matter_of_the_next(memory: Memory) -> None:
    graph = memory.build_pipeline(checkpointer=InMemorySaver())
    told: dict[str, Any] = {"scope": {"user_id": "a"}, "infer": False, "metadata": {"n": 1}}
    graph.invoke({**told, "messages": "I like tea."}, thread())
    graph.invoke({"scope": {"user_id": "a"}, "messages": "I like go."}, thread())
    assert {item.text: dict(item.metadata) for item in memory.get_all(user_id="a")} == {
        "I like tea.": {"n": 1},
        "Likes go": {},
    }
