"""The runs of a memory, printed by a tracer; LANGSMITH_TRACING=true sends the same runs to LangSmith."""

from langchain_core.runnables import chain
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

from langmem_adapter import Memory


class Printer(BaseTracer):  # noqa: D101 - prints the names of a tree of runs
    def _persist_run(self, run: Run, depth: int = 0) -> None:
        print("  " * depth + run.name)
        for child in run.child_runs:
            self._persist_run(child, depth + 1)


@chain
def program(text: str) -> str:  # noqa: D103 - any chain, agent or graph
    memory.add(text, user_id="alice")
    return memory.search("Where does she live?", user_id="alice")[0].text


with Memory(":memory:") as memory:
    print(program.invoke("I live in Lyon.", {"callbacks": [Printer()]}))
