"""From a model's reply to facts: each with the turn that says it, its date, and the relations that it states.

A fact belongs to the turn that it names. One that names none of the speaker's is asked for once more; after that, like a plain
string, it belongs to the conversation as a whole, with a speaker only where there is just one. A relation lives as long as a
memory says it, so it belongs to exactly one fact: the one that it stands in, or that it names by number, else one in its own
words. What is wrong with a turn or a relation never costs a fact: it is asked for once, then left out with a note.
Only a fact that names the result of a tool, where that is no source, is refused, with its relations.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.names import entity_key
from langmem_adapter.reasoning.base import Extraction
from langmem_adapter.reasoning.json_text import first_ten
from langmem_adapter.reasoning.prompts import is_echo
from langmem_adapter.reasoning.replies import GraphReply, number_of
from langmem_adapter.reasoning.triples import is_relation, period, relations_in, triple_of
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.work import Fact
from langmem_adapter.text import is_cjk, text_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.reasoning.base import ExtractInput
    from langmem_adapter.reasoning.replies import FactItem, FactsReply
    from langmem_adapter.records.graph import Triple

__all__ = ["facts_of", "sources"]

_LONGEST_CONTEXT: Final = 500
_QUOTED: Final = 120
_REFUSED: Final = "\0"  # the key of a fact that is refused together with its relations


def sources(question: ExtractInput) -> list[int]:
    """The places of the turns that facts may come from."""
    return [place for place, turn in enumerate(question.turns) if question.is_source(turn)]


def facts_of(question: ExtractInput, reply: FactsReply, before: Extraction | None) -> tuple[Extraction, Sequence[str]]:
    """What a reply says, and what is wrong with its turns and relations; that is left out, with a note.

    Of an earlier reply, *before*, only turns and relations were to be put right, so its facts are kept.
    """
    reading = _Reading(reply, question)
    found = reading.run()
    return (found if before is None else _completed(found, before)), reading.problems


class _Reading:
    """One reply while it is read."""

    def __init__(self, reply: FactsReply, question: ExtractInput) -> None:
        self._reply = reply
        self._question = question
        self._sources = sources(question)
        self._notes: list[str] = []
        self._facts: dict[str, Fact] = {}
        self._keys: list[str] = []  # under which each item of the reply is kept
        self._stated: defaultdict[str, dict[tuple[Any, ...], Triple]] = defaultdict(dict)
        self.problems: list[str] = []

    def run(self) -> Extraction:
        """Everything that can be read; `problems` holds what cannot."""
        for item in self._reply.facts:
            self._keys.append(_REFUSED if self._is_a_tools(item) else self._take(item) if item.text else "")
        if isinstance(self._reply, GraphReply):
            self._relate(self._reply)
        facts = (replace(fact, relations=(*self._stated[key].values(),)) for key, fact in self._facts.items())
        return Extraction(tuple(facts), notes=tuple(first_ten([*self._notes, *self.problems])))

    def _take(self, item: FactItem) -> str:
        """Keep a fact, each speaker's once; its key, which is empty where it is refused."""
        if is_echo(item.text, (turn.text for turn in (*self._question.before, *self._question.turns))):
            self.problems.append(f"{_quoted(item.text)} stands in the instructions, not in the conversation")
            return ""
        fact = self._placed(item.text, self._turn(item), self._date(item))
        turn = self._question.turns[fact.turn]
        actor, date = "" if fact.unattributed else turn.actor, turn.time.isoformat() if turn.dated else ""
        key = f"{text_hash(fact.text)}{actor}\n{date}"
        self._facts.setdefault(key, fact)
        return key

    def _is_a_tools(self, item: FactItem) -> bool:
        """Whether a fact names the result of a tool that is no source; it is refused, however often it comes."""
        number, turns = number_of(item.turn), self._question.turns
        if number is None or not 0 <= number < len(turns) or number in self._sources or turns[number].role != "tool":
            return False
        self.problems.append(
            f"the fact {_quoted(item.text)} is what a tool returned (turn {number}), which is no source"
        )
        return True

    def _turn(self, item: FactItem) -> int | None:
        if len(self._sources) == 1:
            return self._sources[0]
        number = number_of(item.turn)
        if number in self._sources or "turn" not in item.model_fields_set:
            return number
        role = self._question.about
        self.problems.append(
            f"the fact {_quoted(item.text)} names the turn {number}; the turns of the {role} are {self._sources}"
        )
        return None

    def _date(self, item: FactItem) -> str | None:
        try:
            day = period(item.date)
        except ValueError as error:
            self._notes.append(f"the date of {_quoted(item.text)} was left out: {error}")
            return None
        return None if day is None else day[0].date().isoformat()

    def _placed(self, text: str, place: int | None, date: str | None = None) -> Fact:
        """A fact of a turn, or of all turns."""
        turns = self._question.turns
        if place is not None:
            return Fact(text, place, turns[place].text[:_LONGEST_CONTEXT], date=date)
        said = [turns[each] for each in self._sources]
        context = "\n".join(turn.text for turn in said)[:_LONGEST_CONTEXT]
        several = len({turn.actor for turn in said}) > 1
        return Fact(text, self._sources[-1], context, date=date, unattributed=several)

    def _relate(self, reply: GraphReply) -> None:
        sent = [(item, key) for fact, key in zip(reply.facts, self._keys, strict=True) for item in _stated_in(fact)]
        sent += [(item, self._named(item)) for item in _stated_in(reply)]
        if self._facts and not sent and not any("relations" in part.model_fields_set for part in (reply, *reply.facts)):
            self.problems.append('the reply has no "relations"; where a fact states none, it is empty')
        for item, key in sent:
            self._state(item, key)

    def _named(self, item: Any) -> str:
        number = number_of(item.get("fact")) if isinstance(item, dict) else None
        if number is None or 0 <= number < len(self._keys):
            return "" if number is None else self._keys[number]
        self.problems.append(f"the relation {_quoted(item)} names the fact {number}, which is not there")
        return ""

    def _state(self, item: Any, key: str) -> None:
        try:
            triple, problems = triple_of(item, self._question.about)
        except ValueError as error:
            self.problems.append(f"the relation {_quoted(item)}: {error}")
            return
        self.problems += [f"in the relation {_quoted(item)} {problem}" for problem in problems]
        if entity_key(triple.source) == entity_key(triple.target):
            words = _quoted(_in_words(triple))
            self._notes.append(f"left out of the knowledge graph: {words}: it is one of a thing to itself")
        elif key != _REFUSED:
            identity = *_names(triple), triple.valid_from, triple.valid_to, triple.ended
            self._stated[key or self._own(triple)].setdefault(identity, triple)

    def _own(self, triple: Triple) -> str:
        """The fact in the words of a relation that belongs to no other."""
        text = _in_words(triple, self._question.about)
        hashed = text_hash(text)
        key = next((key for key in self._facts if key.startswith(hashed)), hashed)
        if key not in self._facts:
            self._facts[key] = self._placed(text, self._sources[0] if len(self._sources) == 1 else None)
        return key


def _stated_in(part: FactItem | GraphReply) -> list[Any]:
    """The relations in a part of a reply, as sent: those that it calls so, and what else is one (Mem0's "entities")."""
    others = part.model_extra or {}
    found = [item for member in (others, *others.values()) for item in relations_in(member)]
    return [*relations_in(part.relations), *filter(is_relation, found)]


def _completed(found: Extraction, first: Extraction) -> Extraction:
    """A repaired reply with what it forgot of the one before.

    Facts count as forgotten where there are fewer of them; where there are as many, they may have been put differently.
    """
    facts = list(found.facts)
    places = {text_hash(fact.text): place for place, fact in reversed([*enumerate(facts)])}
    stated = {_names(triple) for fact in found.facts for triple in fact.relations}
    fewer = len(found.facts) < len(first.facts)
    for before in first.facts:
        place = places.get(text_hash(before.text))
        more = tuple(triple for triple in before.relations if _names(triple) not in stated)
        if place is not None:
            facts[place] = replace(facts[place], relations=(*facts[place].relations, *more))
        elif fewer:
            facts.append(replace(before, relations=more))
    if tuple(facts) == found.facts:
        return found
    note = "the repaired reply left something out; it was kept from the first"
    return Extraction(tuple(facts), notes=(*found.notes, note))


def _names(triple: Triple) -> tuple[str, str, str]:
    return entity_key(triple.source), triple.relation, entity_key(triple.target)


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
    return quoted(item)[:_QUOTED]
