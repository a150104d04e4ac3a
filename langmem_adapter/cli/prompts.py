"""`prompts`: the instructions that a chat model gets."""

from typing import Annotated, Literal

import typer

from langmem_adapter.cli.options import Invocation

__all__ = ["prompts"]


def prompts(
    call: Invocation,
    task: Annotated[
        Literal["user", "assistant", "graph", "kept", "decide", "record", "summary", "title", "related", "rewrite"],
        typer.Argument(help="What the model is asked for."),
    ] = "user",
) -> None:
    """Show the instructions that a chat model gets, as a beginning for your own.

    user and assistant: to find facts about one of them. graph: added to that
    where relations are wanted, too. kept: instead of these, to find relations in
    memories. decide: to compare facts with memories. record: to write down the
    steps of an agent. summary, title: to sum up a conversation. related: whether
    two texts belong together. rewrite: to complete a sentence from its context. The data follows in a message of its own; where
    it ends and what form the reply has is said there.

    [bold]Examples[/bold]
    $ langmem-adapter prompts
    $ langmem-adapter prompts decide > decide.md
    """
    from langmem_adapter.reasoning.prompts import instructions

    call.output.write(instructions(task), task=task)
