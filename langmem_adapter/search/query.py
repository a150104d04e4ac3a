"""A query: its scope, filters, time and reranker, the words of its question, and what it asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, tzinfo
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document

from langmem_adapter.arguments import local_time, parse_time
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.filters import EVERYTHING, is_day
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.results import Abstained, SearchResults
from langmem_adapter.storage.memories import AsOf
from langmem_adapter.text import (
    ASKING_CJK,
    ENGLISH,
    HAPPENING,
    HAPPENING_CJK,
    PHRASE,
    STOPWORDS_CJK,
    TALK,
    asks_when,
    folded,
    groups_of,
    is_cjk,
    meaningful,
    reads_english,
    talk_cjk,
    words,
)
from langmem_adapter.twins import Plan, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from langmem_adapter.filters import Filter
    from langmem_adapter.records.results import Hit, Threshold
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.search.scope_cache import ScopeColumns
    from langmem_adapter.twins import PlanSteps

Rerank: TypeAlias = BaseDocumentCompressor | Literal["mmr"]
"""A LangChain compressor, or `"mmr"`: maximal marginal relevance (Carbonell and Goldstein 1998)."""

_POOL: Final = 4  # hits looked at for each one wanted
_LEAST: Final = 40
_DIVERSITY: Final = 0.5
_ID: Final = "memory_id"


def check_rerank(rerank: object) -> Rerank | None:
    """Check the argument."""
    if rerank is None or isinstance(rerank, BaseDocumentCompressor):
        return rerank
    if isinstance(rerank, str) and rerank == "mmr":
        return "mmr"
    raise InvalidInputError(f"rerank is a LangChain BaseDocumentCompressor or 'mmr', not {quoted(rerank)}")


def rerank_pool(k: int) -> int:
    """How many hits are looked at where *k* are wanted."""
    return max(_POOL * k, _LEAST)


@steps
def rerank_hits(rerank: Rerank, query: str, k: int, hits: SearchResults) -> PlanSteps[SearchResults]:
    """The best *k* of some hits; what a compressor drops is dropped."""
    if rerank == "mmr" or not hits:
        return SearchResults(hits[:k], abstained=hits.abstained)
    documents = [Document(hit.text, id=hit.id, metadata={**hit.item.metadata, _ID: hit.id}) for hit in hits]
    reranked = yield from Plan.calling(rerank.compress_documents, rerank.acompress_documents, documents, query)
    by_id = {hit.id: hit for hit in hits}
    chosen: dict[str, Hit] = {}
    for rank, document in enumerate(reranked, 1):
        hit = by_id.get(str(document.metadata.get(_ID)))
        if hit is not None and hit.id not in chosen:
            score: Any = document.metadata.get("relevance_score")
            chosen[hit.id] = replace(hit, score=float(score) if isinstance(score, int | float) else 1 / rank)
    best = list(chosen.values())[:k]
    return SearchResults(best, abstained=None if best else Abstained("reranked away", hits[0]))


def select_diverse(
    scores: Sequence[float],
    vectors: NDArray[np.float32],
    k: int,
    likeness_of: Callable[[NDArray[np.float32]], NDArray[np.floating[Any]]],
) -> list[int]:
    """Indexes of the best *k* hits that are good and unlike each other; scores and unit vectors are sorted, best first."""
    if not scores:
        return []
    matrix, worth = np.asarray(vectors), np.asarray(scores)
    worth = (worth - worth.min()) / max(float(np.ptp(worth)), 1e-9)
    chosen, likeness = [0], likeness_of(matrix @ matrix[0])
    while len(chosen) < min(k, len(scores)):
        gain = (1 - _DIVERSITY) * worth - _DIVERSITY * likeness
        gain[chosen] = -np.inf
        chosen.append(int(np.argmax(gain)))
        likeness = np.maximum(likeness, likeness_of(matrix @ matrix[chosen[-1]]))
    return chosen


@dataclass(frozen=True, slots=True)
class Bounds:
    """When memories were first stated, half-open; a moment without a zone begins a day at each speaker's UTC offset."""

    after: datetime | None = None
    before: datetime | None = None

    @classmethod
    def of(cls, after: object, before: object, zone: tzinfo | None = UTC) -> Bounds | None:
        """From arguments; `None` without any. A time without an offset is of *zone*, `None` is the system's."""
        begins, ends = _moment(after, "after", zone), _moment(before, "before", zone)
        if begins and ends and (begins.tzinfo is None) is (ends.tzinfo is None) and ends <= begins:
            raise InvalidInputError(f"nothing lies between after={begins.isoformat()} and before={ends.isoformat()}")
        return None if begins is ends is None else cls(begins, ends)

    def hold(self, columns: ScopeColumns, now: datetime) -> NDArray[np.bool_]:
        """Which memories lie within, when a query is asked at *now*."""
        mask = np.ones(len(columns.pks), np.bool_)
        for bound, lies in ((self.after, np.greater_equal), (self.before, np.less)):
            if bound is not None and bound.tzinfo is None:
                mask &= lies(columns.local(now)[0], bound.replace(tzinfo=UTC).timestamp())
            elif bound is not None:
                mask &= lies(columns.created, bound.timestamp())
        return mask


def _moment(value: object, name: str, zone: tzinfo | None) -> datetime | None:
    if isinstance(value, int | float):  # a year or a count of days, hardly seconds since 1970
        raise InvalidInputError(
            f"{name} must be a datetime, a date or ISO 8601 text like 2026-05-01, not {quoted(value)}"
        )
    return _day_start(value) if is_day(value) else None if value is None else parse_time(value, name, zone)


def parse_reference_date(value: object, zone: tzinfo | None = UTC) -> datetime | None:
    """The moment that "last week" is counted from, with its own UTC offset or else that of *zone*; `None` for now."""
    return None if value is None else local_time(_day_start(value), "reference_date", zone)


def _day_start(value: Any) -> Any:
    """When a day begins; any other value as it is."""
    if not is_day(value):
        return value
    return datetime.fromisoformat(value) if isinstance(value, str) else datetime.combine(value, time())


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for, and where; see `Memory.search`."""

    text: str
    scope: Scope
    k: int = 10
    filters: Filter = EVERYTHING
    threshold: Threshold = None
    memory_type: str | None = None
    facts: bool = False  # only memories without a type
    expired: bool = False  # expired memories as well
    past: AsOf | None = None
    rerank: Rerank | None = None
    explain: bool = False
    max_tokens: int | None = None
    bounds: Bounds | None = None  # when they were first said
    reference: datetime | None = None  # what "last week" is counted from; by default now, or the moment of the past
    zone: tzinfo | None = UTC  # that days begin in, where *reference* does not say it; `None` is the system's

    @property
    def narrowed(self) -> str:
        """The conditions within its scope, in words; empty without any."""
        past, bounds = self.past or AsOf(), self.bounds or Bounds()
        moments = {"as_of": past.as_of, "known_at": past.known_at, "after": bounds.after, "before": bounds.before}
        conditions = [
            f"{name}={moment.isoformat()}".removesuffix("T00:00:00") for name, moment in moments.items() if moment
        ]
        conditions += [] if self.memory_type is None else [f"memory_type={quoted(self.memory_type)}"]
        return ", ".join([*conditions, "filters"] if self.filters else conditions)

    @property
    def reference_time(self) -> datetime:
        """When it is asked."""
        past = None if self.past is None else self.past.as_of or self.past.known_at
        return self.reference or (past or datetime.now(UTC)).astimezone(self.zone)


_MOST_NAMES: Final = 1_000
LONGEST: Final = 10_000
"""Letters of a question that are read."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a search asks."""

    text: str  # without the names of speakers: in a vector these pull what is said *to* that person
    terms: frozenset[str]
    groups: frozenset[str]  # of related words that the terms belong to
    names: frozenset[str]  # speakers that it names, in small letters
    when: bool  # whether it asks for a time
    language: str = ENGLISH  # of its stemming rules


def read_question(text: str, speakers: Iterable[str], language: str = ENGLISH) -> Question:
    """Read a question; of a long one the first 10,000 letters. The names of known speakers are in small letters.

    Example:
        >>> read_question("When did Anna move to Lyon?", ["anna", "ben"]).text
        'When did   move to Lyon?'
    """
    text = text[:LONGEST]
    folded = text.casefold()
    named = [name for name in speakers if name in folded]
    rest, names = text, set()
    for name in sorted(named, key=len, reverse=True)[:_MOST_NAMES]:
        rest, times = re.subn(rf"(?<!\w){re.escape(name)}(?:['’]s)?(?!\w)", " ", rest, flags=re.IGNORECASE)
        if times:
            names.add(name)
    terms_in_order = words(rest, language)
    if not terms_in_order:  # nothing but names
        rest, terms_in_order = text, words(text, language)
    terms = frozenset(meaningful(terms_in_order, language) or terms_in_order)
    groups = frozenset(groups_of(terms, language))
    return Question(rest, terms, groups, frozenset(names), asks_when(text), language)


Asks: TypeAlias = Literal["nothing", "oneself", "something"]
"""What a query asks for."""

_LATELY: Final = (
    r"(?:so far|yet|already|right|now|today|before|lately|exactly|then|at all|please|for me|as a person"
    r"|(?:by|up to|until) now|over (?:the|these) \w+|based on our \w+|in (?:a|one|two|three|few)(?: \w+){1,2})"
)
_END: Final = rf"(?=\W*(?:{_LATELY}\W*)*$|\W*[.?!,;:])"
_ME: Final = (
    r"(?:(?:about|knows?|known|remember|recall|describe|summari[sz]e|introduce|forg[oe]t(?:ten)?"
    r"|(?:know|think|remember|profile|summary|description|impression|picture) of|(?:got|have|hold|notes|file) on)"
    r" (?:me|myself)|(?:who|what) i(?: am|'m)|what i am like|under my name|(?:things|details|facts) (?:of|in|about) my life"
    rf"|who you're talking to)\b{_END}"
)
_DO: Final = r"(?:tell|describe|summari[sz]e|sum up|recap|list|show|give|write|paint|introduce|remind)"
_TALKED: Final = r"(?:tell|told|sa(?:y|id)|shared?|mention(?:ed)?|talk(?:ed)?|discuss(?:ed)?)"
_RECORD: Final = r"(?:profile|background|personality|preferences?|memory|memories|life|story|records?)"
_ONESELF: Final = re.compile(
    rf"\byou.*\b{_ME}|\b{_ME}.*\byou|(?:^|[.,!]|\bplease|\bto) *{_DO}\b.*\b{_ME}"
    rf"|(?:^|\b(?:to|please|you) )(?:remember|describe|summari[sz]e) me\b{_END}"
    r"|\b(?:describe|introduce) me to (?:a stranger|others|my)\b"
    r"|\b(?:how much of me|(?:things|details|facts) (?:of|in|about) my life)\b.*\byou"
    rf"|\b(?:who (?:do you think )?(?:am i|i am)|what (?:kind|sort) of (?:\w+ )?person (?:am i|i am))\b{_END}"
    rf"|\b(?:what|{_DO}(?: me)? (?:everything|all|anything|what)) (?:that )?(?:do )?you (?:know|remember|recall)\b{_END}"
    rf"|\b(?:what(?:'s| is| do you have| have you(?: got)?)|{_DO}(?: me)? (?:everything|all|what)(?: (?:that )?is|'s)?)"
    rf"(?: (?:stored|saved|kept))? in (?:your|the) memory\b{_END}"
    rf"|\b(?:what|everything|all|anything) (?:that )?(?:have |did )?(?:i|we)(?:'ve| have)? (?:\w+ )?{_TALKED}"
    rf"(?: about)?(?: (?:to |with )?you)?\b{_END}|\b(?:{_DO}(?: me)?|what(?:'s| is| are)(?: in| on)?) my {_RECORD}\b{_END}"
)
_TO_TELL: Final = re.compile(rf"\?|\b(?:what|who|which|how|do you|anything|everything|{_DO})\b")
_OTHERS: Final = re.compile(
    r"\b(?:he|she|they|people|everyone|(?:said|says|thinks|thought|wrote|hear|heard) (?:about|of) me"
    r"|my (?!life|name|future|memor|profile|background|story|record|person|preference)\w+)\b"
)
_NAMED: Final = re.compile(r"(?<=[^.?!\s] )[A-Z][a-z]")
_OF_ME: Final = re.compile(r"\b(?:what|who|whose|which|where|when|why|how)\b.*\b(?:i|my|mine)\b|\bdid you\b.*\bme\b")
_OF_US: Final = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our)\b")
_QUESTION: Final = re.compile(r"\?|^\W*(?:what|why|how)\b")
_OF_WHOM: Final = re.compile(r"^\W*(?:who|whom|whose|which|where)\b|^\W*when\b.*\?")
_TO_YOU: Final = re.compile(r"\b(?:you|your|it|that|up|everything)\b")
_SPOKEN: Final = re.compile(r"\b(?:i|me|you|your|it|that|this|let|us)\b")
_SET_PHRASE: Final = re.compile(
    r"\b(?:go on|go ahead|how come|sleep (?:well|tight)|any(?:one|body) (?:home|there|around)"
    r"|(?:did|does|do) the (?:trick|job)|(?:sounds?|looks?|feels?|seems?|would|\w+'d) like)\b"
)
_CAPITALS: Final = re.compile(r"[A-Z]{2,}")

_STOP_CJK: Final = "[吗么呢吧？?，,。！!]|$"
_END_CJK: Final = f"(?=[你都没有]|{_STOP_CJK})"
_WHAT_CJK: Final = "些?(?:什么|哪些|啥|多少)"
_ABOUT_ME_CJK: Final = re.compile(
    "我(?:到底|究竟)?是(?:谁(?!的)|一?个?(?:什么|怎么?样)样?的?(?:一个)?人|什么样的?(?=[？?]|$))"
    rf"|关于我(?:自己)?的?(?:{_END_CJK}|所有|全部|一切|东西|内容|信息|记忆|事(?!业)|{_WHAT_CJK})"
    r"|[跟和与]我有关的(?:记忆|事|信息|内容|东西)|给我写.*个人(?:档案|简介|画像)|我有哪些事是你"
    rf"|你(?:都|现在|目前|一共|到底|还)*(?:记[住得下]|知道|了解|存)了?(?:我的?)?{_WHAT_CJK}了?(?=[？?。！!]|$)"
    rf"|你的?(?:记忆|脑海|脑子)[里中]?都?(?:有|存了|记了){_WHAT_CJK}(?=[？?。！!]|$)"
    rf"|你(?:都|所)?(?:记[住得下]|知道)了?的(?:一切|所有|全部)(?:内容|东西|事情?|信息)?(?={_STOP_CJK})"
    rf"|我的偏好(?:都?[有是]{_WHAT_CJK})?(?=[呢？?]|$)|我有{_WHAT_CJK}偏好(?={_STOP_CJK})"
    rf"|我们(?:之前|以前|都|曾经|曾)*[聊说谈讨论]+[过了]{_WHAT_CJK}(?={_STOP_CJK})"
    r"|(?<![跟对和给向])我(?:之前|以前|都|曾经|曾)*(?:[跟对和给向]你)?(?:都|之前|以前)?(?:[说讲提聊]过|(?:告诉|分享|透露)过)"
    rf"你?(?:自己的?)?[些了]?{_WHAT_CJK}(?:话|事情?|关于自己的事)?(?={_STOP_CJK})"
    rf"|(?:介绍|描述|形容|概括|总结|评价|[说讲聊谈][说讲聊谈])(?:一下|一?遍)?我(?:的生活|自己|本人|这个人)?{_END_CJK}"
)
_YOU_CJK: Final = re.compile(
    "^(?!.*[他她谁])(?:.*你|还?(?:记得|认识|了解)|总结|概括|介绍|描述|列|[说讲看][说讲看]|告诉)"
)
_YOU_ABOUT_ME_CJK: Final = re.compile(
    "(?:知道|记[住得了下]|认得|熟悉|了解|认识|忘记?了?)(?:一下|一?遍)?[过了]?我(?:自己|本人|这个人)?的?"
    rf"(?:{_END_CJK}|{_WHAT_CJK})|我这个人|有没有我$"
    rf"|我的?(?:哪些|什么|所有|全部|个人|基本)*(?:信息|资料|档案|事情?|情况)(?=你?都|{_STOP_CJK})"
    r"|对我(?:这个人)?[的有]?\w{0,4}(?:印象|了解|认识|看法|评价)|(?:眼里|眼中|心里|心中|印象里|记忆里)的?我(?!的)"
)
_OF_ME_CJK: Final = re.compile("(?<![帮给陪让教等])我")
_OF_WHAT_CJK: Final = re.compile("谁|(?<!没)什么|啥|哪|多少|几|怎|如何")
_QUESTION_CJK: Final = re.compile("[吗呢么?？]")
_WORDLESS: Final = STOPWORDS_CJK | ASKING_CJK
_VERBS: Final = frozenset({"like"})  # a function word everywhere else
_LONGEST: Final = 300  # letters of what may ask for nothing
_DRAWN_OUT: Final = re.compile(r"([^\W\d])\1{2,}|\b([^\W\d]{1,2}?)\2{2,}\b")


def asks_for(text: str, language: str = ENGLISH, terms: frozenset[str] = frozenset()) -> Asks:
    """What a query asks for; *terms* are those of `read_question`, if known already.

    Example:
        >>> asks_for("ok 👍 thanks!"), asks_for("What do you know about me?"), asks_for("Where do I live?")
        ('nothing', 'oneself', 'something')
        >>> asks_for("好的，谢谢"), asks_for("你知道我什么？"), asks_for("我住在哪里？")
        ('nothing', 'oneself', 'something')
    """
    if len(text) > _LONGEST:
        return "something"
    whole = folded(text)
    plain = _SET_PHRASE.sub("ok", _DRAWN_OUT.sub(r"\1\2", whole.replace("’", "'")))
    if is_cjk(plain):
        to_you = _YOU_CJK.search(plain) and _YOU_ABOUT_ME_CJK.search(plain)
        oneself = bool(to_you or _ABOUT_ME_CJK.search(plain))
    else:
        others = _NAMED.search(text) or _OTHERS.search(plain)
        oneself = bool(not others and _TO_TELL.search(plain) and _ONESELF.search(plain))
    if oneself:
        return "oneself"
    if plain == whole and whole.isascii() and reads_english(language) and meaningful(terms - _talk(), language):
        return "something"  # of most questions this is all that has to be known
    if is_cjk(plain):  # anything besides words of grammar and talk, or a question of oneself
        asking = _OF_WHAT_CJK.search(plain) or ("你" not in plain and _QUESTION_CJK.search(plain))
        if is_cjk(talk_cjk().sub("", plain)) or (asking and _OF_ME_CJK.search(plain)):
            return "something"
    return "something" if _asks(text, plain, language) else "nothing"


def _asks(text: str, plain: str, language: str) -> bool:
    """Whether a text asks for something: by its words, as a question about oneself or a person, or by an abbreviation."""
    if not reads_english(language):
        return bool(_content(plain, language))
    if _OF_ME.search(plain) or _OF_WHOM.search(plain):
        return True
    if _QUESTION.search(plain) and _OF_US.search(plain) and "you" not in plain:
        return True
    every = re.findall(r"[^\W_]+(?:'[^\W_]+)*", plain)
    rest = [word for word in every if word not in TALK]
    if rest == every and _CAPITALS.fullmatch(text.strip(" .?!")):
        return True
    content = _content(" ".join(rest), language)
    # The stems of PHRASE ask for nothing in talk to the assistant, but not in a question about something else.
    asking = _QUESTION.search(plain) and not _TO_YOU.search(plain)
    to_somebody = len(rest) < len(every) or _SPOKEN.search(plain)
    return bool(content - _stems() if to_somebody and not asking and " my " not in f" {plain} " else content)


def _content(plain: str, language: str) -> set[str]:
    terms = {term for term in words(plain, language) if not is_cjk(term)}
    return meaningful(terms, language) | _VERBS.intersection(terms)


def is_talk(term: str, language: str = ENGLISH) -> bool:
    """Whether a term is a word of small talk, like "now": that no memory holds it says nothing of what is known."""
    return term in _talk() and reads_english(language)


def names_topic(text: str, language: str = ENGLISH) -> bool:
    """Whether a query without its times asks for anything but what was said or happened then ("what did we talk about")."""
    if is_cjk(text):
        return is_cjk(_happening_cjk().sub("", text))
    return bool(meaningful(words(text, language), language) - _happening())


@cache
def _happening() -> frozenset[str]:
    return frozenset(term for word in HAPPENING for term in words(word))


@cache
def _happening_cjk() -> re.Pattern[str]:
    return re.compile("|".join(sorted(HAPPENING_CJK | STOPWORDS_CJK | ASKING_CJK, key=len, reverse=True)))


def lexical_terms(terms: frozenset[str]) -> frozenset[str]:
    """The terms that a memory may hold: no pairs of Chinese signs with a function word or question word."""
    wordless = {term for term in terms if not term.isascii() and is_cjk(term) and not _WORDLESS.isdisjoint(term)}
    return terms - wordless or terms


@cache
def _stems() -> frozenset[str]:
    return frozenset(term for word in PHRASE for term in words(word))


@cache
def _talk() -> frozenset[str]:
    return _stems().union(*map(words, TALK))
