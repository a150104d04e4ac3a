"""Commands for the settings: `config` shows them, `init` asks for three of them and writes the user's configuration file."""

import json
import os
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.text import Text

from langmem_adapter.cli.doctor import doctor
from langmem_adapter.cli.inputs import of_file
from langmem_adapter.cli.options import Invocation
from langmem_adapter.cli.output import CommandError, visible
from langmem_adapter.cli.pictures import plain_table
from langmem_adapter.records.checks import redact_url

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUESTIONS: Final = {
    "database": "Where are memories kept? A path (SQLite) or a Postgres URL",
    "model": "Which chat model finds facts? A name as openai:gpt-5-mini, or offline",
    "embeddings": "Which embeddings? A name as openai:text-embedding-3-small; static or hash:512 work offline",
}


def config(call: Invocation) -> None:
    """Show every setting with its value and where it comes from.

    A setting comes from an argument, the environment, a file, or is the default.
    Keys and passwords are shown as set or unset.

    [bold]Examples[/bold]
    $ langmem-adapter config
    $ LANGMEM_ADAPTER_MODEL=openai:gpt-5-mini langmem-adapter config --json
    """
    from langmem_adapter.settings import user_file

    rows = list(_values(call))
    columns = ("name", "value", "source")
    call.output.show(rows, columns=columns, picture=lambda _: plain_table(columns, map(_cells, rows)))
    call.output.aside(f"your file: {user_file()}", whole=True)


def _values(call: Invocation) -> "Iterator[dict[str, Any]]":
    settings = call.settings
    for name, source in settings.origins.items():
        value = call.options.get(name) or getattr(settings, name)
        if name == "database":
            value = str(call.chosen)
        elif name == "api_key":
            value = "unset" if value is None else "set"
        elif name == "ranking":
            value = value.model_dump() if hasattr(value, "model_dump") else str(value)
        value = redact_url(value) if isinstance(value, str) else value
        yield {"name": name, "value": value, "source": "argument" if call.options.get(name) else source}
    user = os.environ.get("LANGMEM_ADAPTER_USER")
    yield {"name": "user", "value": user, "source": "environment" if user else "default"}


def _cells(row: "dict[str, Any]") -> tuple[Text, ...]:
    value = "" if row["value"] is None else visible(str(row["value"]))
    return Text(row["name"]), Text(value), Text(row["source"], style="dim")


def init(call: Invocation) -> None:
    """Ask where memories are kept and which models are used, and write your configuration file.

    An option answers a question before it is asked. Without a terminal the
    defaults are used. Afterwards doctor checks what was written.

    [bold]Examples[/bold]
    $ langmem-adapter init
    $ langmem-adapter init -d memory.db --model offline --embeddings hash:512
    """
    from langmem_adapter.settings import user_file

    file, settings = user_file(), call.settings
    if file.exists():
        raise CommandError(
            f"there is a configuration already: {file}", "change it there, or remove it first", code="exists"
        )
    is_asked = call.output.on_terminal and call.output.err.is_terminal and not call.output.as_json
    for name, question in _QUESTIONS.items():
        default = str(call.chosen) if name == "database" else getattr(settings, name)
        if call.options[name] is None:
            call.options[name] = typer.prompt(question, default=default, err=True) if is_asked else default
    call.options["database"] = str(call.path or call.chosen)  # a path that means the same in every folder
    values = {
        name: json.dumps(call.options[name], ensure_ascii=False).replace("\x7f", "\\u007f") for name in _QUESTIONS
    }
    lines = [f"{name} = {value}\n" for name, value in values.items()]  # as TOML
    with of_file(file, "write"):
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:  # noqa: PTH123 - open already
            stream.writelines(lines)
    call.output.aside(f"written: {file}", whole=True)
    doctor(call)
