"""A function that learns: what was answered well is not asked again, and similar requests see how it was done."""

from langmem_adapter import Memory
from langmem_adapter.conversation import ExperienceMemory, Score
from langmem_adapter.testing import ScriptedChatModel

model = ScriptedChatModel(replies=["sum(range(1, 4))", "sum(range(1, 5))"])
right = {"Python: add up 1 to 3": 6, "Python: add up 1 to 4": 10}


def check(request: str, response: str) -> Score:
    """Run it: who wrote it is no judge."""
    return Score(10, "right") if eval(response) == right[request] else Score(1, "wrong")  # noqa: S307 - our own replies


with Memory() as memory:
    pool = ExperienceMemory(memory, agent_id="coder", scorer=check)

    @pool.cached
    def write(*, req: str) -> str:
        """Ask the model."""
        return model.invoke(req).text

    print(*(f"{request} -> {write(req=request)}" for request in [*right, *right]), sep="\n")
    print(f"asked {len(model.calls)} times, the last time with:", model.calls[-1][0].text, sep="\n")
