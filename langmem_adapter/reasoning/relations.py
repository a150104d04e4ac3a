"""From the relations of a model's reply to the facts that state them.

A relation lives as long as a memory says it, so each belongs to exactly one fact: the one that the model names, else the one
that shares most words with it, else a fact of its own. Nothing is lost silently. What cannot be read is a reason to ask once
more; after that it is left out with a note, since a broken graph must never cost a fact.
"""

from __future__ import annotations

import reprlib
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langmem_adapter.names import entity_key
from langmem_adapter.reasoning.graph_replies import entities_of, relations_of
from langmem_adapter.reasoning.replies import MOST_FACTS, number_of
from langmem_adapter.reasoning.salvage import UnusableReplyError
from langmem_adapter.reasoning.triples import told
from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.text import content_words, is_cjk, text_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langmem_adapter.reasoning.graph_replies import GraphReply
    from langmem_adapter.records.graph import Triple

__all__ = ["Finding", "Findings", "GraphReader", "distinct"]

_MOST_RELATIONS: Final = 2_000
_MOST_TOLD: Final = 10
_QUOTED: Final = 120
_LEFT_OUT: Final = "left out of the knowledge graph: "
_REPR: Final = reprlib.Repr()
_REPR.maxlevel, _REPR.maxdict, _REPR.maxstring = 2, 8, 60


class Finding(NamedTuple):
    """A fact and the relations that it states."""

    text: str
    relations: tuple[Triple, ...] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """What a reply says.

    Attributes:
        facts: In order, none of them twice.
        notes: What was seen and not used, in words.
    """

    facts: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Said:
    """A relation and what is told of its fact: the place of the one that it stood in, a number, or whatever was sent."""

    triple: Triple
    place: int | None = None
    number: int | None = None
    fact: Any = None


def distinct(texts: Iterable[str]) -> list[str]:
    """The texts, each once, as it was first written."""
    return list({text_hash(text): text for text in reversed([*texts])}.values())[::-1]


class GraphReader:
    """Reads the replies to one question for facts and relations: the first, and the one after the repair.

    Where only the graph was wrong with the first, its facts are kept at hand: the second may be worse.

    Args:
        about: Whose facts are wanted: `"user"` or `"assistant"`.
    """

    def __init__(self, about: str) -> None:
        self._about = about
        self._first: Findings | None = None

    def read(self, reply: GraphReply, last: bool) -> Findings:  # noqa: FBT001 - the reader's signature
        """What a reply says.

        Args:
            reply: It.
            last: There is no further repair: what cannot be read of the graph is left out with a note.

        Raises:
            UnusableReplyError: Something of the graph cannot be read, and there is a chance to ask again.
        """
        reading = _Reading(reply, self._about)
        found = reading.run()
        if reading.problems and not last:
            self._first = found
            raise UnusableReplyError("; ".join(_cut(reading.problems)))
        return found if self._first is None else _completed(found, self._first, self._about)

    def fallback(self) -> Findings | None:
        """What the first reply said, where its facts could be read."""
        return self._first


class _Reading:
    """One reply while it is read."""

    def __init__(self, reply: GraphReply, about: str) -> None:
        self._reply = reply
        self._about = about
        self._notes: list[str] = []
        self.problems: list[str] = []

    def run(self) -> Findings:
        """Everything that can be read; `problems` holds what cannot."""
        types, relations = self._types(), self._relations()
        sent = [stated.text for stated in self._reply.facts]
        facts = _Attribution(sent, self._about, counted_from=_counted_from(relations, len(sent)))
        for relation in relations:
            if not facts.take(replace(relation, triple=_typed(relation.triple, types))):
                self._leave_out(relation.triple, f"it would be one fact more than {MOST_FACTS:,}")
        return Findings(facts.found(), tuple(_cut([*self._notes, *(_LEFT_OUT + problem for problem in self.problems)])))

    def _relations(self) -> list[_Said]:
        if self._reply.is_silent:
            self.problems.append('the reply has no list "relations"; where there are none, it is empty')
        sent = list(relations_of(self._reply))
        if len(sent) > _MOST_RELATIONS:
            self.problems.append(
                f"of {len(sent):,} relations only {_MOST_RELATIONS:,} are read; send the important ones"
            )
        read = (self._relation(item, place) for item, place in sent[:_MOST_RELATIONS])
        return [relation for relation in read if relation is not None]

    def _relation(self, item: Any, place: int | None) -> _Said | None:
        try:
            relation = told(item, self._about)
        except ValueError as error:
            self.problems.append(f"the relation {_quoted(item)}: {error}")
            return None
        triple = relation.triple
        self.problems += [f"in the relation {_quoted(item)} {problem}" for problem in relation.problems]
        self._notes += [f"in the relation {_quoted(item)} {note}" for note in relation.notes]
        if entity_key(triple.source) == entity_key(triple.target):
            self._leave_out(triple, "it is one of a thing to itself")
            return None
        return _Said(triple, place, None if self._reply.several else number_of(relation.fact), relation.fact)

    def _leave_out(self, triple: Triple, why: str) -> None:
        self._notes.append(f"{_LEFT_OUT}{_quoted(_in_words(triple))}: {why}")

    def _types(self) -> dict[str, str]:
        types: dict[str, str] = {}
        for entity in entities_of(self._reply):
            if isinstance(entity, str):
                self._notes.append(f"{_LEFT_OUT}{entity}")
            elif entity[1]:
                types.setdefault(*entity)
        return types


class _Attribution:
    """The facts of a reply, as sent, while relations are given to them."""

    def __init__(self, sent: Sequence[str], about: str, *, counted_from: int = 0) -> None:
        self._about = about
        self._counted_from = counted_from
        self._texts = distinct(filter(None, sent))
        self._known = {text_hash(text): number for number, text in enumerate(self._texts)}
        self._sent = [self._known.get(text_hash(text)) if text else None for text in sent]
        self._with: defaultdict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(self._texts):
            for word in content_words(text):
                self._with[word].append(number)
        self._saying: defaultdict[int, dict[tuple[Any, ...], Triple]] = defaultdict(dict)

    def take(self, relation: _Said) -> bool:
        """Give a relation to its fact; `False` if there is no room for another fact."""
        for choice in (self._named, self._nearest, self._own):
            number = choice(relation)
            if number is not None:
                self._saying[number].setdefault(_identity(relation.triple), relation.triple)
                return True
        return False

    def found(self) -> tuple[Finding, ...]:
        """Every fact with the relations given to it."""
        return tuple(Finding(text, (*self._saying[number].values(),)) for number, text in enumerate(self._texts))

    def _named(self, relation: _Said) -> int | None:
        if relation.place is not None:
            return self._sent[relation.place]
        if relation.number is not None:
            number = relation.number - self._counted_from
            return self._sent[number] if 0 <= number < len(self._sent) else None
        return self._known.get(text_hash(relation.fact)) if isinstance(relation.fact, str) else None

    def _nearest(self, relation: _Said) -> int | None:
        triple = relation.triple
        wanted = content_words(f"{triple.source} {triple.relation} {triple.target}".replace("_", " "))
        wanted -= {SELF, ASSISTANT}
        if isinstance(relation.fact, str) and relation.number is None:
            wanted |= content_words(relation.fact)
        shared = Counter(number for word in wanted for number in self._with.get(word, ()))
        return max(shared, key=lambda number: (shared[number], -number), default=None)

    def _own(self, relation: _Said) -> int | None:
        text = _in_words(relation.triple, self._about)
        if text_hash(text) not in self._known and len(self._texts) < MOST_FACTS:
            self._known[text_hash(text)] = len(self._texts)
            self._texts.append(text)
        return self._known.get(text_hash(text))


def _completed(found: Findings, first: Findings, about: str) -> Findings:
    """A repaired reply with what it forgot of the one before: only the graph was to be repaired.

    Facts count as forgotten where there are fewer of them; where there are as many, they may have been put differently.
    """
    said = [_Said(triple, fact=fact.text) for fact in found.facts for triple in fact.relations]
    told = {_names(relation.triple) for relation in said}
    before = [_Said(triple, fact=fact.text) for fact in first.facts for triple in fact.relations]
    forgotten = [relation for relation in before if _names(relation.triple) not in told]
    fewer = len(found.facts) < len(first.facts)
    if not fewer and not forgotten:
        return found
    facts = _Attribution([fact.text for fact in (*found.facts, *(first.facts if fewer else ()))], about)
    for relation in (*said, *forgotten):
        facts.take(relation)
    return Findings(facts.found(), (*found.notes, "the repaired reply left something out; it was kept from the first"))


def _counted_from(relations: Sequence[_Said], facts: int) -> int:
    """Whether a model numbers the facts from 1: it never names 0, and the one behind the last."""
    numbers = {relation.number for relation in relations}
    return int(facts in numbers and 0 not in numbers)


def _typed(triple: Triple, types: Mapping[str, str]) -> Triple:
    return replace(
        triple,
        source_type=triple.source_type or types.get(entity_key(triple.source), ""),
        target_type=triple.target_type or types.get(entity_key(triple.target), ""),
    )


def _names(triple: Triple) -> tuple[str, str, str]:
    return entity_key(triple.source), triple.relation, entity_key(triple.target)


def _identity(triple: Triple) -> tuple[Any, ...]:
    return *_names(triple), triple.valid_from, triple.valid_to, triple.ended


def _in_words(triple: Triple, about: str = "") -> str:
    """`"Anna manages Ben"`; of whom the facts are about, as facts are written: `"Lives in Lyon"`."""
    verb = triple.relation.replace("_", " ")
    chinese = is_cjk(verb)
    if triple.ended:
        verb = f"不再{verb}" if chinese else f"no longer {verb}"
    parts = [*([triple.source] if triple.source != about else []), verb, triple.target]
    text = ("" if chinese else " ").join(parts)
    return text[0].upper() + text[1:]


def _quoted(item: Any) -> str:
    return _REPR.repr(item)[:_QUOTED]


def _cut(texts: Sequence[str]) -> list[str]:
    more = len(texts) - _MOST_TOLD
    return [*texts[:_MOST_TOLD], *([f"and {more:,} more"] if more > 0 else [])]
