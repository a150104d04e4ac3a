"""How much each kind of evidence counts in a search."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from langmem_adapter.errors import InvalidInputError

__all__ = ["Ranking"]

_Weight: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

_WORDS: Final = {"hash": 0.7, "static": 0.68}  # by the kind of embeddings, with which their fingerprint begins
_MODELS_WORDS: Final = 0.55


class Ranking(BaseModel):
    """How much each kind of evidence counts in a search; 0 switches it off.

    Meaning and words share 1; what else speaks for a memory is added to them. `tests/benchmarks/weights.py` tries values on
    LoCoMo's development conversations (chat), MemoryBank (talks with an assistant, English and Chinese) and BEAM (long messages
    about tasks), and prints what each weight is worth. With `"hash"` and `"static"` it chooses these defaults, but .3 for the
    speaker and, with hashes, for the time, and less recency or none; the share of the words beside a model's vectors and the
    graph it does not try. In brackets, what is lost without a weight: of the share of the evidence among ten hits, or of the
    mean reciprocal rank (MRR).

    Args:
        words: Share of the words; meaning has the rest. `None` takes what suits the embeddings: .7 for hashes, .68 for
            `"static"` ones, .55 for those of a model, which understand more.
        related: What a related word counts beside the word itself ("moved" for "live"), which finds short statements without a
            word of the question.
        speaker: Added to what somebody said whom the question names (LoCoMo −.03, MRR −.06).
        question: Taken from a memory that is itself a question, less from a long one (LoCoMo's MRR −.02, MemoryBank's −.05).
        time: Added to a memory that tells a time, where the question asks for one (LoCoMo's MRR −.01).
        conversation: Added for standing near what answers the question, in the same conversation (LoCoMo −.02; −.05 where the
            question names the wrong person).
        window: Added to what was said in the time that the question names, or tells of it (LoCoMo −.01, MemoryBank −.06):
            "what did we talk about on 4 May?" has nothing else to go by.
        recency: Added to the newest where neither words nor meaning speak for it, less to older ones, and the less the more
            they do: so what changed is among the hits though it shares no word with the question (4 of 100 such pairs).
        graph: Added to a memory that the knowledge graph leads to from what the question names, where there is one.
        newest_first: Show the newer version of a statement before the older one, among the first ten hits, where the question
            asks how something is now. With it the newer one comes first in 114 of 115 pairs of our own making (113 with
            `"static"`) and 41 of 80 that somebody else wrote, without it in 8 (13) and 14; the MRR stays the same on all three
            data sets (within .002).

    Raises:
        InvalidInputError: A weight is not between 0 and 1, or a name is unknown.

    Example:
        >>> Ranking(words=0.8).conversation
        0.8
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    words: _Weight | None = None
    related: _Weight = 0.4
    speaker: _Weight = 0.25
    question: _Weight = 0.2
    time: _Weight = 0.2
    conversation: _Weight = 0.8
    window: _Weight = 1.0
    recency: _Weight = 0.1
    graph: _Weight = 0.9
    newest_first: bool = True

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InvalidInputError("; ".join(map(_told, error.errors()))) from None

    @classmethod
    def plain(cls, words: float) -> Ranking:
        """Meaning and words alone."""
        return cls(**dict.fromkeys(cls.model_fields, 0) | {"words": words})

    @property
    def share(self) -> float:
        """That of the words, 0 to 1."""
        return _MODELS_WORDS if self.words is None else self.words

    def suited(self, fingerprint: str) -> Ranking:
        """The same for embeddings of that fingerprint: with a share of the words.

        Example:
            >>> Ranking().suited("hash:512/2").words, Ranking(words=0.1).suited("hash:512/2").words
            (0.7, 0.1)
        """
        kind = fingerprint.replace("/", ":").partition(":")[0]
        return self if self.words is not None else self.model_copy(update={"words": _WORDS.get(kind, _MODELS_WORDS)})


def _told(mistake: Any) -> str:
    name = ".".join(map(str, mistake["loc"]))
    if mistake["type"] == "extra_forbidden":
        return f"unknown weight {name!r}; known are {', '.join(Ranking.model_fields)}"
    return f"weight {name!r}: {mistake['msg']}"
