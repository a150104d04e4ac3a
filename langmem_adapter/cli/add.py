"""The command `add`: messages in, changes out, chunk by chunk, with a result or an error for every item."""

import json
import shlex
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from langmem_adapter.arguments import parse_time
from langmem_adapter.cli import pictures
from langmem_adapter.cli.inputs import STDIN, Item, items_of, joined, read_source
from langmem_adapter.cli.options import GraphOption, Invocation, Timezone, flags, option
from langmem_adapter.cli.output import CommandError, Steps, failure_of, stop_signal
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.records.checks import parse_timezone, redact_urls
from langmem_adapter.records.results import AddResult, Change, Event
from langmem_adapter.records.scope import Scope, as_data

if TYPE_CHECKING:
    from langmem_adapter.memory.memory import Memory

_WINDOW: Final = 20  # messages that are read as one conversation
_CHUNK: Final = {True: 5, False: 200}  # conversations, or messages kept word for word, in one transaction
_MOST_CHANGES: Final = 40  # that a terminal shows one by one
_FILES: Final = frozenset({".json", ".jsonl", ".txt"})
_NOTES: Final = 8
_WORDS: Final[dict[Event, str]] = {"ADD": "added", "UPDATE": "updated", "DELETE": "deleted", "NONE": "unchanged"}
_PAST: Final = (
    "--expires-at is past: what was added is hidden already, list --expired shows it until the sweep deletes it"
)


@dataclass(slots=True)
class _Outcome:
    """The results of the items so far."""

    changes: list[tuple[str, Change]] = field(default_factory=list)  # where each came from, and the change
    failed: list[tuple[str, CommandError]] = field(default_factory=list)  # the places of refused items, and why
    notes: Counter[str] = field(default_factory=Counter)  # what was not used, and how often
    accepted: int = 0  # messages that were read; their facts are stored
    under_way: list[Item] = field(default_factory=list)  # being written when the command was interrupted
    left: list[Item] = field(default_factory=list)  # not begun
    broken: CommandError | None = None  # why it stopped early; an interrupt has none

    @property
    def stopped(self) -> bool:
        """Whether items are left."""
        return bool(self.left or self.under_way)

    def take(self, results: Iterable[tuple[Item, AddResult | LangmemAdapterError]]) -> None:
        """Record the results of items."""
        for item, result in results:
            if isinstance(result, LangmemAdapterError):
                self.failed.append((item.where, failure_of(result)))
                continue
            self.accepted += item.size
            self.changes += ((item.where, change) for change in result.results)
            self.notes.update(result.notes)


def add(
    call: Invocation,
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="What was said; else --file, else stdin.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        option("--file", "-f", metavar="PATH", help="Text, JSON or JSON lines, in UTF-8; - is stdin."),
    ] = None,
    infer: Annotated[
        bool, typer.Option("--infer/--no-infer", help="Find facts, or keep every message word for word.")
    ] = True,
    metadata: Annotated[str | None, option(metavar="JSON", help="Object to keep with every memory.")] = None,
    timestamp: Annotated[str | None, option(metavar="TIME", help="When it was said, ISO 8601.")] = None,
    *,
    timezone: Timezone = None,
    expires_at: Annotated[str | None, option(metavar="TIME", help="When to forget it, ISO 8601.")] = None,
    graph: GraphOption = None,
) -> None:
    """Remember what was said: find the facts, compare them with what is known, keep them up to date.

    The input is plain text; or JSON: a message, a list of messages, or an
    object with "messages"; or JSON lines, one message or one list a line.
    A message has "role" and "content", and may have "name" and "timestamp".
    One that names another user_id, agent_id or run_id is refused.
    Items that fail are named, with exit code 6; the others are stored.

    [bold]Examples[/bold]
    $ langmem-adapter add "I live in Lyon and I have a dog" -u alice
    $ langmem-adapter add --file chat.jsonl -u alice
    $ langmem-adapter add "My sister Jesica lives in Oslo" -u alice --graph
    $ cat notes.txt | langmem-adapter add -u alice --no-infer
    """
    from langmem_adapter.pipeline.parse import turns_of

    if text is not None and len(text) == 1:
        _refuse_file(text[0])
    source, lines = read_source(" ".join(text) if text else None, file)
    items = items_of(source, lines=lines)
    when = {"timestamp": timestamp, "timezone": timezone, "expires_at": expires_at}
    fields = {"metadata": json_object(metadata), **when}
    with call.scoped_memory(create=True, graph=graph) as (memory, scope):
        check = partial(turns_of, scope=Scope(**scope), longest=memory.parts.longest, verbatim=not infer)
        items = [_checked(item, check) for item in items]
        common = {**scope, **{k: v for k, v in fields.items() if v is not None}, "infer": infer}
        outcome = _store(call, memory, items, common)
        if outcome.stopped and outcome.broken is None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is stored is said, however often Ctrl-C is pressed
        if len(items) == 1 and outcome.failed:
            raise outcome.failed[0][1]
        zone = parse_timezone(timezone, call.settings.timezone)
        past = expires_at is not None and parse_time(expires_at, "expires_at", zone) <= datetime.now(UTC)
        if past and any(change.event in {"ADD", "UPDATE"} for _, change in outcome.changes):
            outcome.notes[_PAST] += 1
        options = {**call.options, **when, "metadata": metadata, "no_infer": not infer}
        options |= {"graph": graph, "no_graph": graph is False}
        again = shlex.join(["langmem-adapter", "add", *map(redact_urls, flags(options))])
        rest = _rest(outcome, file, again)
        _report(call, outcome, total=sum(item.size for item in items), rest=rest)


def _refuse_file(word: str) -> None:
    """Refuse the name of a file as speech."""
    path = Path(word)
    with suppress(OSError, ValueError):  # too long for a name, or no name
        if path.is_file() or (path.suffix in _FILES and not any(letter.isspace() for letter in word)):
            name = shlex.quote(word)
            hint = f"langmem-adapter add --file {name}\nfor a chat export: langmem-adapter migrate chat {name}"
            raise CommandError(f"{word} is the name of a file, not what was said", hint, code="file")


def json_object(text: str | None, name: str = "--metadata") -> dict[str, Any] | None:
    """The JSON object of an option."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f'{name} is no JSON: {error}; write it like \'{{"source": "chat"}}\'') from None
    if not isinstance(value, dict):
        raise InvalidInputError(f'{name} must be a JSON object, like \'{{"source": "chat"}}\'')
    return value


def _checked(item: Item, check: Callable[..., object]) -> Item:
    # One by one, so that a bad message is refused alone and does not take its neighbours with it.
    try:
        if item.error is None:
            check(item.messages, time=datetime.now(UTC), may_be_empty=not item.whole)
    except InvalidInputError as error:
        return replace(item, messages=None, error=error)
    return item


def _store(call: Invocation, memory: "Memory", items: list[Item], common: dict[str, Any]) -> _Outcome:
    """Add chunk by chunk, until Ctrl-C: it lets the chunk under way end, and pressed again it interrupts that, too."""
    size = _CHUNK[common["infer"]]
    outcome = _Outcome(left=list(joined(items, _WINDOW if common["infer"] else 1)))
    note = partial(call.output.note, "finishing what is under way; press Ctrl-C again to break it off", "yellow")
    with (
        suppress(KeyboardInterrupt),
        stop_signal(signal.SIGINT, note=note) as stop,
        Steps(call.output, len(items), what="messages") as steps,
    ):
        while outcome.left and not stop.is_set() and outcome.broken is None:
            outcome.under_way, outcome.left = outcome.left[:size], outcome.left[size:]
            try:
                outcome.take(_results(memory, outcome.under_way, common))
            except LangmemAdapterError as error:
                outcome.broken = failure_of(error)
                outcome.left = outcome.under_way + outcome.left
            steps.advance(sum(item.size for item in outcome.under_way))
            outcome.under_way = []
    return outcome


def _results(
    memory: "Memory", chunk: list[Item], common: dict[str, Any]
) -> Iterator[tuple[Item, AddResult | LangmemAdapterError]]:
    readable = [{**common, "messages": item.messages} for item in chunk if item.error is None]
    results = memory.add_many(readable) if readable else []
    for result in results:
        # The run of a scope is one transaction: an error that is no item's own stopped all of them.
        if isinstance(result, Exception) and not isinstance(result, InvalidInputError):
            raise result
    following = iter(results)
    for item in chunk:
        yield item, item.error if item.error is not None else next(following)  # type: ignore[misc]  # looked at above


def _report(call: Invocation, outcome: _Outcome, *, total: int, rest: str) -> None:
    if outcome.broken is not None and not outcome.accepted:
        raise outcome.broken
    error = _error(outcome, total, rest)
    extra: dict[str, Any] = {} if error is None else {"error": error.to_json()}
    changes = [change for _, change in outcome.changes]
    many = f"{len(changes)} changes; langmem-adapter list shows what is remembered now"
    call.output.show(
        [{"where": where, **as_data(change)} for where, change in outcome.changes],
        columns=("event", "id", "text", "reason"),
        picture=many
        if len(changes) > _MOST_CHANGES
        else lambda _: pictures.changes_table(changes, marks=call.output.marks),
        failed=[
            {"where": where, "code": failure.code, "message": failure.message} for where, failure in outcome.failed
        ],
        notes=list(outcome.notes),
        **extra,
    )
    _print_notes(call, outcome, total)
    if error is None:
        return
    if outcome.stopped:
        call.output.aside(error.message, "yellow")
        call.output.aside(error.hint, "yellow", whole=True)
    raise typer.Exit(error.exit_code)


def _error(outcome: _Outcome, total: int, rest: str) -> CommandError | None:
    kept = f"{outcome.accepted} of {total} messages are kept"
    if outcome.stopped:
        why = "interrupted" if outcome.broken is None else outcome.broken
        extent, hint = _extent_and_hint(outcome, rest)
        message = f"{why}: {kept}{extent}"
    elif outcome.failed:
        message, hint = f"{kept}, {len(outcome.failed)} failed", "correct those and add them"
    else:
        return None
    is_interrupted = outcome.stopped and outcome.broken is None
    return CommandError(message, hint, code="interrupted" if is_interrupted else "partial")


def _extent_and_hint(outcome: _Outcome, rest: str) -> tuple[str, str]:
    """How far a stopped add came, and how to go on."""
    if not outcome.under_way:
        first = outcome.left[0]
        extent = f", all before {first.begin}; nothing from there on" if first.first > 1 else ""
        return extent, f"go on from {first.begin}{rest}"
    first = outcome.under_way[0]
    span = replace(first, last=outcome.under_way[-1].last).where
    after = f"go on from {outcome.left[0].begin}, " if outcome.left else "all is done, "
    hint = f"langmem-adapter list shows it; if it is kept, {after}else go on from {first.begin}{rest}"
    return f"; what was being written, {span}, is kept whole or not at all", hint


def _rest(outcome: _Outcome, file: Path | None, again: str) -> str:
    """The command that adds the rest of a file; empty where nothing is left, or it has no lines."""
    first = next(iter(outcome.under_way or outcome.left), None)
    if first is None or first.unit != "line" or file is None or str(file) == STDIN:
        return ""
    return f": tail -n +{first.first} {shlex.quote(str(file))} | {again}"


def _print_notes(call: Invocation, outcome: _Outcome, total: int) -> None:
    aside = call.output.aside
    for where, failure in outcome.failed:
        aside(f"{where}: {failure.message}", "red")
    for note, times in outcome.notes.most_common(_NOTES):
        aside(note if times == 1 else f"{note} ({times} times)")
    if len(outcome.notes) > _NOTES:
        aside(f"and {len(outcome.notes) - _NOTES} other notes; --json gives all")
    counts = Counter(change.event for _, change in outcome.changes)
    summary = ", ".join(f"{counts[event]} {word}" for event, word in _WORDS.items())
    aside(f"{summary} · {outcome.accepted} of {total} messages taken in")
    related = Counter(each.event for _, change in outcome.changes for each in change.relations)
    if related.total() > related["NONE"]:
        aside(f"relations: {related['ADD']} added, {related['END'] + related['DELETE']} ended")
