"""Relations of a person's life in English statements: name, home, work, origin, age, status, and what is said of "my …".

A reader for each attribute yields nothing where the value is not plainly what the relation needs: a place with a proper name,
a workplace, a day.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.rules.relations_told import NAME, Told, kin_relation, kind_of, names
from langmem_adapter.reasoning.rules.relations_triples import Link
from langmem_adapter.reasoning.rules.relations_values import is_date, proper, thing, things
from langmem_adapter.reasoning.rules.words import ADJECTIVES, DEMONYMS, JOBS, PLURAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["READERS", "own", "places", "workplace"]


def _name(told: Told) -> Iterator[Link]:
    subject, value = told.subject, told.said.value.strip(" ,'")
    listed = names(value)
    if subject.kin and not subject.named:
        several = subject.kin in PLURAL or subject.kin.endswith("s")
        yield Link(
            kin_relation(subject.kin),
            listed if several else listed[:1] * (len(listed) == 1),
            kind_of(subject.kin),
            source=subject.owner,
        )
    elif not subject.named and (len(listed) == 1 or re.fullmatch(r"[^\W\d_]+", value)):
        yield Link("named", (value,))


def _kin_is(told: Told) -> Iterator[Link]:
    if told.subject.kin and not told.subject.named and names(told.said.value) and told.said.positive:
        yield from _name(told)


# ── home, work, origin ──────────────────────────────────────────────────────────────────────────────────────────────────

_NO_PLACE: Final = frozenset(
    "abroad apartment bed dorms fear flat here hiding hope house luxury nature peace poverty rent silence sin squalor "
    "style suburbia suburbs there town love work isolation solitude".split()
)
_LOWER_PLACE: Final = re.compile(
    r"[a-z]{3,}|(?:new|san|los|las|hong|sao|santa|saint|cape|tel|kuala|rio de|buenos|costa|sri|saudi|south|north) [a-z]{3,}"
)
_WORKPLACES: Final = frozenset(
    "agency airport bakery bank bar bookstore brewery café cafe charity church clinic college company consultancy "
    "cooperative court embassy factory farm firm garage gym hospital hotel kindergarten lab laboratory library museum "
    "newspaper ngo nonprofit nursery pharmacy pub restaurant school shop shipyard startup start-up store studio "
    "supermarket theater theatre university warehouse winery zoo".split()
)
_AFTER_PLACE: Final = ("with", "where", "as", "for", "but", "near", "because", "while", "and (?=[a-z])", "by", "to")
_AFTER_WORK: Final = (
    "as", "in", "on", "with", "for", "from", "where", "doing", "by", "to", "near", "and (?=[a-z])", "but", "because", "part",
    "remotely", "which", "who", "every",
)  # fmt: skip


def places(value: str) -> tuple[str, ...]:
    """The places that a value names, none where it names anything else besides."""
    listed = things(value) if " and " in value else (proper(value),)
    return listed if all(proper(place) for place in listed) else ()


def _home(told: Told) -> Iterator[Link]:
    value = told.head(*_AFTER_PLACE)
    left = re.search(r"\b[Mm]oved from (?P<place>[A-Z].+?) to [A-Z]", told.text)
    if left and (old := proper(left["place"])):
        yield Link("lives_in", (old,), "place", ended=True)
    if not re.search(rf"\b(?:in|to) {re.escape(value)}", told.text):
        return
    lower = _LOWER_PLACE.fullmatch(value) and value not in _NO_PLACE and told.opens(f"lives? in {value}")
    yield Link("lives_in", (value,) if lower else places(value), "place", began=told.opens("moved"))


def workplace(value: str) -> str:
    """The name of a company, or the kind of a workplace (a hospital), else empty."""
    name = proper(value)
    if name and any(letter.isupper() for letter in name):
        return name if " and " not in name or things(name) == (name,) else ""
    plain = thing(value, simple=True)
    return plain if plain and plain.split()[-1] in _WORKPLACES and len(plain.split()) <= 3 else ""  # noqa: PLR2004 - "old people's home"


def _employer(told: Told) -> Iterator[Link]:
    plainly = told.opens("job|working|work|works|employed|fired|laid|resigned|employer|company|started at")
    if plainly and not told.opens("started (?!at|working|work|a new job|a job)"):
        began = told.opens("joined|started")
        yield Link("works_at", (workplace(told.head(*_AFTER_WORK)),), "organization", began=began)
    role = re.search(r"\bas (?P<job>(?:an?|the) .+?)(?= (?:at|for|in|with|on|from|and)\b|$)", told.text)
    if role and told.said.positive:
        yield Link("works_as", (thing(role["job"], simple=True),), "occupation")


_AFTER_JOB: Final = (
    "at", "for", "in", "with", "who", "from", "based", "by", "on", "to", "working", "speciali[sz]ing", "which", "but", "and",
    "because",
)  # fmt: skip
_NO_JOB: Final = frozenset(
    "amateur avid bad better big brilliant careful decent excellent fast good great horrible hobby huge keen lousy "
    "natural nervous passionate poor safe slow terrible".split()
)
_OF_A_FIELD: Final = re.compile(
    r"(?:[\w-]+ ){0,3}(?:director|professor|officer|manager|lecturer|teacher|secretary) of [\w &]+"
)


def _job(told: Told) -> Iterator[Link]:
    value = told.said.value
    yield from _job_of(thing(told.head(*_AFTER_JOB)), told)
    place = re.search(r" (?:at|for|with) (?P<where>(?:(?! (?:at|in|on|as)\b).)+)", value)
    if place and told.said.positive:
        relation = "studies_at" if " student" in f" {value}" else "works_at"
        where = workplace(place["where"])
        yield Link(relation, (where,) if place.group().startswith(" at") or proper(where) else (), "organization")


def _job_of(name: str, told: Told) -> Iterator[Link]:
    first, _, rest = name.partition(" ")
    last = name.rpartition(" ")[2].lower()
    if not (last in JOBS or _OF_A_FIELD.fullmatch(name) or told.opens("works? as|working as")) or not name:
        return
    if last == "student" or first.lower() in _NO_JOB:
        yield Link("is", (name,))
    elif first.lower() in {"retired", "former", "ex"} and rest:
        yield Link("works_as", (rest,), "occupation", ended=True)
    elif first.lower() not in {"aspiring", "future", "wannabe", "would-be"}:
        yield Link("works_as", (name,), "occupation", began=told.opens("became|become"))


def _was(told: Told) -> Iterator[Link]:
    name = thing(told.said.value, simple=True) if re.match(r"an? ", told.said.value) else ""
    if name.rpartition(" ")[2].lower() in JOBS - {"student"} and name.partition(" ")[0].lower() not in _NO_JOB:
        yield Link("works_as", (name,), "occupation", ended=True)


def _origin(told: Told) -> Iterator[Link]:
    yield Link("comes_from", places(told.head(*_AFTER_PLACE)), "place")


def _born_on(told: Told) -> Iterator[Link]:
    place, date = "", told.said.value
    if found := re.fullmatch(r"(?P<place>[A-Z].*?),? (?:in|on) (?P<date>.+)", date):
        place, date = found["place"], found["date"]
        if is_date(place) and not is_date(date):
            place, date = date, place
    yield Link("born_on", (date.removeprefix("the "),) if is_date(date) else (), "date")
    yield Link("born_in", (proper(place),), "place")


def _born_in(told: Told) -> Iterator[Link]:
    yield Link("born_in", (proper(told.head(*_AFTER_PLACE)),), "place")


# ── who one is ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _age(told: Told) -> Iterator[Link]:
    yield Link("has_age", (told.said.value,) if told.said.value.isdigit() else ())


_STATUS: Final = re.compile(
    r"(?P<status>married|single|divorced|engaged|widowed|separated|in a relationship)"
    rf"(?: (?P<joint>to|with|from) (?:my )?(?P<who>{NAME}))?(?: with .+)?"
)
_UNIONS: Final = {
    ("married", "to"): "married_to",
    ("engaged", "to"): "engaged_to",
    ("in a relationship", "with"): "partner_of",
}


def _status(told: Told) -> Iterator[Link]:
    found = _STATUS.fullmatch(told.said.value)
    began = told.opens("got|became")
    if found and found["who"]:
        union = _UNIONS.get((found["status"], found["joint"]), "")
        yield Link(union, (found["who"],) if union else (), "person", began=began)
    elif found:
        yield Link("has_status", (found["status"],), began=began)


def _diet(told: Told) -> Iterator[Link]:
    value = told.said.value
    yield Link("follows_diet", (value,) if len(value.split()) == 1 else (), began=told.opens("became|went|turned"))


_COMPLEMENT: Final = re.compile(
    r"(?P<adjective>afraid|scared|terrified|interested|addicted|good|bad|responsible|intolerant|fluent) "
    r"(?P<joint>of|in|to|at|for) (?P<what>.+)"
)


def _is(told: Told) -> Iterator[Link]:
    value = re.sub(r"^(?:very|really|quite|pretty|also|still|so) ", "", told.said.value)
    if found := _COMPLEMENT.fullmatch(value):
        relation = "speaks" if found["adjective"] == "fluent" else f"{found['adjective']}_{found['joint']}"
        yield Link(relation, things(found["what"]), "language" if relation == "speaks" else "")
    elif value.lower() in (DEMONYMS | ADJECTIVES) - _INCOMPLETE:
        yield Link("is", (value,))
    elif re.match(r"an? (?!bit|kind|lot|little|few|fan|big fan|huge fan)", value):
        yield Link("is", (thing(value, simple=True),))
    else:
        yield from _kin_is(told)


_INCOMPLETE: Final = frozenset(
    "able addicted afraid allergic bad based born committed expecting fluent fond gluten good in into interested "
    "intolerant keen lactose passionate responsible scared straight terrified".split()
)
_PLAIN: Final = frozenset(
    "nationality religion hometown language city country major school university nickname surname".split()
)
_OPAQUE: Final = frozenset(
    "address email e-mail handle height number phone pronouns salary size timezone username weight zip budget".split()
)
_OWNED: Final = re.compile(r"(?:.*'s? )?(?P<noun>[A-Za-z -]+?) (?:is|are) (?P<value>.+)")
_PASSING: Final = re.compile(
    r"(?:not|too|very|so|really|great|good|bad|nice|here|there|gone|back|closed|open|new|old|far|near|away|over|full|busy|wrong"
    r"|right|hard|easy|expensive|cheap|amazing|awesome|boring|fun|coming|broken|dead|sick|sold|out|up|down|on|off|in|at)\b",
    re.IGNORECASE,
)


def own(told: Told) -> Iterator[Link]:
    """What is said of "my …", where that has one value at a time."""
    found = _OWNED.fullmatch(told.text)
    if found is None or not told.said.positive or _PASSING.match(found["value"]):
        return
    noun = (
        re.sub(r"^(?:my|our) ", "", found["noun"].lower()).replace("favourite", "favorite").replace("colour", "color")
    )
    last, value = noun.rpartition(" ")[2], found["value"]
    if re.fullmatch(r"favorite(?: (?!thing|part|way|about|to|of|in|on|at)[\w-]+){1,3}", noun):
        yield Link("_".join(re.findall(r"\w+", f"has {noun}")), things(value), single=True)
    elif last in {"boss", "manager"}:
        yield Link(f"has_{last}", names(value), "person")
    elif last in {"company", "employer"}:
        yield Link("works_at", (workplace(value),), "organization")
    elif last in {"occupation", "profession"}:
        yield from _job_of(thing(value), told)
    elif last == "language":
        yield Link("speaks", tuple(name for name in things(value) if proper(name)), "language")
    elif noun in _PLAIN and (name := proper(value)):
        yield Link(f"has_{noun}", (name,), single=True)
    elif noun in _OPAQUE and re.search(r"[\d@]", value) and len(value.split()) <= 6:  # noqa: PLR2004
        yield Link(f"has_{noun.replace('-', '')}", (value,), single=True)


READERS: Final[dict[str, Callable[[Told], Iterator[Link]]]] = {
    "name": _name, "home": _home, "employer": _employer, "job": _job, "age": _age, "origin": _origin, "birthday": _born_on,
    "birthplace": _born_in, "status": _status, "diet": _diet, "is": _is, "was": _was,
}  # fmt: skip
"""By the attributes of `english_statement`."""
