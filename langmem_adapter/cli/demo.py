"""The command `demo`: a short conversation, played against the real engine, with everything it did on show.

Only the messages and the questions are written down here. What was extracted, decided, found and kept is asked of the
engine while the demo runs, so it tells the truth about your own model, too: `langmem-adapter demo --model openai:…`.
"""

import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from langmem_adapter.cli import pictures
from langmem_adapter.cli.options import Invocation, flags
from langmem_adapter.cli.output import visible
from langmem_adapter.records.graph import SELF
from langmem_adapter.records.results import Hit
from langmem_adapter.records.scope import as_data

if TYPE_CHECKING:
    from rich.console import RenderableType

    from langmem_adapter.memory.memory import Memory

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
    with call.memory(create=True, quiet=True, graph=True) as memory:
        stage = _Stage(call, memory)
        stage.title()
        told = [stage.message(number, message) for number, message in enumerate(_MESSAGES, 1)]
        asked = [stage.question(number, question) for number, question in enumerate(_QUESTIONS)]
        life = stage.life(told)
        rest: dict[str, Any] = {"questions": asked, "history": life, "relations": stage.graph()}
        stage.farewell(life)
        if call.output.as_json:
            call.output.show(told, columns=(), picture="", **rest, database=memory.location)


class _Stage:
    """Where the demo is played and shown; each scene gives what the envelope has of it, which with `--json` is all."""

    def __init__(self, call: Invocation, memory: "Memory") -> None:
        self._memory = memory
        self._whose: dict[str, Any] = dict(call.scope or {"user_id": "ada"})
        self._silent = call.output.as_json
        self._console = call.output.out
        self._width = min(self._console.width, _WIDEST)
        self._marks = call.output.marks

    def title(self) -> None:
        """Say what is about to happen, who thinks, and where the data lie."""
        mode = self._memory.mode
        who = "offline: rules decide, no model, no key, no network" if mode == "offline" else mode
        self._say(Text("langmem_adapter: a conversation goes in, memories come out", style="bold"), above=1)
        self._say(Text.assemble(("mode  ", "dim"), who))
        self._say(Text.assemble(("data  ", "dim"), visible(self._memory.location)))
        self._heading("A conversation, and what is kept of it")

    def message(self, number: int, message: str) -> dict[str, Any]:
        """Add one message, and show what became of it."""
        result = self._memory.add(message, **self._whose)
        self._say(Text.assemble((f"{number} ", "dim"), (f"“{message}”", "bold")), indent=1, above=int(number > 1))
        rows = [
            (pictures.event_text(change.event), pictures.changed(change, marks=self._marks), _dim(change.reason))
            for change in result.results
        ]
        if rows:
            self._say(_grid(rows, width=8), indent=_INDENT)
        for note in result.notes:
            self._say(Text(f"· {visible(note)}", style="dim italic"), indent=_INDENT)
        changes = [as_data(change) for change in result.results]
        return {"message": message, "changes": changes, "notes": list(result.notes)}

    def question(self, number: int, question: str) -> dict[str, Any]:
        """Ask the memory one question, and show what it finds."""
        from langmem_adapter.search.relevance import RELEVANT

        hits = self._memory.search(question, k=2, threshold=RELEVANT, explain=True, **self._whose)
        if number == 0:
            self._heading("Two questions to the memory")
        self._say(Text.assemble(("? ", "bold cyan"), (question, "bold")), indent=1, above=int(number > 0))
        rows = [(Text(f"{hit.score:.2f}", style="cyan"), Text(visible(hit.text)), _dim(_why(hit))) for hit in hits]
        self._say(_grid(rows, width=6) if hits else Text("nothing found", style="dim italic"), indent=_INDENT)
        found = [{"text": hit.text, "score": hit.score, "relevance": hit.relevance} for hit in hits]
        return {"question": question, "hits": found}

    def life(self, told: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Show the memory that lived through most: the story worth telling is not known beforehand."""
        ids = dict.fromkeys(change["id"] for step in told for change in step["changes"] if change["id"] is not None)
        longest = max((self._memory.history(memory_id) for memory_id in ids), key=len, default=[])
        self._heading("The life of one memory")
        if longest:
            self._say(pictures.life(longest, marks=self._marks), indent=1)
        return [as_data(revision) for revision in longest]

    def graph(self) -> list[dict[str, Any]]:
        """Show who is what to whom, and how the first is connected to somebody two steps away."""
        graph = self._memory.graph
        ever = graph.relations(history=True, k=_RELATIONS, **self._whose)
        believed = [relation for relation in ever if relation.retired_at is None]
        far = [near.entity.name for near in graph.neighbours(SELF, hops=2, **self._whose) if near.hops > 1]
        self._heading("Who is what to whom")
        # Of the time for which it holds the last line: "since", or "until" of one that has ended.
        rows = [(pictures.edge(each), _dim(pictures.held(each).splitlines()[-1])) for each in believed]
        self._say(_grid(rows) if rows else Text("nothing", style="dim italic"), indent=1)
        if far:
            steps = Text(" → ").join(map(pictures.edge, graph.path(SELF, far[0], **self._whose)))
            self._say(Text.assemble(("connected: ", "dim"), steps), indent=1, above=1)
        return [as_data(relation) for relation in believed]

    def farewell(self, life: list[dict[str, Any]]) -> None:
        """Say where the data lie, and what to try next."""
        stats, location = self._memory.stats(), self._memory.location
        self._heading("Yours to look around in")
        told = f"{stats.memories} memories with {stats.revisions} revisions in {visible(location)}"
        self._say(Text(told), indent=1, below=1)
        for line in _next_steps(location, self._whose, life):
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
                self._console.print("   ", what, soft_wrap=True)
            else:
                self._console.print(Padding(what, (above, 0, below, indent)), width=self._width)
        lines = captured.get().split("\n")
        sys.stdout.write("\n".join(line.rstrip() for line in lines))
        sys.stdout.flush()


def _grid(rows: Iterable[Sequence[Text]], width: int | None = None) -> Table:
    """Rows of two texts, behind a column of some *width* where there are three."""
    grid = Table.grid(padding=(0, 2), expand=True)
    if width is not None:
        grid.add_column(width=width)
    for ratio in (5, 6):
        grid.add_column(ratio=ratio, overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def _dim(text: str) -> Text:
    return Text(visible(text), style="dim")


def _why(hit: Hit) -> str:
    told = hit.explanation
    near = "" if told is None else f" · meaning {told.meaning:z.2f} · words {told.words:z.2f}"
    return f"relevance {hit.relevance:.2f}{near}"


def _next_steps(location: str, whose: Mapping[str, str], life: list[dict[str, Any]]) -> Iterator[str]:
    user = whose.get("user_id")
    yield f"export LANGMEM_ADAPTER_DATABASE={shlex.quote(location)}"
    if user is not None:
        yield f"export LANGMEM_ADAPTER_USER={shlex.quote(user)}"
    others = {name.removesuffix("_id"): value for name, value in whose.items() if name != "user_id"}
    given = shlex.join(flags(others))
    for words in ("list", 'add "I work at a bakery" --graph', "search where does she work --explain", "graph"):
        yield f"langmem-adapter {words} {given}".rstrip()
    if life:
        yield f"langmem-adapter history {life[0]['memory_id'][:8]}"
