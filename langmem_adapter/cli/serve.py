"""The commands `serve`, `mcp` and `keys`."""

import json
import os
import shlex
import shutil
import socket
import sys
from contextlib import ExitStack
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from langmem_adapter.cli.options import GraphOption, Invocation, flags, named, option
from langmem_adapter.cli.output import CommandError, one_line
from langmem_adapter.errors import MissingDependencyError
from langmem_adapter.records.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.storage.keys import Key

_COLUMNS: Final = ("id", "name", *SCOPE_FIELDS, "rights", "created_at", "revoked_at")


def create(
    call: Invocation,
    name: Annotated[str, option("--name", "-n", metavar="TEXT", help="What it is for.")] = "key",
    rights: Annotated[str, typer.Option(metavar="LIST", help="Of read, write, admin (purge).")] = "read,write",
    everything: Annotated[bool, typer.Option("--everything", help="It reaches everybody's memories.")] = False,
) -> None:
    """Make a key for the server; it is shown this once.

    It reaches only the memories of -u, --agent, --run, or with --everything
    all memories. The right admin is for purge and reset, also within the key's
    scope, and for lists of all scopes. It includes read and write.
    In a pipe it prints the key.

    [bold]Examples[/bold]
    $ langmem-adapter keys create -u alice --name phone
    $ langmem-adapter keys create -u alice --rights read
    $ langmem-adapter keys create -u alice --rights admin          it can purge
    $ langmem-adapter keys create --everything --rights read,write,admin
    """
    from langmem_adapter.storage import keys

    if everything == bool(call.scope):
        hint = "give -u NAME (or --agent, --run), or --everything"
        raise CommandError("the scope of the key is missing", hint, code="scope")
    with call.database(create=True) as database:
        chosen = {right.strip() for right in rights.split(",")}
        key, secret = database.write(lambda connection: keys.create(connection, name, call.within, chosen))
        with database.read() as connection:
            is_first = sum(each.revoked_at is None for each in keys.listed(connection)) == 1
    call.output.show([{**_row(key), "key": secret}], columns=("key",), picture=secret)
    call.output.note(f"key {key.id} for {_reach(key)}; it is shown only once", "yellow")
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
        rows = keys.listed(connection)
    picture = _keys_table if rows else "there are no keys: langmem-adapter keys create -u NAME"
    call.output.show(rows, columns=_COLUMNS, picture=picture, row=_row)


def revoke(
    call: Invocation,
    id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as keys list shows it.")],  # noqa: A002 - the name in the usage line
) -> None:
    """Revoke a key.

    [bold]Examples[/bold]
    $ langmem-adapter keys revoke 3f2a90b17c44
    """
    from langmem_adapter.storage import keys

    with call.database() as database:
        revoked = database.write(lambda connection: keys.revoke(connection, id))
    if not revoked:
        hint = "langmem-adapter keys list shows the ids"
        raise CommandError(f"there is no valid key {id}", hint, code="not_found")
    call.output.show([{"id": id}], columns=("id",), picture=f"revoked {id}")


def _row(key: "Key") -> dict[str, Any]:
    scope = {name: None if key.scope is None else getattr(key.scope, name) for name in SCOPE_FIELDS}
    times = {"created_at": key.created_at.isoformat(), "revoked_at": key.revoked_at and key.revoked_at.isoformat()}
    return {"id": key.id, "name": key.name, **scope, "rights": sorted(key.rights), **times}


def _reach(key: "Key") -> str:
    return "everything" if key.scope is None else named(key.scope.named)


def _keys_table(keys: "Sequence[Key]") -> Table:
    table = Table("id", "name", "reaches", "rights", "made", "revoked", box=None)
    for key in keys:
        cells = (key.name, _reach(key), ", ".join(sorted(key.rights)))
        revoked = f"{key.revoked_at:%Y-%m-%d}" if key.revoked_at else ""
        table.add_row(key.id, *(Text(one_line(cell)) for cell in cells), f"{key.created_at:%Y-%m-%d}", revoked)
    return table


_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_ANY: Final = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound
_NEEDED: Final = {
    "keys": ("every call needs a key", ' -H "X-API-Key: $KEY"'),
    "local": ("no key: only local connections, with full access", ""),
}
_EXAMPLE: Final = '{"messages": "I live in Lyon", "user_id": "alice"}'


def serve(
    call: Invocation,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 for a free one.")] = 8765,
    host_name: Annotated[
        list[str] | None, option(metavar="NAME", help="A name it is called by, beside localhost; * for any.")
    ] = None,
    *,
    max_body: Annotated[int, typer.Option(metavar="BYTES", min=1_000, help="Length of a request's body.")] = 10_000_000,
    per_minute: Annotated[
        int, typer.Option(metavar="N", min=0, help="Requests a minute from one address, in each process; 0: any.")
    ] = 0,
    forwarded_allow_ips: Annotated[
        list[Any] | None,
        option(metavar="ADDRESS", parser=ip_network, help="A proxy, or its network: X-Forwarded-For says who calls."),
    ] = None,
    max_connections: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Connections of a process; default: half its files, ≤ 1,000.")
    ] = None,
    request_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Time in which headers, or more of a body, must arrive.")
    ] = 20.0,
    fetch_images: Annotated[bool, typer.Option("--fetch-images", help="Let callers name images by addresses.")] = False,
    mcp: Annotated[bool, typer.Option("--mcp", help="Serve MCP clients as well, at /mcp.")] = False,
    metrics: Annotated[bool, typer.Option("--metrics", help="Tell Prometheus at /metrics what is done.")] = False,
    workers: Annotated[int, typer.Option(metavar="N", min=1, help="Processes that share the work.")] = 1,
    graph: GraphOption = None,
) -> None:
    """Serve the memory over HTTP: Mem0's routes, and our own below /v1.

    Where keys exist, every call needs one (see keys create). Without keys only
    local connections are accepted, with full access.
    A page to look at memories is at /ui, the routes with examples at /docs. In a
    pipe it prints the address.
    The log is a JSON line a request, on stderr. Ctrl-C or SIGTERM stops it once
    what it is doing is done.

    [bold]Examples[/bold]
    $ langmem-adapter serve
    $ langmem-adapter serve --port 8888 -d memory.db
    $ langmem-adapter serve --host 0.0.0.0 --host-name memory.example.com --workers 4
    """
    how: dict[str, Any] = {"max_body": max_body, "request_timeout": request_timeout, "per_minute": per_minute}
    how |= {"fetch_images": fetch_images, "mcp": mcp, "metrics": metrics}
    proxies = ",".join(map(str, forwarded_allow_ips or ()))
    files = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else -1  # -1: any number
    most = max_connections or (1_000 if files < 0 else min(1_000, max(files // 2, 1)))
    how["limits"] = {"connections": most, "timeout": request_timeout, "proxies": proxies}
    _serve(call, how, host=host, port=port, names=host_name or [], workers=workers, graph=graph)


def _serve(
    call: Invocation, how: dict[str, Any], *, host: str, port: int, names: list[str], workers: int, graph: bool | None
) -> None:
    try:
        from langmem_adapter.cli.workers import ConnectionLimits, ServedApp, serve_alone, serve_together
    except ModuleNotFoundError as error:
        raise MissingDependencyError("uvicorn", extra="server") from error

    limits = ConnectionLimits(**how.pop("limits"))
    hosts = [*_LOOPBACK, *([] if host in _ANY else [_bracketed(host)]), *names]
    with ExitStack() as opened:
        memory = opened.enter_context(call.memory(create=True, graph=graph))
        database = memory.parts.database
        if workers > 1 and database.path is None and database.dialect == "sqlite":
            raise CommandError(
                "a database in memory belongs to one process, and --workers asks for several",
                "-d memory.db, or a Postgres URL, is shared by all of them",
            )
        auth = _auth(memory, host)
        served = ServedApp(call.options, graph, {**how, "auth": auth, "hosts": hosts})
        app = served.app(memory)  # of several processes none begins with what cannot be served
        listener = opened.enter_context(_listening(host, port))
        name = next((name for name in names if name != "*"), "localhost") if host in _ANY else _bracketed(host)
        _print_address(call, f"http://{name}:{listener.getsockname()[1]}", auth)
        if host in _ANY and not names:
            call.output.aside("other machines need a name of the server: add --host-name NAME", "yellow")
        if workers == 1:
            serve_alone(app, listener, limits)
        else:
            memory.close()
            serve_together(served, listener, limits, workers)


def _auth(memory: "Memory", host: str) -> str:
    from langmem_adapter.server.auth import is_loopback
    from langmem_adapter.storage import keys

    if any(key.revoked_at is None for key in memory.parts.reading(keys.listed)):
        return "keys"
    if is_loopback(host):
        return "local"
    raise CommandError(
        f"other machines reach {host or 'every address'}, and there is no key that they could show",
        "langmem-adapter keys create -u NAME makes one; --host 127.0.0.1 serves this machine alone",
        code="no_key",
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2_048)
    except OSError as error:
        raise CommandError(
            f"cannot listen on {_bracketed(host)}:{port}: {error.strerror or error}",
            "--port 0 takes a free port",
            code="address",
        ) from None


def _print_address(call: Invocation, address: str, auth: str) -> None:
    row = {"url": address, "auth": auth}
    call.output.show([row], columns=("url",), picture=f"serving at {address}")
    sys.stdout.flush()  # a program that starts it waits for the line
    needed, key = _NEEDED[auth]
    call.output.aside(f"{needed} · look: {address}/ui · routes: {address}/docs · Ctrl-C stops it")
    curl = f"curl {address}/memories{key} -H 'Content-Type: application/json' -d {shlex.quote(_EXAMPLE)}"
    call.output.aside(curl, whole=True)


def mcp(
    call: Invocation,
    *,
    read_only: Annotated[bool, typer.Option("--read-only", help="Let the model look, and change nothing.")] = False,
    graph: GraphOption = None,
    configuration: Annotated[
        bool, typer.Option("--configuration", help="Print what a client's configuration needs, and end.")
    ] = False,
) -> None:
    r"""Serve one user's memory to an MCP client (Claude Desktop, Cursor, VS Code, your own agent).

    It talks on standard input and output, so clients start it themselves. Over HTTP it is part of [bold]serve[/bold].
    In VS Code the block is called servers instead of mcpServers. LANGMEM_ADAPTER_…
    and keys that only your shell has go into its "env".

    [bold]Examples[/bold]
    $ langmem-adapter mcp -u alice --configuration
    $ claude mcp add memory -- langmem-adapter mcp -u alice
    """
    from langmem_adapter.records.scope import Scope

    if not call.scope:
        raise CommandError("the scope is missing", "start it with -u USER", code="scope_missing")
    if configuration:
        typer.echo(json.dumps(_configuration(call, graph=graph, read_only=read_only), indent=2, ensure_ascii=False))
        return
    from langmem_adapter.server.auth import Principal
    from langmem_adapter.server.mcp import create_mcp

    rights = frozenset({"read"} if read_only else {"read", "write"})
    principal = Principal("local", Scope(**call.scope), rights)
    with call.memory(create=True, graph=graph) as memory:
        create_mcp(memory, lambda _: principal).run("stdio")


def _configuration(call: Invocation, *, graph: bool | None, read_only: bool) -> dict[str, object]:
    """The block that Claude Desktop, Cursor and others read; it works from every folder."""
    database = call.options["database"]
    if database and database != ":memory:" and "://" not in database:
        database = Path(database).absolute()
    options = {name: call.options[name] for name in ("user", "agent", "run", "model", "embeddings")}
    options |= {"database": database, "graph": graph, "no_graph": graph is False, "read_only": read_only}
    name = "langmem-adapter"
    # The full path: a client outside a shell does not search the environment's folder.
    program = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name) or name
    return {"mcpServers": {"memory": {"command": program, "args": ["mcp", *flags(options)]}}}
