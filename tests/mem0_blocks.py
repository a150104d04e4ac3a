"""The Python blocks of Mem0's documentation, run here with the import changed.

Nothing of that documentation is in this repository: `MEM0_CHECKOUT` names a checkout of github.com/mem0ai/mem0. The blocks of a
page share their names, as a reader would run them.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.errors import LangmemAdapterError, ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Block", "Outcome", "blocks", "program", "run"]

_FENCE: Final = re.compile(r"^( *)```(?:python|py)\b[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_USES: Final = re.compile(r"\b(?:Async)?Memory(?:\.from_config)?\(")
_HOSTED: Final = re.compile(r"MemoryClient")
_IMPORT: Final = re.compile(r"^(\s*)(from|import) mem0\b", re.MULTILINE)
HERE: Final = "langmem_adapter.adapters.mem0"


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    page: str
    line: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def counts(self) -> bool:
        """Whether it uses `Memory` or `AsyncMemory`; what is for the hosted platform does not count."""
        return bool(_USES.search(self.text)) and not _HOSTED.search(self.text)


@dataclass(frozen=True)
class Outcome:
    """What became of a block: `"runs"`, `"built"` (no model is there), `"refused"`, `"foreign"`, `"fragment"` or `"raw"`."""

    block: Block
    kind: str
    text: str = ""


def blocks(checkout: Path) -> Iterator[list[Block]]:
    """The blocks of each page that has one which counts."""
    pages = [checkout / "README.md", *sorted((checkout / "docs").rglob("*.mdx"))]
    for path in pages:
        text, name = path.read_text(encoding="utf-8"), str(path.relative_to(checkout))
        found = [
            Block(name, text[: match.start()].count("\n") + 1, inspect.cleandoc("\n" + match[2]))
            for match in _FENCE.finditer(text)
        ]
        if any(block.counts for block in found):
            yield found


def program(path: Path, host: str) -> Block:
    """A whole program: a file, all cells of a notebook, or all blocks of a page; addresses of other hosts become *host*."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
    elif path.suffix == ".mdx":
        text = "\n".join(inspect.cleandoc("\n" + match[2]) for match in _FENCE.finditer(text))
    return Block(path.name, 1, re.sub(r"https://api\.x\.ai/v1", host, text))


def run(page: list[Block], name: str = "block") -> list[Outcome]:
    """Run the blocks of a page, and say what became of those that count."""
    names: dict[str, Any] = {"__name__": name}
    with asyncio.Runner() as runner:
        outcomes = [_run(block, names, runner) for block in page]
        for value in names.values():
            if type(value).__name__ in {"Memory", "AsyncMemory"} and type(value).__module__.startswith(HERE):
                value.close()
    return [outcome for outcome in outcomes if outcome.block.counts]


def _run(block: Block, names: dict[str, Any], runner: asyncio.Runner) -> Outcome:
    text, output = _IMPORT.sub(rf"\1\2 {HERE}", block.text), io.StringIO()
    try:
        code = compile(text, block.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with contextlib.redirect_stdout(output), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = eval(code, names)  # noqa: S307 - the documentation of a peer
            if inspect.isawaitable(result):
                runner.run(_awaited(result))
    except Exception as error:  # noqa: BLE001 - what it is is said
        return Outcome(block, _kind(error), f"{type(error).__name__}: {error}")
    return Outcome(block, "runs", output.getvalue())


def _kind(error: Exception) -> str:
    """What an error says of a block: whose it is."""
    if isinstance(error, SyntaxError | NameError):
        return "fragment"
    if isinstance(error, LangmemAdapterError | NotImplementedError):
        return "built" if isinstance(error, ModelError) else "refused"
    if isinstance(error, ImportError):
        return "refused" if "is not here" in str(error) else "raw" if HERE in str(error) else "foreign"
    at, ours = error.__traceback__, False
    while at is not None:
        ours = ours or str(at.tb_frame.f_globals.get("__name__")).startswith("langmem_adapter")
        at = at.tb_next
    return "raw" if ours else "foreign"


async def _awaited(result: Any) -> Any:
    return await result
