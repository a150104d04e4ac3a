"""How much each kind of evidence counts in a search."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from langmem_adapter.errors import InvalidInputError

_Weight: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

_WORDS: Final = {"hash": 0.75, "static": 0.68}  # by the kind of embeddings, with which their fingerprint begins
_MODELS_WORDS: Final = 0.55


class Ranking(BaseModel):
    """How much each kind of evidence counts in a search; 0 switches it off.

    Meaning and words share 1; the other kinds are added. `tests/benchmarks/weights.py` tries values on six data sets (LoCoMo,
    REALTALK, BEAM, MemoryBank in English and Chinese, MemDaily) and prints what each is worth; of most, leaving out any data
    set chooses the same values. For the speaker it chooses 0.35 to 0.4, which costs questions that name the wrong person
    (LoCoMo's adversarial ones, recall@10 −0.06); it stays at 0.25. In brackets, what recall@10 loses without it.

    Args:
        words: Share of the words; meaning has the rest. `None` takes what suits the embeddings: 0.75 for hashes, 0.68 for
            `"static"` ones, 0.55 for those of a model, which understand more.
        related: What a related word counts beside the word itself ("moved" for "live"), which finds short statements without a
            word of the query (LoCoMo −0.006).
        speaker: Added to what a speaker said whom the query names (LoCoMo −0.035, REALTALK −0.051).
        time: Added to a memory that tells a time, where the query asks for one (REALTALK −0.004, MRR −0.019).
        window: Added to what was written in the time that the query names, or speaks of it, where the query has a topic as
            well. A query for a time alone ("what did we talk about last week?") counts it 1 (MemoryBank −0.05,
            LoCoMo −0.008; REALTALK +0.005).
        graph: Added to a memory that the knowledge graph leads to from what the query names, where there is one.

    Raises:
        InvalidInputError: A weight is not between 0 and 1, or a name is unknown.

    Example:
        >>> Ranking(words=0.8).speaker
        0.25
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    words: _Weight | None = None
    related: _Weight = 0.4
    speaker: _Weight = 0.25
    time: _Weight = 0.3
    window: _Weight = 0.5
    graph: _Weight = 0.9

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InvalidInputError("; ".join(map(_explain, error.errors()))) from None

    @classmethod
    def plain(cls, words: float) -> Ranking:
        """Meaning and words alone."""
        return cls(**dict.fromkeys(cls.model_fields, 0) | {"words": words})

    @property
    def share(self) -> float:
        """That of the words, 0 to 1."""
        return _MODELS_WORDS if self.words is None else self.words

    def suited(self, fingerprint: str) -> Ranking:
        """The same for embeddings of that fingerprint: with a share of the words."""
        kind = fingerprint.replace("/", ":").partition(":")[0]
        return self if self.words is not None else self.model_copy(update={"words": _WORDS.get(kind, _MODELS_WORDS)})


def _explain(mistake: Any) -> str:
    name = ".".join(map(str, mistake["loc"]))
    if mistake["type"] == "extra_forbidden":
        return f"unknown weight {name!r}; known are {', '.join(Ranking.model_fields)}"
    return f"weight {name!r}: {mistake['msg']}"
