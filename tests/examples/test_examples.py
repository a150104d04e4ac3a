from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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


def test_each_program_is_short_and_on_a_page_of_the_guide() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (EXAMPLES / "guide").glob("*.md"))
    tested_here = {"quickstart.py", "personal_travel_assistant.py"}
    for program in EXAMPLES.glob("*.py"):
        shown = f"<!-- program: examples/{program.name} -->" in pages
        assert (shown and f"<!-- output: examples/{program.name} -->" in pages) or program.name in tested_here, program
        assert not shown or len(program.read_text(encoding="utf-8").splitlines()) <= 25, program
