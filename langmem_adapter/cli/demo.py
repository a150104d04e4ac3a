"""The command `demo`: a short conversation through the real engine, with every step shown.

Only the messages and the questions are fixed; everything else is the engine's result, also with your own model:
`langmem-adapter demo --model openai:…`.
"""

import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.padding import Padding
from rich.rule import Rule
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
    from langmem_adapter.records.results import Revision

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
        messages = [stage.message(number, message) for number, message in enumerate(_MESSAGES, 1)]
        questions = [stage.question(number, question) for number, question in enumerate(_QUESTIONS)]
        history = stage.history(messages)
        rest: dict[str, Any] = {"questions": questions, "history": history, "relations": stage.graph()}
        stage.farewell(history)
        if call.output.as_json:
            call.output.show(messages, columns=(), picture="", **rest, database=memory.location)


class _Stage:
    """Plays and prints the parts of the demo; each method returns its data for the envelope of `--json`."""

    def __init__(self, call: Invocation, memory: "Memory") -> None:
        self._memory = memory
        self._scope: dict[str, Any] = dict(call.scope or {"user_id": "ada"})
        self._silent = call.output.as_json
        self._console = call.output.out
        self._width = min(self._console.width, _WIDEST)
        self._marks = call.output.marks

    def title(self) -> None:
        """Print the title, the mode and the location of the data."""
        mode = self._memory.mode
        who = "offline: rules decide, no model, no key, no network" if mode == "offline" else mode
        self._say(Text("langmem_adapter: a conversation goes in, memories come out", style="bold"), above=1)
        self._say(Text.assemble(("mode  ", "dim"), who))
        self._say(Text.assemble(("data  ", "dim"), visible(self._memory.location)))
        self._heading("A conversation, and what is kept of it")

    def message(self, number: int, message: str) -> dict[str, Any]:
        """Add one message, and show its changes."""
        result = self._memory.add(message, **self._scope)
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
        """Search for one question, and show the hits."""
        from langmem_adapter.search.relevance import RELEVANT

        hits = self._memory.search(question, k=2, threshold=RELEVANT, explain=True, **self._scope)
        if number == 0:
            self._heading("Two questions to the memory")
        self._say(Text.assemble(("? ", "bold cyan"), (question, "bold")), indent=1, above=int(number > 0))
        rows = [(Text(f"{hit.score:.2f}", style="cyan"), Text(visible(hit.text)), _dim(_why(hit))) for hit in hits]
        self._say(_grid(rows, width=6) if hits else Text("nothing found", style="dim italic"), indent=_INDENT)
        results = [{"text": hit.text, "score": hit.score, "relevance": hit.relevance} for hit in hits]
        return {"question": question, "hits": results}

    def history(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Show the memory with the longest history."""
        ids = dict.fromkeys(change["id"] for step in messages for change in step["changes"] if change["id"] is not None)
        longest: list[Revision] = max((self._memory.history(memory_id) for memory_id in ids), key=len, default=[])
        self._heading("The history of one memory")
        if longest:
            self._say(pictures.timeline(longest, marks=self._marks), indent=1)
        return [as_data(revision) for revision in longest]

    def graph(self) -> list[dict[str, Any]]:
        """Show the relations, and a path to an entity two steps away."""
        graph = self._memory.graph
        relations = graph.relations(history=True, k=_RELATIONS, **self._scope)
        believed = [relation for relation in relations if relation.retired_at is None]
        far = [near.entity.name for near in graph.neighbours(SELF, hops=2, **self._scope) if near.hops > 1]
        self._heading("The knowledge graph")
        # Of the time for which it holds the last line: "since", or "until" of one that has ended.
        rows = [(pictures.edge(each), _dim(pictures.holds(each).splitlines()[-1])) for each in believed]
        self._say(_grid(rows) if rows else Text("nothing", style="dim italic"), indent=1)
        if far:
            steps = Text(" → ").join(map(pictures.edge, graph.path(SELF, far[0], **self._scope)))
            self._say(Text.assemble(("connected: ", "dim"), steps), indent=1, above=1)
        return [as_data(relation) for relation in believed]

    def farewell(self, history: list[dict[str, Any]]) -> None:
        """Show the location of the data, and commands to try next."""
        stats, location = self._memory.stats(), self._memory.location
        self._heading("Try it yourself")
        summary = f"{stats.memories} memories with {stats.revisions} revisions in {visible(location)}"
        self._say(Text(summary), indent=1, below=1)
        for line in _next_steps(location, self._scope, history):
            self._say(Text(line, style="cyan"), whole=True)

    def _heading(self, text: str) -> None:
        self._say(Rule(Text(text, style="bold"), align="left", style="dim"), above=1, below=1)

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
    why = hit.explanation
    near = "" if why is None else f" · meaning {why.meaning:z.2f} · words {why.words:z.2f}"
    return f"relevance {hit.relevance:.2f}{near}"


def _next_steps(location: str, scope: Mapping[str, str], history: list[dict[str, Any]]) -> Iterator[str]:
    user = scope.get("user_id")
    yield f"export LANGMEM_ADAPTER_DATABASE={shlex.quote(location)}"
    if user is not None:
        yield f"export LANGMEM_ADAPTER_USER={shlex.quote(user)}"
    others = {name.removesuffix("_id"): value for name, value in scope.items() if name != "user_id"}
    options = shlex.join(flags(others))
    program = "langmem-adapter" if shutil.which("langmem-adapter") else shlex.quote(str(Path(sys.argv[0]).absolute()))
    for words in ("list", 'add "I work at Siemens" --graph', "search where does she work --explain", "graph"):
        yield f"{program} {words} {options}".rstrip()
    if history:
        yield f"{program} history {history[0]['memory_id'][:8]}"
