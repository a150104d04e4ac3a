"""The commands `keys create`, `keys list` and `keys revoke`: who may call the server."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from langmem_adapter.cli.failures import CommandError, ExitCode
from langmem_adapter.cli.options import Invocation, named, option
from langmem_adapter.cli.output import visible
from langmem_adapter.records.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.storage.keys import Key

__all__ = ["create", "list_", "revoke"]

_COLUMNS: Final = ("id", "name", *SCOPE_FIELDS, "rights", "created_at", "revoked_at")


def create(
    call: Invocation,
    name: Annotated[str, option("--name", "-n", metavar="TEXT", help="What it is for.")] = "key",
    rights: Annotated[str, typer.Option(metavar="LIST", help="Of read, write and admin.")] = "read,write",
    everything: Annotated[bool, typer.Option("--everything", help="It reaches everybody's memories.")] = False,
) -> None:
    """Make a key for the server; it is shown this once.

    It reaches the memories of -u, --agent, --run alone, or with --everything
    everybody's. The right admin is for lists of everybody and for reset.
    In a pipe it prints the key.

    [bold]Examples[/bold]
    $ langmem-adapter keys create -u alice --name phone
    $ langmem-adapter keys create -u alice --rights read
    $ langmem-adapter keys create --everything --rights read,write,admin
    """
    from langmem_adapter.storage import keys

    if everything == bool(call.scope):
        hint = "give -u NAME (or --agent, --run), or --everything"
        raise CommandError("whose memories does the key reach?", hint, code="scope")
    with call.database(create=True) as database:
        chosen = {right.strip() for right in rights.split(",")}
        key, shown = database.write(lambda connection: keys.create(connection, name, call.within, chosen))
        with database.read() as connection:
            is_first = sum(each.revoked_at is None for each in keys.listed(connection)) == 1
    call.output.show([{**_row(key), "key": shown}], columns=("key",), picture=shown)
    call.output.note(f"key {key.id} for {_reach(key)}; nobody can show it again", "yellow")
    if is_first:
        call.output.note("a server that runs already goes on without keys: start it again", "yellow")


def list_(call: Invocation) -> None:
    """List the keys of the server; their secrets are not kept.

    [bold]Examples[/bold]
    $ langmem-adapter keys list
    $ langmem-adapter keys list | cut -f 1            the ids, in a pipe
    """
    from langmem_adapter.storage import keys

    with call.reading() as connection:
        found = keys.listed(connection)
    picture = _picture if found else "there are no keys: langmem-adapter keys create -u NAME"
    call.output.show(found, columns=_COLUMNS, picture=picture, row=_row)


def revoke(
    call: Invocation,
    id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as keys list shows it.")],  # noqa: A002 - the name in the usage line
) -> None:
    """Make a key worth nothing, at once and for good.

    [bold]Examples[/bold]
    $ langmem-adapter keys revoke 3f2a90b17c44
    """
    from langmem_adapter.storage import keys

    with call.database() as database:
        revoked = database.write(lambda connection: keys.revoke(connection, id))
    if not revoked:
        hint = "langmem-adapter keys list shows the ids"
        raise CommandError(f"there is no valid key {id}", hint, code="not_found", exit_code=ExitCode.NOTHING_FOUND)
    call.output.show([{"id": id}], columns=("id",), picture=f"revoked {id}")


def _row(key: "Key") -> dict[str, Any]:
    scope = {name: None if key.scope is None else getattr(key.scope, name) for name in SCOPE_FIELDS}
    times = {"created_at": key.created_at.isoformat(), "revoked_at": key.revoked_at and key.revoked_at.isoformat()}
    return {"id": key.id, "name": key.name, **scope, "rights": sorted(key.rights), **times}


def _reach(key: "Key") -> str:
    return "everything" if key.scope is None else named(key.scope.named)


def _picture(keys: "Sequence[Key]") -> Table:
    table = Table("id", "name", "reaches", "rights", "made", "revoked", box=None)
    for key in keys:
        told = (key.name, _reach(key), ", ".join(sorted(key.rights)))
        revoked = f"{key.revoked_at:%Y-%m-%d}" if key.revoked_at else ""
        table.add_row(key.id, *(Text(visible(part)) for part in told), f"{key.created_at:%Y-%m-%d}", revoked)
    return table
