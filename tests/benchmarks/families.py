"""Invented families: facts about strangers, and questions whose answer is two relations away from what they name.

"Where does my sister's husband work?" shares no word with "Greta Fischer works at Siemens" but the one that 150 others share.
"""

from __future__ import annotations

import itertools
import random
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from langmem_adapter.records.graph import Triple
from langmem_adapter.records.results import Decision
from langmem_adapter.storage.write import Write

if TYPE_CHECKING:
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.scope import Scope

__all__ = ["Families", "families", "remember"]

_FIRST: Final = (
    "Anna Ben Carla Dario Elif Farid Greta Hugo Ines Jonas Kira Leo Mara Nils Olga Pavel Quinn Rosa Sami Tara Uwe Vera "
    "Willem Xenia Yara Zeno"
).split()
_LAST: Final = "Adler Brandt Costa Dubois Ekman Fischer Garcia Hansen Ivanov Jensen Keller Lopez".split()
_FIRMS: Final = "Siemens Nokia Airbus Ikea Renault Philips Ericsson Lego Bosch Nestle Volvo Heineken".split()
_CITIES: Final = "Oslo Rome Kyoto Lyon Lima Porto Ghent Turin Malmo Graz Bern Cork".split()
_SPORTS: Final = "chess tennis pottery sailing climbing archery fencing judo rowing golf".split()
_KIN: Final = "sister brother cousin aunt uncle boss neighbour doctor".split()
_SAID: Final = ((_FIRMS, "works at", "works_at"), (_CITIES, "lives in", "lives_in"), (_SPORTS, "plays", "plays"))


@dataclass(frozen=True, slots=True)
class Families:
    """What is known, and what is asked.

    Attributes:
        facts: Each with the relation that it says.
        far: Questions two relations away from their answers, each with the fact that answers it.
        near: Questions about those whom they name, likewise.
    """

    facts: list[tuple[str, Triple]]
    far: list[tuple[str, str]]
    near: list[tuple[str, str]]


def families(*, strangers: int = 150, seed: int = 7) -> Families:
    """Eight families, and others who work, live and play like them."""
    dice = random.Random(seed)
    people = [f"{first} {last}" for first, last in itertools.product(_FIRST, _LAST)]
    dice.shuffle(people)
    facts: list[tuple[str, Triple]] = []
    far: list[tuple[str, str]] = []
    near: list[tuple[str, str]] = []
    for kin in _KIN:
        one, other, friend = people.pop(), people.pop(), people.pop()
        facts += [
            (f"Has a {kin} named {one}", Triple("user", f"has_{kin}", one)),
            (f"{one} is married to {other}", Triple(one, "married_to", other)),
            (f"{other} has a friend named {friend}", Triple(other, "friend_of", friend)),
        ]
        told = [_tells(dice, other, *kind) for kind in _SAID]
        facts += told
        far += [
            (f"Where does my {kin}'s husband work?", told[0][0]),
            (f"Which city does {one}'s spouse live in?", told[1][0]),
            (f"What sport does the husband of my {kin} play?", told[2][0]),
            (f"Who is a friend of {one}'s husband?", f"{other} has a friend named {friend}"),
        ]
    for number in range(strangers):
        name = people.pop()
        facts.append(_tells(dice, name, *_SAID[number % 3]))
        near.append((f"What is known about {name}?", facts[-1][0]))
    dice.shuffle(facts)
    return Families(facts, far, near)


def _tells(dice: random.Random, name: str, values: list[str], verb: str, relation: str) -> tuple[str, Triple]:
    value = dice.choice(values)
    return f"{name} {verb} {value}", Triple(name, relation, value)


def remember(memory: Memory, scope: Scope, told: Families) -> None:
    """Write all of it, as the pipeline would."""
    texts = [text for text, _ in told.facts]
    vectors = dict(zip(texts, memory.parts.embedder.vectors(texts), strict=True))
    now = datetime.now(UTC)
    decisions = (Decision("ADD", str(uuid.uuid4()), text, time=now, relations=(said,)) for text, said in told.facts)
    memory.parts.ledger.apply(Write(tuple(decisions), scope=scope, within=scope, vectors=vectors))
