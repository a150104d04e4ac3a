"""Cache the answers to equal requests, and show earlier answers to the model for similar ones."""

from langmem_adapter import Memory
from langmem_adapter.conversation import ExperienceMemory, Score
from langmem_adapter.testing import ScriptedChatModel

model = ScriptedChatModel(replies=["sum(range(1, 4))", "sum(range(1, 5))"])
sums = {"Python: add up 1 to 3": 6, "Python: add up 1 to 4": 10}


def check(request: str, response: str) -> Score:
    """Score an answer by running it."""
    return Score(10, "right") if eval(response) == sums[request] else Score(1, "wrong")  # noqa: S307 - our replies


with Memory() as memory:
    pool = ExperienceMemory(memory, agent_id="coder", scorer=check)

    @pool.cached
    def write(*, req: str) -> str:
        """Ask the model."""
        return model.invoke(req).text

    print(*(f"{request} -> {write(req=request)}" for request in [*sums, *sums]), sep="\n")
    print(f"{len(model.calls)} model calls, the last one with:", model.calls[-1][0].text, sep="\n")
