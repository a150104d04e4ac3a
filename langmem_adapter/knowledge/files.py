"""A file that a user names: its path, or a stream, of bytes or text."""

from __future__ import annotations

import io
from contextlib import contextmanager
from errno import ENOENT
from os import PathLike, fspath
from pathlib import Path
from tempfile import mkstemp
from typing import IO, TYPE_CHECKING, TypeAlias, TypeVar

from langmem_adapter.arguments import one_of
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_text, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["File", "format_of", "reading", "writing"]

File: TypeAlias = "str | PathLike[str] | IO[bytes] | IO[str]"
F = TypeVar("F", bound=str)


def format_of(given: object, file: object, endings: Mapping[str, F], known: tuple[F, ...]) -> F:
    """The format that is asked for by name, or by the ending of a file's name.

    Raises:
        InvalidInputError: There is no such format, or nothing tells it.
    """
    if given is not None:
        return one_of(given, known, "format")
    is_stream = hasattr(file, "read") or hasattr(file, "write")
    told = None if is_stream else endings.get(_path(file).suffix.lower())
    if told is None:
        names, what = ", ".join(map(repr, known)), "a stream" if is_stream else quoted(file)
        raise InvalidInputError(f"format is one of {names}, and {what} tells none by its ending")
    return told


def _path(given: object) -> Path:
    if not isinstance(given, str | PathLike):
        raise InvalidInputError(f"give the path of a file, or a stream, not {quoted(given)}")
    return Path(check_text(fspath(given), "the path"))


@contextmanager
def reading(source: File) -> Iterator[IO[bytes] | IO[str]]:
    """A stream that reads a file."""
    if hasattr(source, "read"):
        yield source  # type: ignore[misc]  # whatever reads is a stream
    else:
        with _path(source).open("rb") as stream:
            yield stream


@contextmanager
def writing(target: File) -> Iterator[Callable[[str], object]]:
    """A way to write text to a file or a stream; a file appears whole under its name, or not at all."""
    if isinstance(target, io.TextIOBase):
        yield target.write
    elif hasattr(target, "write"):
        yield lambda text: target.write(text.encode())  # type: ignore[arg-type]  # a stream of bytes
    else:
        with _file(_path(target)) as write:
            yield write


@contextmanager
def _file(path: Path) -> Iterator[Callable[[str], object]]:
    if path.exists() and not path.is_file():  # a terminal, a pipe
        with path.open("w", encoding="utf-8", newline="") as there:
            yield there.write
        return
    if not path.parent.is_dir():
        raise FileNotFoundError(ENOENT, "there is no such folder", str(path.parent))
    handle, beside = mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="") as there:  # noqa: PTH123 - it is open already
            yield there.write
        Path(beside).replace(path)
    finally:
        Path(beside).unlink(missing_ok=True)
