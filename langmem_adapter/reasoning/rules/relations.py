"""Relations for the knowledge graph, read off the facts that the rules have found.

The rules for comparing statements take a fact apart already (whom it is about, which attribute, which value); here the
attribute becomes the name of a relation, and the value the names of things. Only what is plainly a name becomes one: a proper
name, a short noun phrase, a list that is clearly of nouns. Everything else (clauses, denials of what nobody said, plans,
"maybe", what is said of a thing rather than of somebody) gives no relation: a missing edge costs less than a wrong one.

Limits: nothing is understood. Types are known only where the words tell them (a sister is a person, a home a place). A name
of more than six words (twelve Chinese letters), a place or company in lower case that is not plainly one, or a list whose
joints are unclear ("pizza and ice cream") is left out. Past events give relations only where they last (moved, married,
graduated, adopted) and for visits. Adjectives stay with their nouns ("old Honda Civic"), what stands behind a verb's object is
dropped ("Plays chess with Bob"). That "Acme" is a company is not checked; a place of work in Chinese is told from a company by
a short list of places. A fact whose words mean another person than it says gives a wrong relation as it is a wrong memory.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.names import LONGEST_NAME, LONGEST_RELATION, entity_key, relation_name
from langmem_adapter.reasoning.rules.meaning import in_chinese
from langmem_adapter.reasoning.rules.people import Person, mentioned, named, referent, resolved
from langmem_adapter.reasoning.rules.relations_chinese import chinese_relations
from langmem_adapter.reasoning.rules.relations_english import english_relations
from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.text import refers_back

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langmem_adapter.reasoning.base import KnownNames
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.work import Fact

__all__ = ["related", "relations"]

_RECENT: Final = 50  # people that a pronoun may mean, the last ones named
_BEINGS: Final = frozenset({"person", "animal"})


def relations(text: str, speaker: str = SELF, known: frozenset[str] = frozenset()) -> tuple[Triple, ...]:
    """What a short statement says of things, none where it cannot be read with confidence.

    Args:
        text: A fact as the rules word it, in English or Chinese, its pronouns put right.
        speaker: Who is meant where nobody is named: `SELF` or `ASSISTANT`.
        known: Names of people and animals in lower case, with which a statement may open.

    Example:
        >>> [(t.source, t.relation, t.target) for t in relations("Sister Jesica lives in Rome")]
        [('user', 'has_sister', 'Jesica'), ('Jesica', 'lives_in', 'Rome')]
        >>> relations("Likes it when it rains")
        ()
    """
    if refers_back(text):
        return ()
    read = chinese_relations if in_chinese(text) else english_relations
    formed = (replace(triple, relation=relation_name(triple.relation)) for triple in read(text, speaker, known))
    return tuple(dict.fromkeys(triple for triple in formed if _named(triple)))


def related(facts: Iterable[Fact], actors: Iterable[str], about: str, known: KnownNames) -> tuple[Fact, ...]:
    """The facts of one conversation, each with the relations that it states.

    A pronoun is put right for the relations as it is for the memory: where the same speaker named somebody fitting before.

    Args:
        facts: In order.
        actors: Who said each of them.
        about: `Question.about`: whom a fact without subject is about.
        known: Of these the names of people and animals are known from the start.
    """
    speaker = ASSISTANT if about == "assistant" else SELF
    readers: defaultdict[str, _Reader] = defaultdict(lambda: _Reader(speaker, _beings(known)))
    told = zip(facts, actors, strict=True)
    return tuple(replace(fact, relations=tuple(readers[actor].read(fact.text))) for fact, actor in told)


def _beings(known: KnownNames) -> set[str]:
    return {name.casefold() for name, type_ in known.entities if type_ in _BEINGS}


@dataclass(slots=True)
class _Reader:
    """Reads one statement after the other, and remembers who was named."""

    speaker: str
    known: set[str]
    recent: deque[Person] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def read(self, text: str) -> Iterator[Triple]:
        person = referent(text, self.recent, ()) if refers_back(text) else None
        plain = resolved(text, person) if person else text
        who = {person.name.casefold()} if person and person.name else set()
        yield from self._noted(relations(plain, self.speaker, frozenset(self.known | who)))
        self.recent.extendleft(reversed(mentioned(plain)))
        if person and not named(text):
            self.recent.appendleft(person)

    def _noted(self, found: tuple[Triple, ...]) -> tuple[Triple, ...]:
        self.known |= {triple.target.casefold() for triple in found if _by_name(triple)}
        return found


def _by_name(triple: Triple) -> bool:
    """Whether the target is somebody called by a name: "has dog" calls nobody so, "has_dog Rex" does."""
    return triple.target_type in _BEINGS and triple.relation not in {"has", "有"} and not triple.target.islower()


def _named(triple: Triple) -> bool:
    """Whether both ends and the relation have names that can be kept."""
    ends = (triple.source, triple.target)
    fits = all(entity_key(name) and len(name) <= LONGEST_NAME for name in ends)
    return (
        fits and 0 < len(triple.relation) <= LONGEST_RELATION and entity_key(triple.source) != entity_key(triple.target)
    )
