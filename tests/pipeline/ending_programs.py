"""Programs that end without closing their background writers: each in a process of its own, forked from one import.

Their one argument is a folder. There they leave their memories (`m.db`, a user for each), their exit codes and their stderr.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from langmem_adapter.pipeline.background import BackgroundWriter


def opened(folder: Path, **options: Any) -> BackgroundWriter:
    return Memory(folder / "m.db", index="exact", **options).background(after=math.inf)


def take(writer: BackgroundWriter) -> None:
    writer.add("I like tea.", infer=False, user_id=sys.argv[2])


def runs_out(folder: Path) -> None:
    take(opened(folder))


def forgets_its_writer(folder: Path) -> None:
    take(opened(folder))
    gc.collect()


def raises(folder: Path) -> None:
    take(opened(folder))
    raise LookupError("nothing to do with memory")


def exits(folder: Path) -> None:
    take(opened(folder))
    sys.exit(3)


def leaves_a_thread_behind(folder: Path) -> None:
    writer = opened(folder)

    def say() -> None:
        threading.main_thread().join()
        take(writer)

    threading.Thread(target=say, daemon=False).start()


def is_a_child_of_multiprocessing(folder: Path) -> None:
    child = multiprocessing.get_context("fork").Process(target=runs_out, args=[folder])
    child.start()
    child.join()
    sys.exit(child.exitcode)


def forks_a_child_that_ends_first(folder: Path) -> None:
    writer = opened(folder)
    take(writer)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
    # The child ends as any program does: what waits is its parent's to write, once.


def speaks_when_all_is_over(folder: Path) -> None:
    memory = Memory(folder / "m.db")
    unused, used = memory.background(after=math.inf), memory.background(after=math.inf)
    take(used)
    for writer in (unused, used):
        util.Finalize(None, speak_late, [writer], exitpriority=-1)


def speak_late(writer: BackgroundWriter) -> None:
    try:
        take(writer)
    except InvalidInputError as error:
        sys.stderr.write(str(error))


def needs_an_executor(folder: Path) -> None:
    model = ScriptedChatModel(replies=["a cat", "a dog", '{"facts": []}'])
    parts = [{"type": "image_url", "image_url": {"url": f"https://example.org/secret{n}.png"}} for n in (1, 2)]
    writer = opened(folder, model=model, vision=True)
    writer.add([{"role": "user", "content": parts}, "Look!"], user_id=sys.argv[2])


def is_interrupted(folder: Path) -> None:
    def interrupt(_: object) -> str:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # seen, and the main thread is not woken up
        threading.Event().wait()
        return ""

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
    opened(folder, model=ScriptedChatModel(replies=[interrupt])).add("I like tea.", user_id=sys.argv[2])


PROGRAMS = (
    runs_out,
    forgets_its_writer,
    raises,
    exits,
    leaves_a_thread_behind,
    is_a_child_of_multiprocessing,
    forks_a_child_that_ends_first,
    speaks_when_all_is_over,
    needs_an_executor,
    is_interrupted,
)


def main(folder: Path) -> None:
    """Start each and wait for it; in each, return where it has come to its end."""
    with Memory(folder / "m.db", index="exact") as memory:  # what is imported late is imported once
        memory.add("I like tea.", infer=False, user_id="main")
    gc.freeze()  # or each child looks through all of it as it ends
    for program in PROGRAMS:
        child = os.fork()
        if not child:
            signal.alarm(60)
            sys.argv.append(program.__name__)
            os.dup2(os.open(folder / f"{program.__name__}.stderr", os.O_WRONLY | os.O_CREAT), 2)
            program(folder)
            return
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with (folder / "codes").open("a") as codes:
            codes.write(f"{program.__name__} {code}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
