"""Suggestions which entities to merge.

Only letters are compared. A name with a digit or a symbol in it (an id, a version, a date, C++) means itself alone: there a
single sign makes another thing. Nor are two names alike because letters are: Jesica and Jessica are two people.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from itertools import combinations
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Unpack

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
    from langmem_adapter.records.scope import ScopeArguments
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


class _Spelling(NamedTuple):
    """A name as it is compared, without case, accents and punctuation."""

    words: tuple[str, ...]
    split: tuple[str, ...]  # where inner capitals begin a word: `GitHub` as `git hub`
    stem: tuple[str, ...]  # without a legal form
    form: str  # empty where it has none
    is_plain: bool  # the form is a word of the language as well
    is_dotted: bool  # it has an initial with a dot

    @property
    def readings(self) -> set[tuple[str, ...]]:
        """The ways to read it; one equal reading makes two names the same. Spaces between Chinese characters do not count."""
        whole = "".join(self.words)
        return {self.words, self.split, (whole,) if is_cjk(whole) else self.words}

    @property
    def ends(self) -> Iterator[tuple[str, str]]:
        """Keys that names with the same initials share."""
        if len(self.words) > 1:
            first, last = self.words[0], self.words[-1]
            yield f"{first[0]}.", last
            yield first, f"{last[0]}."


@bounded_cache(4096)
def _spelling(name: str) -> _Spelling | None:
    """The spelling of a name; `None` where it means itself alone, like "GPT-4"."""
    text = unicodedata.normalize("NFKC", name).replace("_", " ")
    if not all(sign in _MARKS or unicodedata.category(sign)[0] in "LMZ" for sign in text):
        return None
    words = _words(text)
    if not words:
        return None
    stem, form, is_plain = _split_form(words)
    return _Spelling(words, _words(_CAMEL.sub(" ", text)), stem, form, is_plain, bool(_INITIAL.search(text)))


def _words(text: str) -> tuple[str, ...]:
    folded = _APOSTROPHES.sub("", text).casefold()
    return tuple(re.findall(r"\w+", folded if folded.isascii() else _without_accents(folded)))


def _without_accents(text: str) -> str:
    """Latin and Greek letters without accents or strokes. Other scripts keep their marks, which make other letters (が, й)."""
    matches = ((letter, _WITH.match(unicodedata.name(letter, ""))) for letter in text)
    plain = "".join(letter if match is None else match[1].casefold() for letter, match in matches)
    kept, base = "", " "
    for sign in unicodedata.normalize("NFD", plain):
        if not unicodedata.combining(sign):
            base = sign
        elif unicodedata.name(base, "").startswith(("GREEK", "LATIN")):
            continue
        kept += sign
    return unicodedata.normalize("NFC", kept)


def _split_form(words: tuple[str, ...]) -> tuple[tuple[str, ...], str, bool]:
    """A name's stem, its legal form, and whether that is a common word."""
    for size in (3, 2, 1):
        form = _FORMS.get(" ".join(words[-size:]))
        if form is not None and len(words) > size and len("".join(words[:-size])) > 1:
            return words[:-size], form, False
    if words[-1] in _COMPANY and len(words) > 1:
        return words[:-1], _COMPANY[words[-1]], True
    whole = "".join(words)
    for form in _CJK_FORMS:
        stem = whole.removesuffix(form).removeprefix(form)
        if len(stem) > 1 and stem != whole:
            return (stem,), form, False
    return words, "", False


def _is_business(kind: str) -> bool:
    """Whether something of this type may have a legal form; also where the type is unknown."""
    return not kind or kind.casefold() in _BUSINESS


def _are_initials(one: _Spelling, other: _Spelling) -> bool:
    """Whether one name is the other with initials for some of its words, or without those of its middle."""
    if 1 in {len(one.words), len(other.words)} or one.words == other.words:
        return False
    (first, *inner, last), (other_first, *other_inner, other_last) = one.words, other.words
    ends = ((first, other_first), (last, other_last))
    if not all(_fits(*end) for end in ends) or not any(a == b and len(a) > 1 for a, b in ends):
        return False
    if len(inner) == len(other_inner):
        return all(_fits(*pair) for pair in zip(inner, other_inner, strict=True))
    is_shortened = any(a != b for a, b in ends)
    return not (inner and other_inner) and (is_shortened or all(map(_is_initial, (*inner, *other_inner))))


def _fits(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (_is_initial(short) and long.startswith(short) and long not in _TITLES)


def _is_initial(word: str) -> bool:
    return len(word) == 1 and not is_cjk(word)


_SCORES: Final = {SPELLING: 0.95, LEGAL_FORM: 0.9, INITIALS: 0.85}
CROWD: Final = 20  # names that share one key; where more do, it tells nothing of any of them
_NEAR: Final = 0.9  # cosine of two names
_MARGIN: Final = 0.05  # by which it is nearer than the next
_WEIGHT: Final = 0.8  # of a cosine as a score: below all that spelling tells
_SHORTEST: Final = 3  # letters of a word that two names have in common


class GraphSuggestions:
    """The method of `GraphMemory` that looks for entities that may be one."""

    _database: Database
    _embedder: Embedder | None

    @planned
    def suggest_merges(self, *, k: int = 20, **fields: Unpack[ScopeArguments]) -> Plan[list[MergeSuggestion]]:
        """Entities that may be one: the same name in another spelling, with initials, with a legal form, or near in meaning.

        Nothing is merged. Names with digits or symbols (ids, versions, C++) are never suggested, nor are two of different
        types, two that a relation connects, two that live or work in different places (or the like) at the same time, two that
        were merged and split again, or a name that could mean several others. Nearness in meaning is asked of the embeddings,
        where they know meanings, and only for names that share a rare word or a relation to the same third.

        Args:
            k: At most so many, 1 to 10,000.

        Returns:
            Suggestions, the surest first. Of names with initials the longer one would stay, else the one with more mentions.

        Example:
            >>> from langmem_adapter import Memory
            >>> memory = Memory(":memory:")
            >>> for who, what, whom in [("Anna", "works at", "Google"), ("Ben", "likes", "Google, Inc.")]:
            ...     added = memory.graph.add(who, what, whom, user_id="alice")
            >>> [(each.source, each.into, each.why) for each in memory.graph.suggest_merges(user_id="alice")]
            [('Google, Inc.', 'Google', 'the same name with the legal form of a company')]
            >>> memory.close()
        """
        scope, most = Scope(**fields), bounded(k)

        def find() -> _Matches:
            with self._database.read() as connection:
                return _Matches(merge_candidates(connection, scope), scope)

        return Plan(find).and_then(lambda matches: self._complete(matches, most))

    asuggest_merges = awaited(suggest_merges)

    def _complete(self, matches: _Matches, most: int) -> Plan[list[MergeSuggestion]]:
        spelled, embedder = matches.spelled(), self._embedder
        # Hash embeddings see which letters names share, and that was compared.
        if embedder is None or embedder.asks_nobody or len(spelled) >= most:
            return Plan.of(_best(spelled, most))
        near = matches.near_pairs(spelled)
        names = list(dict.fromkeys(named.name for pair in near for named in pair))
        vectors = Plan(lambda: embedder.vectors(names), lambda: embedder.avectors(names))
        return vectors.then(lambda made: _best([*spelled, *_nearest(near, names, made)], most))


class _Match(NamedTuple):
    """Two that may be one; the first would go."""

    one: NamedEntity
    other: NamedEntity
    score: float
    why: str

    @property
    def pks(self) -> frozenset[int]:
        return frozenset((self.one.pk, self.other.pk))


class _Matches:
    """Entities that may be one: pairs come from keys that few have, so their number grows as that of the names does."""

    def __init__(self, candidates: MergeCandidates, scope: Scope) -> None:
        self._candidates = candidates
        own = (
            each
            for each in candidates.named
            if owner_role(each.name) is None and owner_name(each.name, scope) == each.name
        )
        spelled = ((named, [each for name in named.names if (each := _spelling(name))]) for named in own)
        self._spelled = [(named, spellings) for named, spellings in spelled if _spelling(named.name)]
        self._single: defaultdict[int, dict[str, list[tuple[int, Span]]]] = defaultdict(lambda: defaultdict(list))
        for edge in candidates.edges:
            if is_single(edge.relation):
                self._single[edge.source][edge.relation].append((edge.target, edge.span))
                if is_symmetric(edge.relation):
                    self._single[edge.target][edge.relation].append((edge.source, edge.span))

    def spelled(self) -> list[_Match]:
        """Pairs with matching names, without a name that could as well mean another entity."""
        matches: dict[frozenset[int], _Match] = {}
        for why, keys, fits in (
            (SPELLING, attrgetter("readings"), lambda *_: True),
            (LEGAL_FORM, lambda name: (name.stem,), _differ_in_form),
            (INITIALS, attrgetter("ends"), _share_initials),
        ):
            for match in self._with_shared_keys(why, keys, fits):
                matches.setdefault(match.pks, match)
        possible = [match for match in matches.values() if self._may_be_one(match.one, match.other)]
        others: defaultdict[int, set[int]] = defaultdict(set)
        for match in possible:
            others[match.one.pk].add(match.other.pk)
            others[match.other.pk].add(match.one.pk)
        return [m for m in possible if others[m.one.pk] - {m.other.pk} == others[m.other.pk] - {m.one.pk}]

    def near_pairs(self, spelled: Iterable[_Match]) -> list[tuple[NamedEntity, NamedEntity]]:
        """Those of which meanings might tell it: they share a rare word, or a relation to the same third."""
        matched = {match.pks for match in spelled}
        shared: defaultdict[Hashable, dict[int, NamedEntity]] = defaultdict(dict)
        of_pk = {named.pk: named for named, _ in self._spelled}
        for named, spellings in self._spelled:
            for word in {word for each in spellings for word in each.stem if len(word) >= _SHORTEST}:
                shared[word][named.pk] = named
        for edge in self._candidates.edges:
            for here, third in ((edge.source, ("from", edge.target)), (edge.target, ("to", edge.source))):
                if here in of_pk:
                    shared[edge.relation, *third][here] = of_pk[here]
        blocks = [list(block.values()) for block in shared.values() if len(block) <= CROWD]
        pairs = {frozenset((a.pk, b.pk)): (a, b) for block in blocks for a, b in combinations(block, 2)}
        return [pair for pks, pair in pairs.items() if pks not in matched and self._may_be_one(*pair)]

    def _with_shared_keys(
        self,
        why: str,
        keys: Callable[[_Spelling], Iterable[Hashable]],
        fits: Callable[[NamedEntity, _Spelling, NamedEntity, _Spelling], bool],
    ) -> Iterator[_Match]:
        blocks: defaultdict[Hashable, dict[tuple[int, _Spelling], NamedEntity]] = defaultdict(dict)
        for named, spellings in self._spelled:
            for each in spellings:
                for key in keys(each):
                    blocks[key][named.pk, each] = named
        for block in blocks.values():
            if 1 < len(block) <= CROWD:
                for (key, one), (other_key, other) in combinations(block.items(), 2):
                    if one.pk != other.pk and _are_types_alike(one, other) and fits(one, key[1], other, other_key[1]):
                        yield _Match(*_in_order(one, other, why), _SCORES[why], why)

    def _may_be_one(self, one: NamedEntity, other: NamedEntity) -> bool:
        """Whether nothing speaks against it: a relation between them, or different targets of a single one at one time."""
        if not _are_types_alike(one, other) or frozenset((one.pk, other.pk)) in self._candidates.different:
            return False
        mine, its = self._single[one.pk], self._single[other.pk]
        return not any(
            target != its_target and span.overlaps(its_span)
            for relation in mine.keys() & its.keys()
            for target, span in mine[relation]
            for its_target, its_span in its[relation]
        )


def _are_types_alike(one: NamedEntity, other: NamedEntity) -> bool:
    kinds = one.type.casefold(), other.type.casefold()
    return "" in kinds or kinds[0] == kinds[1] or all(map(_is_business, kinds))


def _differ_in_form(one: NamedEntity, name: _Spelling, other: NamedEntity, its: _Spelling) -> bool:
    if not (_is_business(one.type) and _is_business(other.type)):
        return False
    if name.form and its.form:
        return name.form == its.form
    return bool(name.form or its.form) and not (name.is_plain or its.is_plain)


def _share_initials(one: NamedEntity, name: _Spelling, other: NamedEntity, its: _Spelling) -> bool:
    """A dot or a type tells that the letter is an initial: M Street is no Main Street."""
    is_person = not _PERSON.isdisjoint((one.type.casefold(), other.type.casefold()))
    return (name.is_dotted or its.is_dotted or is_person) and _are_initials(name, its)


def _in_order(one: NamedEntity, other: NamedEntity, why: str) -> tuple[NamedEntity, NamedEntity]:
    """First the one that would go."""
    lengths = (len(one.name), len(other.name)) if why == INITIALS else (0, 0)
    goes = (lengths[0], one.mentions, -one.pk) < (lengths[1], other.mentions, -other.pk)
    return (one, other) if goes else (other, one)


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
        _Match(*_in_order(one, other, ""), _WEIGHT * min(cosine, 1.0), f"names near in meaning ({cosine:.2f})")
        for (one, other), cosine in zip(pairs, near, strict=True)
        if cosine >= max(_NEAR, second[one.pk] + _MARGIN, second[other.pk] + _MARGIN)
    ]


def _best(matches: Iterable[_Match], most: int) -> list[MergeSuggestion]:
    ranked = sorted(matches, key=lambda match: (-match.score, -match.other.mentions, match.one.pk, match.other.pk))
    return [MergeSuggestion(match.one.name, match.other.name, match.score, match.why) for match in ranked[:most]]
