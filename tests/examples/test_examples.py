from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from langmem_adapter.records.escapes import DATA_ONLY
from tests.cases import undated
from tests.programs import python

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """Runs an example offline, with a database of its own, in a folder in which it leaves nothing."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.setenv("LANGMEM_ADAPTER_DATABASE", str(tmp_path / "memory.db"))
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.chdir(here)
    yield lambda name, said="": python(EXAMPLES / name, said=said).stdout
    assert list(here.iterdir()) == []


def test_the_quickstart_remembers_and_changes_its_mind(run: Run, tmp_path: Path) -> None:
    said = run("quickstart.py")
    assert "mode: offline" in said
    assert str(tmp_path / "memory.db") in said
    assert "UPDATE  Lives in Lyon" in said
    assert "Where does she live? Lives in Lyon" in said
    assert "v2 UPDATE: Lives in Kyoto -> Lives in Lyon" in said


def test_the_quickstart_is_short() -> None:
    assert len((EXAMPLES / "quickstart.py").read_text(encoding="utf-8").splitlines()) <= 25


def test_the_travel_assistant_remembers_from_one_talk_to_the_next(run: Run) -> None:
    first = run("personal_travel_assistant.py", "I am vegetarian and I love hiking in the Alps.\nq\n")
    assert "(no model) I remember nothing about that." in first
    assert "- Is vegetarian" in first
    assert first.endswith("Exiting...\n")
    second = run("personal_travel_assistant.py", "Where shall I go hiking?\n")
    assert "(no model) What I remember about that: Loves hiking in the Alps" in second


@pytest.mark.parametrize("ending", ["q\n", "EXIT\n", "", "\n\nq\n"])
def test_the_travel_assistant_ends_when_asked(run: Run, ending: str) -> None:
    assert run("personal_travel_assistant.py", ending).endswith("Exiting...\n")


def test_the_travel_assistant_talks_with_any_chat_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from langchain_core.language_models import FakeListChatModel

    from langmem_adapter import Memory

    monkeypatch.syspath_prepend(str(EXAMPLES))
    from personal_travel_assistant import PersonalTravelAssistant  # type: ignore[import-not-found]

    with Memory(":memory:") as memory:
        assistant = PersonalTravelAssistant(memory, FakeListChatModel(responses=["Noted.", "Try the Alps."]))
        assert assistant.ask_question("I love hiking.", user_id="ann") == "Noted."
        assert assistant.ask_question("Where shall I go hiking?", user_id="ann") == "Try the Alps."
        assert assistant.get_memories(user_id="ann") == ["Loves hiking"]
        assert assistant.get_memories(user_id="bob") == []
        assert len(assistant.messages["ann"]) == 4


def test_the_store_of_a_graph_remembers_from_one_run_to_the_next(run: Run) -> None:
    assert run("langgraph_store.py").splitlines() == ["That is new to me.", "My violin lesson is on Monday."]
    assert run("langgraph_store.py").splitlines()[1] == "Which day is the violin lesson?"


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("conversation_chain.py", ["- Is vegetarian", "Human: I am vegetarian.", "Human: What shall I cook?"]),
        ("chat_history.py", ["Hello Ann!", "You said: I am Ann."]),
        (
            "brain_memory.py",
            ["Summary of the conversation so far:", "That makes 5050 miles in all.", "title: Today I walked 6 miles"],
        ),
        ("lcel_recall.py", ["- Is vegetarian", "- Lives in Lyon"]),
        (
            "graph.py",
            [
                "ended: ada lives in Kyoto",
                "in 2025: ada lives in Kyoto",
                "Tom: ada has sister Mia -> Mia married to Tom",
            ],
        ),
        (
            "experience.py",
            [
                *["Python: add up 1 to 3 -> sum(range(1, 4))", "Python: add up 1 to 4 -> sum(range(1, 5))"] * 2,
                "asked 2 times, the last time with:",
                "1. Given the request: Python: add up 1 to 3, We can get the response: sum(range(1, 4)), which scored: 10.",
            ],
        ),
        ("agent_tools.py", ["I will remember Rex.", "I found: The user's dog is called Rex."]),
    ],
)
def test_memory_in_chains_and_in_the_hands_of_a_model(run: Run, name: str, lines: list[str]) -> None:
    said = undated(run(name)).splitlines()
    assert [line for line in said if line in lines] == lines
    assert not any("steak" in line for line in said)
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= 25


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("agent_middleware.py", ["- Is vegetarian", "- Lives in Lyon"]),
        (
            "graph_nodes.py",
            [
                "I love jazz. -> I remember: nothing",
                f"What music do I like? -> I remember: {DATA_ONLY}",
                "- Loves jazz",
            ],
        ),
        (
            "role_graph.py",
            [
                "Write a snake game -> done: Write a snake game",
                "write a snake game! -> nothing new",
                "Write a 2048 web game -> done: Write a 2048 web game",
            ],
        ),
        (
            "long_thread.py",
            ["Here is a summary of the conversation to date:", "user: Today I walked 97 miles along the Loire."],
        ),
        ("pipeline_subgraph.py", ["  apply -> result", "memory -> result"]),
        ("tracing.py", ["program", "  memory.add", "    apply", "  memory.search", "    embed", "Lives in Lyon"]),
    ],
)
def test_memory_in_agents_and_graphs(run: Run, name: str, lines: list[str]) -> None:
    said = undated(run(name)).splitlines()
    assert [line for line in dict.fromkeys(said) if line in lines] == lines
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= 25


def test_a_thread_goes_on_where_it_stopped(run: Run) -> None:
    assert run("checkpointer.py").splitlines() == ["Book the hotel?", "A hotel in Lyon! Booked: yes.", "3 checkpoints"]
    assert len((EXAMPLES / "checkpointer.py").read_text(encoding="utf-8").splitlines()) <= 25


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("working_memory.py", ["new: 2", "Product manager: Goals: fun, short.", "news: ['Make it red.']"]),
        (
            "long_term_memory.py",
            [
                "Monday: the first time",
                "Tuesday: 2 messages known",
                "  no news, similar to one of before: Write a snake game!",
                "  news: ['Write a 2048 game']",
            ],
        ),
    ],
)
def test_the_memories_of_metagpt(run: Run, name: str, lines: list[str]) -> None:
    said = run(name).splitlines()
    assert [line for line in lines if line not in said] == []
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= 25


def test_static_embeddings_find_what_is_said_in_other_words(run: Run) -> None:
    hashed, static = (line.split(maxsplit=2) for line in run("static_embeddings.py").splitlines())
    assert static[2] == "Our puppy chewed the sofa again."
    assert float(static[1]) > float(hashed[1])
