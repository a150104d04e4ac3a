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
from typing import TYPE_CHECKING, Any, Final

from langchain_core._api import surface_langchain_deprecation_warnings

from tests.faults.processes import start

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COMMAND", "Program", "python"]

COMMAND: Final = ("-c", "from langmem_adapter.cli.app import main; main()")
"""The arguments of Python that are followed by those of `langmem-adapter`."""


class Program:
    """A program that runs.

    Args:
        arguments: As for the command `python`: a file, or `-c` and code, and what the program finds in `sys.argv`.
        said: What it reads from its standard input.
        terminal: The path of the terminal that it talks to instead.
        more: Variables of its environment beside those of this process.
    """

    def __init__(self, *arguments: object, said: str = "", terminal: str = "", **more: str) -> None:
        self.arguments = [str(argument) for argument in arguments]
        self._folder = tempfile.TemporaryDirectory(prefix="program-")
        if self.arguments[0] == "-c":
            code = Path(self._folder.name, "program.py")
            code.write_text(self.arguments[1], encoding="utf-8")
            self.arguments[:2] = [str(code)]
        self._streams = [Path(self._folder.name, name) for name in ("stdin", "stdout", "stderr")]
        for path in self._streams:
            path.write_text(said if path.name == "stdin" else "", encoding="utf-8")
        streams = [terminal or str(path) for path in self._streams]
        self._process = start(_run, self.arguments, streams, {**os.environ, **more}, str(Path.cwd()))

    def runs(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.is_alive()

    def said(self) -> str:
        """What it has written to its standard output so far."""
        return self._streams[1].read_text(encoding="utf-8")

    def send(self, number: int) -> None:
        """Send it a signal."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def end(self, seconds: float = 100) -> CompletedProcess[str]:
        """Wait until it has ended; what it said."""
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            self._process.join()
        self._process.close()
        out, err = (path.read_text(encoding="utf-8") for path in self._streams[1:])
        self._folder.cleanup()
        assert code is not None, f"{self.arguments} took longer than {seconds} seconds: {out}{err}"
        return CompletedProcess(self.arguments, code, out, err)


def python(*arguments: object, code: int = 0, **options: Any) -> CompletedProcess[str]:
    """Run a program, with the options of `Program`, to its end, which must be that of the code."""
    done = Program(*arguments, **options).end()
    assert done.returncode == code, done.stdout + done.stderr
    return done


def _run(arguments: list[str], streams: list[str], environment: Mapping[str, str], folder: str) -> None:
    for number, path in enumerate(streams):
        file = os.open(path, os.O_RDWR)
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, encoding="utf-8") for number, mode in enumerate("rww"))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    if environment.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
        surface_langchain_deprecation_warnings()  # as the import of LangChain does
    sys.argv = arguments
    sys.path.insert(0, "")
    runpy.run_path(arguments[0], run_name="__main__")
