"""Python programs in processes of their own, forked from a server that has everything imported: one costs milliseconds.

What a new interpreter itself does (what it imports, how long that takes, what it prints while it ends) is not seen here.
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
import warnings
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Final, TextIO, cast

from tests.faults.processes import start

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COMMAND", "Program", "python"]

COMMAND: Final = ("-c", "from langmem_adapter.cli.app import main; main()")
"""The arguments of Python that are followed by those of `langmem-adapter`."""

_STREAMS: Final = ("stdin", "stdout", "stderr")


class Program:
    """A program that runs.

    Args:
        arguments: As for the command `python`: a file, or `-c` and code, and what the program finds in `sys.argv`.
        said: What it reads from its standard input.
        more: Variables of its environment beside those of this process.
    """

    def __init__(self, *arguments: object, said: str = "", **more: str) -> None:
        self.arguments = [str(argument) for argument in arguments]
        self._folder = Path(tempfile.mkdtemp(prefix="program-"))
        for name in _STREAMS:
            (self._folder / name).write_text(said if name == "stdin" else "", encoding="utf-8")
        self._process = start(_run, self.arguments, str(self._folder), {**os.environ, **more}, str(Path.cwd()))

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def end(self, seconds: float = 100) -> CompletedProcess[str]:
        """Wait until it has ended; what it said."""
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            self._process.join()
        self._process.close()
        out, err = ((self._folder / name).read_text(encoding="utf-8") for name in _STREAMS[1:])
        for name in _STREAMS:
            (self._folder / name).unlink()
        self._folder.rmdir()
        assert code is not None, f"{self.arguments} took longer than {seconds} seconds: {out}{err}"
        return CompletedProcess(self.arguments, code, out, err)


def python(*arguments: object, said: str = "", code: int = 0, **more: str) -> CompletedProcess[str]:
    """Run a program to its end, which must be that of the code."""
    done = Program(*arguments, said=said, **more).end()
    assert done.returncode == code, done.stdout + done.stderr
    return done


def _run(arguments: list[str], streams: str, environment: Mapping[str, str], folder: str) -> None:
    for number, name in enumerate(_STREAMS):
        file = os.open(Path(streams, name), os.O_RDWR)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = cast("TextIO", open(0, encoding="utf-8", closefd=False))  # noqa: SIM115 - the process ends soon
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    warnings.simplefilter("error" if environment.get("PYTHONWARNINGS") == "error" else "default")
    sys.path.insert(0, "")
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "-c", "exec"), {"__name__": "__main__"})  # noqa: S102 - a test's own program
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
