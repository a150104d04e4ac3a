"""The command `demo`: a short conversation, played against the real engine, with everything it did on show.

Only the messages and the questions are written down here. What was extracted, decided, found and kept is asked of the
engine while the demo runs, so it tells the truth about your own model, too: `langmem-adapter demo --model openai:…`.
"""

import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from langmem_adapter.cli import graph_pictures, pictures
from langmem_adapter.cli.options import Invocation
from langmem_adapter.cli.output import visible
from langmem_adapter.records.graph import SELF
from langmem_adapter.records.plain import as_data
from langmem_adapter.records.results import AddResult, Hit, Revision

if TYPE_CHECKING:
    from rich.console import RenderableType

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.graph import Relation

__all__ = ["demo"]

_MESSAGES: Final = (
    "Hi! My name is Ada, I live in Kyoto and I love jazz.",
    "Lovely weather today, isn't it?",
    "I have a dog named Rex. I drink coffee every morning.",
    "My sister Mia works at Bosch.",
    "I live in Lyon now.",
    "I have a dog named Rex!",
    "I stopped drinking coffee, I drink green tea now.",
    "我喜欢吃四川火锅。",
    "I live in the old town of Lyon.",
)
_QUESTIONS: Final = ("Where does she live?", "她喜欢吃什么？")
_RELATIONS: Final = 20
_WIDEST: Final = 108
_INDENT: Final = 4


def demo(call: Invocation) -> None:
    """Play a short conversation and show what is remembered of it, and why.

    Without a key and without a network; the data go to a fresh folder of
    their own (or to -d PATH), which stays for you to look around in.

    [bold]Examples[/bold]
    $ langmem-adapter demo
    $ langmem-adapter demo -d demo.db
    $ langmem-adapter demo --model openai:gpt-5-mini
    """
    if call.options["database"] is None:
        call.options["database"] = str(Path(tempfile.mkdtemp(prefix="langmem-adapter-demo-")) / "memory.db")
    whose: dict[str, Any] = dict(call.scope or {"user_id": "ada"})
    stage = _Stage(call)
    with call.memory(create=True, quiet=True, graph=True) as memory:
        stage.title(memory)
        told = [_play(stage, memory, whose, number) for number in range(len(_MESSAGES))]
        asked = [_ask(stage, memory, whose, question) for question in _QUESTIONS]
        life = _life(stage, memory, told)
        related = _related(stage, memory, whose)
        stage.farewell(memory, whose, life)
        if call.output.as_json:
            rest = {"questions": asked, "history": life, "relations": related, "database": memory.location}
            call.output.show(told, columns=(), picture=Text, **rest)


def _play(stage: "_Stage", memory: "Memory", whose: dict[str, Any], number: int) -> dict[str, Any]:
    message = _MESSAGES[number]
    result = memory.add(message, **whose)
    stage.message(number + 1, message, result)
    return {"message": message, "changes": [as_data(change) for change in result.results], "notes": list(result.notes)}


def _ask(stage: "_Stage", memory: "Memory", whose: dict[str, Any], question: str) -> dict[str, Any]:
    from langmem_adapter.search.relevance import RELEVANT

    hits = memory.search(question, k=2, threshold=RELEVANT, explain=True, **whose)
    stage.question(question, hits)
    return {
        "question": question,
        "hits": [{"text": hit.text, "score": hit.score, "relevance": hit.relevance} for hit in hits],
    }


def _life(stage: "_Stage", memory: "Memory", told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # The memory that lived through most: the story worth telling is not known beforehand.
    ids = dict.fromkeys(change["id"] for step in told for change in step["changes"] if change["id"] is not None)
    lives = [memory.history(memory_id) for memory_id in ids]
    longest = max(lives, key=len, default=[])
    stage.life(longest)
    return [as_data(revision) for revision in longest]


def _related(stage: "_Stage", memory: "Memory", whose: dict[str, Any]) -> list[dict[str, Any]]:
    ever = memory.graph.relations(history=True, k=_RELATIONS, **whose)
    believed = [relation for relation in ever if relation.retired_at is None]
    far = [near.entity.name for near in memory.graph.neighbours(SELF, hops=2, **whose) if near.hops > 1]
    way = memory.graph.path(SELF, far[0], **whose) if far else []
    stage.graph(believed, way)
    return [as_data(relation) for relation in believed]


class _Stage:
    """Where the demo is shown; silent with `--json`."""

    def __init__(self, call: Invocation) -> None:
        self._silent = call.output.as_json
        self._console = call.output.out
        self._width = min(self._console.width, _WIDEST)
        self._marks = self._console.no_color or not self._console.is_terminal

    def title(self, memory: "Memory") -> None:
        """Say what is about to happen, who thinks, and where the data lie."""
        who = "offline: rules decide, no model, no key, no network" if memory.mode == "offline" else memory.mode
        self._say(Text("langmem_adapter: a conversation goes in, memories come out", style="bold"), above=1)
        self._say(Text.assemble(("mode  ", "dim"), who))
        self._say(Text.assemble(("data  ", "dim"), visible(memory.location)))
        self._heading("A conversation, and what is kept of it")

    def message(self, number: int, message: str, result: AddResult) -> None:
        """One message, and what became of it."""
        self._say(Text.assemble((f"{number} ", "dim"), (f"“{message}”", "bold")), indent=1, above=int(number > 1))
        rows = Table.grid(padding=(0, 2), expand=True)
        rows.add_column(width=8)
        rows.add_column(ratio=5, overflow="fold")
        rows.add_column(ratio=6, overflow="fold")
        for change in result.results:
            why = Text(visible(change.reason), style="dim")
            rows.add_row(pictures.event_text(change.event), pictures.changed(change, marks=self._marks), why)
        if result.results:
            self._say(rows, indent=_INDENT)
        for note in result.notes:
            self._say(Text(f"· {visible(note)}", style="dim italic"), indent=_INDENT)

    def question(self, question: str, hits: list[Hit]) -> None:
        """One question to the memory, and its answers."""
        if question == _QUESTIONS[0]:
            self._heading("Two questions to the memory")
        above = int(question != _QUESTIONS[0])
        self._say(Text.assemble(("? ", "bold cyan"), (question, "bold")), indent=1, above=above)
        rows = Table.grid(padding=(0, 2), expand=True)
        rows.add_column(width=6)
        rows.add_column(ratio=5, overflow="fold")
        rows.add_column(ratio=6, overflow="fold")
        for hit in hits:
            rows.add_row(Text(f"{hit.score:.2f}", style="cyan"), Text(visible(hit.text)), _why(hit))
        self._say(rows if hits else Text("nothing found", style="dim italic"), indent=_INDENT)

    def life(self, revisions: list[Revision]) -> None:
        """The life of one memory."""
        self._heading("The life of one memory")
        if revisions:
            self._say(pictures.life(revisions, marks=self._marks), indent=1)

    def graph(self, relations: Sequence["Relation"], way: Sequence["Relation"]) -> None:
        """Who is what to whom, and how the first is connected to somebody two steps away."""
        self._heading("Who is what to whom")
        rows = Table.grid(padding=(0, 2), expand=True)
        rows.add_column(ratio=5, overflow="fold")
        rows.add_column(ratio=6, overflow="fold")
        for relation in relations:
            when = graph_pictures.held(relation).splitlines()[-1]  # "since", or "until" of one that has ended
            rows.add_row(pictures.edge(relation), Text(when, style="dim"))
        self._say(rows if relations else Text("nothing", style="dim italic"), indent=1)
        if way:
            steps = Text(" → ").join(map(pictures.edge, way))
            self._say(Text.assemble(("connected: ", "dim"), steps), indent=1, above=1)

    def farewell(self, memory: "Memory", whose: Mapping[str, str], life: list[dict[str, Any]]) -> None:
        """Where the data lie, and what to try next."""
        stats = memory.stats()
        self._heading("Yours to look around in")
        self._say(
            Text(f"{stats.memories} memories with {stats.revisions} revisions in {visible(memory.location)}"), indent=1
        )
        self._say(Text())
        for line in _next_steps(memory.location, whose, life):
            self._say(Text(line, style="cyan"), whole=True)

    def _heading(self, text: str) -> None:
        line = Text("─" * max(0, self._width - len(text) - 4), style="dim")
        self._say(Text.assemble(("── ", "dim"), (text, "bold"), " ", line, no_wrap=True), above=1, below=1)

    def _say(
        self, what: "RenderableType", *, indent: int = 0, above: int = 0, below: int = 0, whole: bool = False
    ) -> None:
        if self._silent:
            return
        with self._console.capture() as captured:
            if whole:  # a command to be copied is never broken into two lines
                self._console.print(Text("    ") + what if isinstance(what, Text) else what, soft_wrap=True)
            else:
                self._console.print(Padding(what, (above, 0, below, indent)), width=self._width)
        lines = captured.get().split("\n")
        sys.stdout.write("\n".join(line.rstrip() for line in lines))
        sys.stdout.flush()


def _why(hit: Hit) -> Text:
    told = hit.explanation
    parts = (
        "" if told is None else f"relevance {hit.relevance:.2f} · meaning {told.meaning:.2f} · words {told.words:.2f}"
    )
    return Text(parts, style="dim")


def _next_steps(location: str, whose: Mapping[str, str], life: list[dict[str, Any]]) -> Iterator[str]:
    user = whose.get("user_id")
    yield f"export LANGMEM_ADAPTER_DATABASE={shlex.quote(location)}"
    if user is not None:
        yield f"export LANGMEM_ADAPTER_USER={shlex.quote(user)}"
    others = {name.removesuffix("_id"): value for name, value in whose.items() if name != "user_id"}
    flags = "".join(f" --{name} {shlex.quote(value)}" for name, value in others.items())
    yield f"langmem-adapter list{flags}"
    yield f'langmem-adapter add "I work at a bakery" --graph{flags}'
    yield f"langmem-adapter search where does she work --explain{flags}"
    yield f"langmem-adapter graph{flags}"
    if life:
        yield f"langmem-adapter history {life[0]['memory_id'][:8]}"
