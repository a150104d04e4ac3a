"""Relations of what somebody likes, has and does in English statements: "Plays chess", "Has a dog named Rex"."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.rules.relations_life import places, workplace
from langmem_adapter.reasoning.rules.relations_told import HEADS, NAME, NAMED, Told, kin_relation, kind_of, names
from langmem_adapter.reasoning.rules.relations_triples import Link
from langmem_adapter.reasoning.rules.relations_values import bare, gerund, proper, thing, things, timed
from langmem_adapter.reasoning.rules.words import BASE, third
from langmem_adapter.text import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["READERS", "done_or_doing"]

# ── likes ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _goods(value: str, *, to: bool) -> tuple[str, ...]:
    """What is liked: things, or a doing, "to hike" as "hiking"."""
    plain = re.sub(r"^(?:eat|drink|eating|drinking) (?=\S)", "", value)
    if plain == value and to:
        first, _, rest = value.partition(" ")
        plain = f"{gerund(first.lower())} {rest}".rstrip() if gerund(first.lower()) else ""
    return things(plain) if plain.lower() not in {"eat", "drink"} else ()


def _like(told: Told) -> Iterator[Link]:
    if told.opens("liked|loved|enjoyed|hated") and not told.over:
        return
    relation = "likes" if told.said.positive or told.over else "dislikes"
    to = told.opens(r"(?:likes?|loves?|enjoys?|adores?|hates?|stand|bear) to")
    yield Link(relation, _goods(told.said.value, to=to))


def _prefer(told: Told) -> Iterator[Link]:
    to = told.opens("prefers? to")
    value = re.split(r" (?:over|rather than|instead of|more than|than)\b", told.said.value)[0]
    plain = value if to else re.split(r" to\b", value)[0]
    yield Link("prefers", () if told.partly else _goods(plain, to=to))


def _allergy(told: Told) -> Iterator[Link]:
    yield Link("allergic_to", things(told.said.value, simple=True))


# ── having and doing ────────────────────────────────────────────────────────────────────────────────────────────────────

_EVENTS: Final = frozenset(
    "appointment birthday breakfast call chance class cold cough crush date day days deadline difficulty dinner doubt "
    "dream event exam feeling fever flight flu fun goal habit hangover headache holiday homework idea interest "
    "interview issue issues lunch meeting meetings minute opinion option party plan plans point presentation problem "
    "problems project question questions reservation shift surgery task tendency test thought ticket tickets time "
    "trip trouble vacation visit wedding week weekend work".split()
)


_PARTICIPLES: Final = frozenset("felt found heard held kept known read said seen sent thought told".split())


def _has(told: Told) -> Iterator[Link]:
    value = re.split(r",? (?:who|that|which)\b", told.said.value)[0]
    if named := NAMED.fullmatch(value):
        yield from _has_named(bare(named["what"], counted=True), names(named["names"]))
    elif appended := _appended(value):
        yield from appended
    elif allergy := re.fullmatch(r"(?:an? )?(?:\w+ )?allergy to (?P<what>.+)|(?:an? )(?P<of>[\w-]+) allergy", value):
        yield Link("allergic_to", things(allergy["what"] or allergy["of"], simple=True))
    else:
        yield from _has_things(value, only_heads=told.opens("got"))


def _appended(value: str) -> list[Link]:
    """Those named right behind their word: "a son, Leo, and a daughter, Mia"."""
    found = [_APPENDED.fullmatch(piece) for piece in re.split(r",? and ", value)]
    return (
        [Link(kin_relation(one["kin"]), (one["name"],), kind_of(one["kin"])) for one in found if one]
        if all(found)
        else []
    )


_APPENDED: Final = re.compile(
    rf"(?:(?:an?|my|\w+) )+?(?P<kin>{'|'.join(sorted(map(re.escape, HEADS), key=len, reverse=True))}),? (?P<name>{NAME})"
)


def _has_named(what: str, names: tuple[str, ...]) -> Iterator[Link]:
    kin = what.rpartition(" ")[2].lower()
    if kin in HEADS:
        yield Link(kin_relation(kin), names, kind_of(kin))
    elif thing(what, simple=True):
        yield Link("has", names)
        yield from (Link("is", (what,), source=name) for name in names)


def _has_things(value: str, *, only_heads: bool = False) -> Iterator[Link]:
    for name in things(value, simple=True):
        plain = bare(name, counted=True).removeprefix("new ")
        head = plain.rpartition(" ")[2].lower()
        noun = plain.partition(" ")[0].lower() not in _PARTICIPLES and not head.endswith("ing")
        lasting = noun and head not in _EVENTS and not any(map(str.isdigit, plain))
        if lasting and len(plain.split()) <= 3 and (head in HEADS or not only_heads):  # noqa: PLR2004 - nouns, no clauses
            yield Link("has", (plain,), kind_of(head))


_DIRECT: Final = frozenset(
    "admire avoid bake brew build celebrate coach code collect cook crave design develop direct do draw drink drive "
    "eat employ fear grow hunt knit know lead learn make manage need own paint play practice practise program raise "
    "read rent ride run sail sew sing smoke speak study support take teach train use visit walk want watch wear write".split()
)
_GOING_ON: Final = frozenset("build learn study teach write".split())
_JOINED: Final = frozenset(
    "believe:in care:for commute:to listen:to live:with major:in play:for play:in sing:in specialise:in specialize:in "
    "struggle:with study:at subscribe:to suffer:from teach:at train:for volunteer:at volunteer:for work:in work:on".split()
)
_BASE_OF: Final = {
    words(form)[0]: verb
    for verb in sorted(BASE | {"know", "graduate", "marry", "adopt", "buy"}, reverse=True)
    for form in (verb, third(verb))
}
_MANNER: Final = frozenset(
    "abroad alone apart away badly barefoot black cold down early fast hard home hot late live loudly off online out "
    "outdoors outside raw slowly straight together up well".split()
)
_HATED: Final = frozenset("hate dislike detest loathe".split())
_BOUND: Final = re.compile(r"\b(?:without|except|but|instead|unless|than|not|only|or|never|rather)\b", re.IGNORECASE)
_JOINT: Final = re.compile(
    r" (?:with|at|in|on|for|from|to|by|during|before|after|around|near|as|about|against|through|into|over|using|together|while"
    r"|because|every|when|where)\b"
)


def done_or_doing(told: Told) -> Iterator[Link]:
    """What a verb says that is no attribute of its own: what somebody plays, studies, has married."""
    _, stem, *tense = told.said.attribute.split(":")
    base = _BASE_OF.get(stem, "")
    if tense == ["done"]:
        yield from _done(base, told)
    elif base and (not tense or base in _GOING_ON) and not _BOUND.search(told.said.value):
        yield from _present(base, told)


def _present(base: str, told: Told) -> Iterator[Link]:
    value = told.said.value
    joint = re.match(r"(?P<joint>in|on|at|for|to|from|with) (?P<what>.+)", value)
    if base in _HATED:
        yield Link("dislikes", things(value))
    elif joint:
        if f"{base}:{joint['joint']}" in _JOINED:
            yield _joined(f"{third(base)}_{joint['joint']}", joint["what"], told)
    elif base in _DIRECT:
        yield from _direct(base, value, told)


def _joined(relation: str, what: str, told: Told) -> Link:
    name = _object(what, told)
    head = name.rpartition(" ")[2].lower()
    proper_only = relation in {"studies_at", "teaches_at", "volunteers_at"}
    kind = "organization" if proper_only else kind_of(head)
    kept = workplace(name) if proper_only else name
    return Link(relation, () if head in _EVENTS - {"project"} else things(kept, simple=not proper(kept)), kind)


def _direct(base: str, value: str, told: Told) -> Iterator[Link]:
    plain = re.sub(r"^(?:fluent|some|good|basic|a little|a bit of|conversational|both) ", "", _object(value, told))
    targets = things(plain, simple=not proper(plain)) if plain.rpartition(" ")[2].lower() not in _MANNER else ()
    doing = any(name.split()[0].endswith("ing") for name in targets)
    if not any(name[0].isdigit() for name in targets) and (
        not doing or base in _GOING_ON | {"practice", "practise", "do"}
    ):
        yield Link(third(base), targets, "language" if base == "speak" else "")
    where = re.search(r" at (?P<where>.+)", value) if base in {"study", "teach"} and told.said.positive else None
    if where:
        yield Link(f"{third(base)}_at", (workplace(_object(where["where"], told)),), "organization")


def _object(value: str, told: Told) -> str:
    """The object alone: what follows says how, where and with whom; of a denial that would be too much."""
    first = _JOINT.split(value, maxsplit=1)[0]
    if first == value:
        return value
    again = timed(f"- {first}")
    return again[0][2:] if told.said.positive and again else ""


def _done(base: str, told: Told) -> Iterator[Link]:
    value = told.said.value
    if not told.said.positive:
        return
    if base == "live" and value.startswith("in "):
        yield Link("lives_in", places(_JOINT.split(value[3:])[0]), "place", ended=True)
    elif base == "work" and (found := re.match(r"(?:at|for) (?P<where>[A-Z].*)", value)):
        yield Link("works_at", (proper(_JOINT.split(found["where"])[0]),), "organization", ended=True)
    elif base == "graduate" and value.startswith("from "):
        yield Link("graduated_from", (workplace(_JOINT.split(value[5:])[0]),), "organization", began=True)
    elif base == "visit":
        yield Link("visited", places(_JOINT.split(value)[0]), "place", began=True)
    elif base == "marry":
        yield Link("married_to", names(_JOINT.split(value)[0]), "person", began=True)
    elif base in {"adopt", "buy"} and (named := NAMED.fullmatch(value)):
        found_links = _has_named(bare(named["what"], counted=True), names(named["names"]))
        yield from (replace(link, began=not link.source) for link in found_links)
    elif base in {"adopt", "buy"}:
        yield from (replace(link, began=True) for link in _has_things(value, only_heads=True))


def _can(told: Told) -> Iterator[Link]:
    found = re.match(r"(?P<verb>speak|play) (?P<what>.+)", told.said.value)
    if found and told.said.positive:
        yield from _direct(found["verb"], found["what"], told)


READERS: Final[dict[str, Callable[[Told], Iterator[Link]]]] = {
    "like": _like, "prefer": _prefer, "allergy": _allergy, "can": _can, "has": _has,
}  # fmt: skip
"""By the attributes of `english_statement`."""
