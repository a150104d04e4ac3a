"""The command `mcp`: the memory for MCP clients that start a program and talk to it on standard input and output."""

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from langmem_adapter.cli.failures import CommandError
from langmem_adapter.cli.options import GraphOption, Invocation

__all__ = ["mcp"]


def mcp(
    call: Invocation,
    *,
    read_only: Annotated[bool, typer.Option("--read-only", help="Let the model look, and change nothing.")] = False,
    graph: GraphOption = None,
    configuration: Annotated[
        bool, typer.Option("--configuration", help="Print what a client's configuration needs, and end.")
    ] = False,
) -> None:
    r"""Serve one user's memory to an MCP client (Claude Desktop, Cursor, VS Code, an agent of your own).

    It talks on standard input and output, so clients start it themselves. Over HTTP it is part of [bold]serve[/bold].
    In VS Code the block is called servers instead of mcpServers. LANGMEM_ADAPTER_…
    and keys that only your shell has go into its "env".

    [bold]Examples[/bold]
    $ langmem-adapter mcp -u alice --configuration
    $ claude mcp add memory -- langmem-adapter mcp -u alice
    """
    from langmem_adapter.records.scope import Scope

    if not call.scope:
        raise CommandError("whose memory?", "start it with -u USER", code="scope_missing")
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
    """The block that Claude Desktop, Cursor and others read; VS Code calls `mcpServers` `servers`."""
    named = [part for name, value in call.scope.items() for part in (f"--{name.removesuffix('_id')}", value)]
    arguments = ["mcp", *named, *_options(call, graph=graph, read_only=read_only)]
    return {"mcpServers": {"memory": {"command": _program(), "args": arguments}}}


def _options(call: Invocation, *, graph: bool | None, read_only: bool) -> list[str]:
    """The options that it was called with, good for whoever starts it in another folder."""
    given = {f"--{name}": str(call.options[name]) for name in ("model", "embeddings") if call.options[name]}
    if database := call.options["database"]:
        is_file = database != ":memory:" and "://" not in database
        given["--database"] = str(Path(database).absolute()) if is_file else database
    told = [part for each in given.items() for part in each]
    return [
        *told,
        *([] if graph is None else ["--graph" if graph else "--no-graph"]),
        *(["--read-only"] if read_only else []),
    ]


def _program() -> str:
    """This program by its whole path: a client that no shell has started finds nothing in an environment's folder."""
    name = "langmem-adapter"
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name) or name
