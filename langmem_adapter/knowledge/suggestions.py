"""Suggestions which entities are the same.

Only letters are compared. A name with a digit or a symbol in it (an id, a version, a date, C++) means itself alone: there a
single sign makes another thing. Nor are two names alike because letters are: Jesica and Jessica are two people.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from itertools import combinations
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from langmem_adapter.arguments import bounded
from langmem_adapter.forks import bounded_cache
from langmem_adapter.names import is_single, is_symmetric, owner_name, owner_role
from langmem_adapter.records.graph import MergeSuggestion
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.graph.hints import merge_candidates
from langmem_adapter.text import is_cjk
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from langmem_adapter.embedding.embedder import Embedder, UnitVectors
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.graph.hints import MergeCandidates, NamedEntity
    from langmem_adapter.storage.graph.rows import Span

SPELLING: Final = "the same name in another spelling"
LEGAL_FORM: Final = "the same name with the legal form of a company"
INITIALS: Final = "the same name with initials"

_MARKS: Final = frozenset(" .,'’‘´`\"“”-‐‑–—·・&()_!?:;，。、！？（）《》")
"""Signs that say nothing of whom a name means; with any other a name is exact."""
_APOSTROPHES: Final = re.compile("['’‘´`]")
_WITH: Final = re.compile(r"^LATIN SMALL LETTER (\w) WITH ")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_INITIAL: Final = re.compile(r"\b[^\W\d_]\.")
_FORMS: Final = {
    **dict.fromkeys(("inc", "incorporated"), "inc"),
    **dict.fromkeys(("corp", "corporation"), "corp"),
    **dict.fromkeys(("ltd", "limited"), "ltd"),
    **{form: form for form in "llc llp plc gmbh ag kgaa sarl srl spa".split()},
    **{form.replace(".", " "): form.replace(".", "") for form in ("s.a", "n.v", "b.v", "s.p.a", "s.r.l")},
}
"""Legal forms at the end of a name; one that is written in two ways has one value."""
_COMPANY: Final = {"co": "co", "company": "co"}
"""Those that are words of the language as well: an insurance company is no insurance, so both names must have one."""
_CJK_FORMS: Final = ("股份有限公司", "有限责任公司", "有限公司", "株式会社", "주식회사")
_BUSINESS: Final = frozenset(
    "company organization organisation business corporation firm employer enterprise startup 公司 企业 组织 机构".split()
)
_PERSON: Final = frozenset({"person", "人", "人物"})
_TITLES: Final = frozenset({"mr", "mrs", "ms", "miss", "dr", "prof", "st"})


class Written(NamedTuple):
    """A name as it is compared, without case, accents and punctuation."""

    words: tuple[str, ...]
    split: tuple[str, ...]  # where inner capitals begin a word: `GitHub` as `git hub`
    stem: tuple[str, ...]  # without a legal form
    form: str  # empty where it has none
    plain: bool  # the form is a word of the language as well
    dotted: bool  # it has an initial with a dot

    @property
    def spellings(self) -> set[tuple[str, ...]]:
        """The ways to read it, of which one is enough to be the same; Chinese letters may stand apart or not."""
        whole = "".join(self.words)
        return {self.words, self.split, (whole,) if is_cjk(whole) else self.words}

    @property
    def ends(self) -> Iterator[tuple[str, str]]:
        """Keys by which names with the same initials meet."""
        if len(self.words) > 1:
            first, last = self.words[0], self.words[-1]
            yield f"{first[0]}.", last
            yield first, f"{last[0]}."


@bounded_cache(4096)
def written(name: str) -> Written | None:
    """How a name is compared; `None` where it means itself alone.

    Example:
        >>> written("Nestlé S.A.").stem, written("GitHub").split, written("GPT-4")
        (('nestle',), ('git', 'hub'), None)
    """
    text = unicodedata.normalize("NFKC", name).replace("_", " ")
    if not all(sign in _MARKS or unicodedata.category(sign)[0] in "LMZ" for sign in text):
        return None
    words = _words(text)
    if not words:
        return None
    stem, form, plain = _formed(words)
    return Written(words, _words(_CAMEL.sub(" ", text)), stem, form, plain, bool(_INITIAL.search(text)))


def _words(text: str) -> tuple[str, ...]:
    folded = _APOSTROPHES.sub("", text).casefold()
    bare = folded if folded.isascii() else _unaccented("".join(map(_bare, folded)))
    return tuple(re.findall(r"\w+", bare))


def _unaccented(text: str) -> str:
    """Greek goes without its accents, too. Other scripts keep their marks, which make other letters (が, й)."""
    kept, base = "", " "
    for sign in unicodedata.normalize("NFD", text):
        if not unicodedata.combining(sign):
            base = sign
        elif unicodedata.name(base, "").startswith(("GREEK", "LATIN")):
            continue
        kept += sign
    return unicodedata.normalize("NFC", kept)


def _bare(letter: str) -> str:
    """A Latin letter without its accent or stroke."""
    found = _WITH.match(unicodedata.name(letter, ""))
    return letter if found is None else found[1].casefold()


def _formed(words: tuple[str, ...]) -> tuple[tuple[str, ...], str, bool]:
    """A name's stem, its legal form, and whether that is a common word."""
    for size in (3, 2, 1):
        form = _FORMS.get(" ".join(words[-size:]))
        if form is not None and len(words) > size and len("".join(words[:-size])) > 1:
            return words[:-size], form, False
    if words[-1] in _COMPANY and len(words) > 1:
        return words[:-1], _COMPANY[words[-1]], True
    for form in _CJK_FORMS:
        whole = "".join(words)
        stem = whole.removesuffix(form).removeprefix(form)
        if len(stem) > 1 and stem != whole:
            return (stem,), form, False
    return words, "", False


def is_business(kind: str) -> bool:
    """Whether something of this type may have a legal form; also where nobody said what it is."""
    return not kind or kind.casefold() in _BUSINESS


def is_person(kind: str) -> bool:
    """Whether this type says that it is a person."""
    return kind.casefold() in _PERSON


def are_initials(one: Written, other: Written) -> bool:
    """Whether one name is the other with initials for some of its words, or without those of its middle."""
    if 1 in {len(one.words), len(other.words)} or one.words == other.words:
        return False
    (first, *inner, last), (other_first, *other_inner, other_last) = one.words, other.words
    ends = ((first, other_first), (last, other_last))
    if not all(_fits(*end) for end in ends) or not any(a == b and len(a) > 1 for a, b in ends):
        return False
    if len(inner) == len(other_inner):
        return all(_fits(*pair) for pair in zip(inner, other_inner, strict=True))
    shortened = any(a != b for a, b in ends)
    return not (inner and other_inner) and (shortened or all(map(_is_initial, (*inner, *other_inner))))


def _fits(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (_is_initial(short) and long.startswith(short) and long not in _TITLES)


def _is_initial(word: str) -> bool:
    return len(word) == 1 and not is_cjk(word)


_SCORES: Final = {SPELLING: 0.95, LEGAL_FORM: 0.9, INITIALS: 0.85}
CROWD: Final = 20  # that meet under one key; where more do, it tells nothing of any of them
_NEAR: Final = 0.9  # cosine of two names
_MARGIN: Final = 0.05  # by which it is nearer than the next
_WEIGHT: Final = 0.8  # of a cosine as a score: below all that spelling tells
_SHORTEST: Final = 3  # letters of a word that two names have in common


class Suggesting:
    """The part of `GraphMemory` that looks for entities that may be one."""

    _database: Database
    _embedder: Embedder | None

    @planned
    def suggest_merges(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None, k: int = 20
    ) -> Plan[list[MergeSuggestion]]:
        """Entities that may be one: the same name in another spelling, with initials, with a legal form, or near in meaning.

        Nothing is merged. Names with digits or symbols (ids, versions, C++) are never suggested, nor are two of different
        types, two that a relation connects, two of which it is known that they live or work in different places (or the like)
        at the same time, two that were merged and split again, or a name that could mean several others. Who is near in
        meaning is asked of the embeddings, where they know meanings, and only of names that share a rare word or a relation
        to the same third.

        Args:
            user_id: Whose graph; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.
            k: At most so many, 1 to 10,000.

        Returns:
            Suggestions, the surest first. Of names with initials the longer one would stay, else the one with more mentions.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument cannot be used.

        Example:
            >>> from langmem_adapter import Memory
            >>> memory = Memory(":memory:")
            >>> for who, what, whom in [("Anna", "works at", "Google"), ("Ben", "likes", "Google, Inc.")]:
            ...     added = memory.graph.add(who, what, whom, user_id="alice")
            >>> [(each.source, each.into, each.why) for each in memory.graph.suggest_merges(user_id="alice")]
            [('Google, Inc.', 'Google', 'the same name with the legal form of a company')]
            >>> memory.close()
        """
        scope, most = Scope(user_id, agent_id, run_id), bounded(k)

        def find() -> _Matches:
            with self._database.read() as connection:
                return _Matches(merge_candidates(connection, scope), scope)

        return Plan(find).and_then(lambda found: self._completed(found, most))

    asuggest_merges = awaited(suggest_merges)

    def _completed(self, found: _Matches, most: int) -> Plan[list[MergeSuggestion]]:
        spelt, embedder = found.spelt(), self._embedder
        # Hash embeddings see which letters names share, and that was looked at.
        if embedder is None or embedder.asks_nobody or len(spelt) >= most:
            return Plan.known(_best(spelt, most))
        near = found.near_pairs(spelt)
        names = list(dict.fromkeys(named.name for pair in near for named in pair))
        vectors = Plan(lambda: embedder.vectors(names), lambda: embedder.avectors(names))
        return vectors.then(lambda made: _best([*spelt, *_nearest(near, names, made)], most))


class _Match(NamedTuple):
    """Two that may be one."""

    one: NamedEntity
    other: NamedEntity
    score: float
    why: str

    @property
    def pks(self) -> frozenset[int]:
        return frozenset((self.one.pk, self.other.pk))


class _Matches:
    """Who may be one: pairs come from keys that few have, so their number grows as that of the names does."""

    def __init__(self, found: MergeCandidates, scope: Scope) -> None:
        self._known = found
        meant = (
            each for each in found.named if owner_role(each.name) is None and owner_name(each.name, scope) == each.name
        )
        read = ((named, [known for name in named.names if (known := written(name))]) for named in meant)
        self._read = [(named, readings) for named, readings in read if written(named.name)]
        self._single: defaultdict[int, dict[str, list[tuple[int, Span]]]] = defaultdict(lambda: defaultdict(list))
        for edge in found.edges:
            if is_single(edge.relation):
                self._single[edge.source][edge.relation].append((edge.target, edge.span))
                if is_symmetric(edge.relation):
                    self._single[edge.target][edge.relation].append((edge.source, edge.span))

    def spelt(self) -> list[_Match]:
        """Those whose names tell it."""
        found: dict[frozenset[int], _Match] = {}
        for why, keys, holds in (
            (SPELLING, attrgetter("spellings"), lambda *_: True),
            (LEGAL_FORM, lambda name: (name.stem,), _differ_in_form),
            (INITIALS, attrgetter("ends"), _share_initials),
        ):
            for match in self._meeting(why, keys, holds):
                found.setdefault(match.pks, match)
        return _unambiguous([match for match in found.values() if self._may_be_one(match.one, match.other)])

    def near_pairs(self, spelt: Iterable[_Match]) -> list[tuple[NamedEntity, NamedEntity]]:
        """Those of which meanings might tell it: they share a rare word, or a relation to the same third."""
        told = {match.pks for match in spelt}
        shared: defaultdict[Hashable, dict[int, NamedEntity]] = defaultdict(dict)
        of_pk = {named.pk: named for named, _ in self._read}
        for named, readings in self._read:
            for word in {word for each in readings for word in each.stem if len(word) >= _SHORTEST}:
                shared[word][named.pk] = named
        for edge in self._known.edges:
            for here, third in ((edge.source, ("from", edge.target)), (edge.target, ("to", edge.source))):
                if here in of_pk:
                    shared[edge.relation, *third][here] = of_pk[here]
        blocks = [list(block.values()) for block in shared.values() if len(block) <= CROWD]
        pairs = {frozenset((a.pk, b.pk)): (a, b) for block in blocks for a, b in combinations(block, 2)}
        return [pair for pks, pair in pairs.items() if pks not in told and self._may_be_one(*pair)]

    def _meeting(
        self,
        why: str,
        keys: Callable[[Written], Iterable[Hashable]],
        holds: Callable[[NamedEntity, Written, NamedEntity, Written], bool],
    ) -> Iterator[_Match]:
        blocks: defaultdict[Hashable, dict[tuple[int, Written], NamedEntity]] = defaultdict(dict)
        for named, readings in self._read:
            for each in readings:
                for key in keys(each):
                    blocks[key][named.pk, each] = named
        for block in blocks.values():
            if 1 < len(block) <= CROWD:
                for (key, one), (other_key, other) in combinations(block.items(), 2):
                    if one.pk != other.pk and _fit(one, other) and holds(one, key[1], other, other_key[1]):
                        yield _Match(*_directed(one, other, why), _SCORES[why], why)

    def _may_be_one(self, one: NamedEntity, other: NamedEntity) -> bool:
        """Whether nothing is known that speaks against it."""
        together = _fit(one, other) and frozenset((one.pk, other.pk)) not in self._known.apart
        return together and not self._differ(one.pk, other.pk)

    def _differ(self, one: int, other: int) -> bool:
        """Whether they have what one has but once, each its own and at one time."""
        return any(
            target != known and span.overlaps(held)
            for relation in self._single[one].keys() & self._single[other].keys()
            for target, span in self._single[one][relation]
            for known, held in self._single[other][relation]
        )


# ── what names have in common ───────────────────────────────────────────────────────────────────────────────────────────


def _fit(one: NamedEntity, other: NamedEntity) -> bool:
    """Whether both may be of one type."""
    kinds = one.type.casefold(), other.type.casefold()
    return "" in kinds or kinds[0] == kinds[1] or all(map(is_business, kinds))


def _differ_in_form(one: NamedEntity, name: Written, other: NamedEntity, its: Written) -> bool:
    if not (is_business(one.type) and is_business(other.type)):
        return False
    if name.form and its.form:
        return name.form == its.form
    return bool(name.form or its.form) and not (name.plain or its.plain)


def _share_initials(one: NamedEntity, name: Written, other: NamedEntity, its: Written) -> bool:
    """A dot or a type tells that the letter is an initial: M Street is no Main Street."""
    told = name.dotted or its.dotted or is_person(one.type) or is_person(other.type)
    return told and are_initials(name, its)


def _directed(one: NamedEntity, other: NamedEntity, why: str) -> tuple[NamedEntity, NamedEntity]:
    """First the one that goes."""
    long = (len(one.name), len(other.name)) if why == INITIALS else (0, 0)
    goes = (long[0], one.mentions, -one.pk) < (long[1], other.mentions, -other.pk)
    return (one, other) if goes else (other, one)


def _unambiguous(matches: Sequence[_Match]) -> list[_Match]:
    """Without those of a name that could as well mean somebody else, who is not the same as this one."""
    beside: defaultdict[int, set[int]] = defaultdict(set)
    for match in matches:
        beside[match.one.pk].add(match.other.pk)
        beside[match.other.pk].add(match.one.pk)
    return [m for m in matches if beside[m.one.pk] - {m.other.pk} == beside[m.other.pk] - {m.one.pk}]


# ── nearness ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _nearest(
    pairs: Sequence[tuple[NamedEntity, NamedEntity]], names: Sequence[str], vectors: UnitVectors
) -> list[_Match]:
    """Those that are near, each the nearest of the other by a margin."""
    place = {name: number for number, name in enumerate(names)}
    near = [float(vectors[place[one.name]] @ vectors[place[other.name]]) for one, other in pairs]
    best: defaultdict[int, list[float]] = defaultdict(list)
    for (one, other), cosine in zip(pairs, near, strict=True):
        best[one.pk].append(cosine)
        best[other.pk].append(cosine)
    second = {pk: sorted(cosines)[-2] if len(cosines) > 1 else 0.0 for pk, cosines in best.items()}
    return [
        _Match(*_directed(one, other, ""), _WEIGHT * min(cosine, 1.0), f"names near in meaning ({cosine:.2f})")
        for (one, other), cosine in zip(pairs, near, strict=True)
        if cosine >= max(_NEAR, second[one.pk] + _MARGIN, second[other.pk] + _MARGIN)
    ]


def _best(found: Iterable[_Match], most: int) -> list[MergeSuggestion]:
    ranked = sorted(found, key=lambda match: (-match.score, -match.other.mentions, match.one.pk, match.other.pk))
    return [MergeSuggestion(match.one.name, match.other.name, match.score, match.why) for match in ranked[:most]]
