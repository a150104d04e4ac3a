"""What a memory says to questions that it knows nothing of: those about other conversations.

A question about one conversation is asked of others, as it is, and with the names of its speakers replaced by the names of
those who speak there: only what was said can then tell that nothing is known.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from langmem_adapter.evaluation.metrics import auroc, silent
from langmem_adapter.evaluation.runner import CONTEXT, best

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langmem_adapter.evaluation.conversations import Dialogue
    from langmem_adapter.evaluation.runner import QuestionResult
    from langmem_adapter.memory.memory import Memory

__all__ = ["Silence", "renamed", "silence"]


@dataclass(frozen=True, slots=True)
class Silence:
    """How well the relevance of the best hit tells what is known from what is not.

    Attributes:
        names: `"as asked"`, or `"replaced"`.
        own: How many questions about the conversation itself there are.
        foreign: How many about others.
        auroc: The chance that one of its own has the more relevant hit.
        threshold: The highest that answers .95 of its own.
        silent: The share of foreign ones that get nothing with it.
    """

    names: str
    own: int
    foreign: int
    auroc: float
    threshold: float
    silent: float

    def to_json(self) -> dict[str, Any]:
        """As one flat row."""
        return {key: round(value, 4) if isinstance(value, float) else value for key, value in asdict(self).items()}


def silence(
    memory: Memory,
    conversations: Sequence[Dialogue],
    answers: Sequence[QuestionResult],
    *,
    others: int,
    progress: Callable[[int, int], object] = lambda *_: None,
) -> list[Silence]:
    """Ask each question of the *others* that follow its own conversation: as it is, and with all names of speakers replaced.

    The *memory* is what `runner.ingest` filled with these conversations; answers to questions apart are left out. *progress* is
    called with the number of questions that were asked, and that of all. There is a row for each way of asking; none where
    there is nobody to ask, or nothing, and no second where a speaker has no name.
    """
    own = [answer.relevance for answer in answers if not answer.question.apart]
    asked = list(_foreign(conversations, answers, others))
    named = all(talk.speakers for talk in conversations)
    ways = (("as asked", "replaced") if named else ("as asked",)) if asked else ()
    found = []
    for way, names in enumerate(ways):
        scores = []
        for place, (text, theirs, ours) in enumerate(asked, way * len(asked) + 1):
            put = text if names == "as asked" else renamed(text, theirs.speakers, ours.speakers)
            scores.append(best(memory.search(put, user_id=ours.id, k=CONTEXT)))
            progress(place, len(ways) * len(asked))
        found.append(Silence(names, len(own), len(scores), auroc(own, scores), *silent(own, scores)))
    return found


def renamed(text: str, theirs: Sequence[str], ours: Sequence[str]) -> str:
    """A text with the names of some speakers in the place of others, in order.

    Example:
        >>> renamed("Is Mira's cat older than Theo's?", ["Mira", "Theo"], ["Ada", "Ben"])
        "Is Ada's cat older than Ben's?"
    """
    names = {name: ours[place % len(ours)] for place, name in enumerate(theirs)}
    pattern = "|".join(map(re.escape, names))
    return re.sub(rf"(?<![A-Za-z])(?:{pattern})(?![A-Za-z])", lambda found: names[found[0]], text)


def _foreign(
    conversations: Sequence[Dialogue], answers: Sequence[QuestionResult], others: int
) -> Iterator[tuple[str, Dialogue, Dialogue]]:
    """Questions with the conversation that they are about, and another that they are asked of."""
    for place, theirs in enumerate(conversations):
        following = [*conversations[place + 1 :], *conversations[:place]][:others]
        questions = [each.question for each in answers if each.question.scope.user_id == theirs.id]
        yield from ((question.text, theirs, ours) for ours in following for question in questions if not question.apart)
