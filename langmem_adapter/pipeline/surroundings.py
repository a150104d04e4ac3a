"""What stands around a fact: the turn that it came from, and those right before it.

An answer rarely repeats the words of its question: "Where did you go?", "To Lyon." Kept beside the memory, they are more
words to find it by. On LoCoMo's evidence task this is the largest single gain of all (recall@10 .60 to .69).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.storage.lexical import joined

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langmem_adapter.records.work import Fact

__all__ = ["around"]

_BEFORE: Final = 2
_LONGEST: Final = 2_000  # letters of each: every memory of a turn keeps its own copy


def around(fact: Fact, turns: Sequence[Mapping[str, Any]]) -> str:
    """The `context` of the memory that a fact becomes, nearest first.

    Args:
        fact: The fact; a statement kept word for word has no turn beside itself.
        turns: All turns of the run.
    """
    own = turns[fact.turn]
    told = [] if fact.verbatim or not fact.context else [fact.context]
    before = reversed(turns[max(0, fact.turn - _BEFORE) : fact.turn])
    told += (turn["text"] for turn in before if turn["item"] == own["item"] and turn["role"] != "system")
    return joined(text[:_LONGEST] for text in told[:_BEFORE])
