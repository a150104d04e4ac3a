"""The list of memories: searched as one types, each hit with why it was found; and the first screen of an empty database."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Query, Response

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.results import Hit, MemoryItem
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.page.layout import PREFIX, BarPiece, pieces
from langmem_adapter.server.page.view import AddressScope, Filled, Looking, Reading, View, Writing
from langmem_adapter.storage.erasure import ScopeUsage, list_usage
from langmem_adapter.storage.scopes import counts
from langmem_adapter.twins import beside

_PAGE: Final = 50
_HITS: Final = 20
_USER: Final = "me"


@dataclass(frozen=True, slots=True)
class _Example:
    """Something to say for a first time, what it shows, and who says it where nobody is chosen."""

    text: str
    shows: str
    language: str = "en"
    user: str = "ada"


_EXAMPLES: Final = (
    _Example(
        "Hi! I am Ada. I live in Kyoto, I have a dog called Rex, and I am vegetarian.",
        "one sentence becomes several memories",
    ),
    _Example("I moved to Lyon last week.", "after the first: an update, at the date that was meant"),
    _Example("我叫小明，住在北京，喜欢喝茶。", "the same in Chinese", "zh", "小明"),
    _Example("我上个月搬到上海了。", "after the one before: an update", "zh", "小明"),
)
_EVIDENCE: Final = {
    "meaning": "its vector is near that of the question",
    "words": "words of the question, or related ones, stand in it or in the turns before it",
    "speaker": "the question asks about who said it",
    "time": "the question asks about its time",
    "window": "it was said in the time that the question names, or tells of it",
    "recency": "how new it is",
    "newer": "a newer value of the same attribute comes first",
    "graph": "the knowledge graph leads to it from who is asked about",
}
_FEW: Final = 5  # memories; with less, somebody is still trying it out


class _Asked(AddressScope):
    q: Filled[str] = None
    type: Filled[str] = None
    as_of: Filled[str] = None
    after: Filled[str] = None
    expired: bool = False

    @property
    def wants_some(self) -> bool:
        """Whether not all of them are asked for."""
        return any(each is not None for each in (self.q, self.type, self.as_of, self.after))


class _Added(AddressScope):
    text: str
    verbatim: bool = False


@dataclass(frozen=True, slots=True)
class _Row:
    """A memory of the list, with what found it where a question did."""

    item: MemoryItem
    relevance: float | None = None
    parts: tuple[BarPiece, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    rows: list[_Row]
    after: str | None = None

    @property
    def speaks(self) -> bool:
        """Whether some memory answers the question at all; else they are only the nearest."""
        return any(row.relevance for row in self.rows)


router = APIRouter(prefix=PREFIX)


@router.get("")
@router.get("/")
async def home(view: Looking) -> Response:
    return view.go("/memories")


@router.get("/memories")
async def memories(view: Reading, asked: Annotated[_Asked, Query()]) -> Response:
    fields = await view.shown(asked)
    if fields is None:
        return view.show("start", user=_USER, others=(), **_first(view))
    began = time.perf_counter()
    found = await (_listed if asked.q is None else _searched)(view.memory, asked, fields)
    spent = (time.perf_counter() - began) * 1000
    number = sum(each.memories for each in await beside(view.memory.parts.reading, counts, Scope(**fields)))
    if not (number or found.rows or asked.wants_some):
        return view.show("start", fields, others=await _others(view), **_first(view))
    told: dict[str, Any] = {"asked": asked, "found": found, "total": number, "ms": spent, "evidence": _EVIDENCE}
    told["examples"] = _EXAMPLES if number < _FEW else ()
    return view.show("memories", fields, **told)


@router.post("/memories")
async def add(view: Writing, form: Annotated[_Added, Form()]) -> Response:
    fields = view.whose(form)
    added = await view.memory.aadd(form.text, **fields, infer=not form.verbatim)
    if added.trace_id is None:
        return view.go("/memories", fields)
    return view.go(f"/traces/{added.trace_id}", fields)


def _first(view: View) -> dict[str, Any]:
    """What the first screen offers to try; where the database lies is told to whom Health tells it."""
    told = view.who.reaches_everything and "://" not in view.memory.location
    return {"examples": _EXAMPLES, "database": json.dumps(view.memory.location if told else "…", ensure_ascii=False)}


async def _others(view: View) -> list[ScopeUsage]:
    """Whom else somebody may have meant, who named a scope that has nothing."""
    if not view.who.reaches_everything:
        return []
    found: list[ScopeUsage] = await beside(view.memory.parts.reading, list_usage, "user_id", most=_FEW)
    return [each for each in found if each.memories]


async def _listed(memory: Memory, asked: _Asked, fields: dict[str, Any]) -> _Found:
    only = None if asked.type is None else {"memory_type": asked.type}
    how: dict[str, Any] = {"filters": only, "as_of": asked.as_of, "include_expired": asked.expired}
    page = await memory.aget_all(**fields, **how, k=_PAGE, after=asked.after)
    return _Found([_Row(item) for item in page], page.next)


async def _searched(memory: Memory, asked: _Asked, fields: dict[str, Any]) -> _Found:
    how: dict[str, Any] = {"memory_type": asked.type, "as_of": asked.as_of, "explain": True}
    hits = await memory.asearch(asked.q or "", **fields, **how, k=_HITS)
    most = max((hit.score for hit in hits), default=0.0)
    return _Found([_Row(hit.item, hit.relevance, tuple(_parts(hit, most))) for hit in hits])


def _parts(hit: Hit, most: float) -> Iterator[BarPiece]:
    """The evidence that counted for a hit, the bar of the best one being full."""
    parts = hit.explanation.parts if hit.explanation else {}
    counted = {name: value for name, value in parts.items() if value > 0}
    return pieces(dict(sorted(counted.items(), key=itemgetter(1), reverse=True)), most)
