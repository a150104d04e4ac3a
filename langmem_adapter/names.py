"""Names in the knowledge graph: when two of them mean the same entity, and what the name of a relation implies.

Equality is by spelling, never by nearness of vectors, which merges strangers. That Bob is Robert the model says, which is shown
the names of the graph, or a user (`merge`). The user and the agent of a scope are no names, whatever their ids are.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.text import meaningful, read_entries, signed_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.scope import Scope

LONGEST_NAME: Final = 200
LONGEST_RELATION: Final = 100
"""Characters of a name."""

_MOST_PIECES: Final = 2_000
_LONGEST_RUN: Final = 4
_LONGEST_CJK_RUN: Final = 8
_CJK_RUN: Final = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
_EDGE: Final = " \t\r\n.,;:!?\"'()[]{}<>。，、；：！？“”‘’（）【】《》…~"
_NUMBERED: Final = re.compile(r"[.<>~]\w")  # these signs belong to the text after them: <5, ~5, .NET
# Not "his" and "Mr": his sister is not mine, and Mr and Mrs Smith are two people.
_LEADING: Final = re.compile(r"^(?:(?:the|an?|my|our|dr|prof)\b\.?\s+)+(?=\S)|^(?:我的|我们的)(?=.)")
_UNSEEN: Final = dict.fromkeys(
    map(ord, "\u00ad\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
)
"""Marks of direction and of places to break a line."""
_SPEAKERS: Final = {
    **dict.fromkeys("user|the user|user id|i|me|my|myself|我|我自己|用户|本人".split("|"), SELF),
    **dict.fromkeys("assistant|the assistant|ai assistant|助手|助理".split("|"), ASSISTANT),
}

_LISTED: Final = read_entries(Path(__file__).with_name("names.txt"))
_SAME: Final = {name: line.split()[0] for line in _LISTED["SAME"].split("\n") for name in line.split()}
"""The first word of a line stands for all of it."""
_SINGLE: Final = frozenset(_LISTED["SINGLE"].split())
_SYMMETRIC: Final = frozenset(_LISTED["SYMMETRIC"].split())
_OPPOSITES: Final = {"likes": "dislikes", "dislikes": "likes", "喜欢": "不喜欢", "不喜欢": "喜欢"}


def entity_key(name: str) -> str:
    """What two names of one thing have in common: no case, width, article, Dr. or closing punctuation."""
    folded = unicodedata.normalize("NFKC", name.translate(_UNSEEN)).casefold()
    plain = _stripped(" ".join(folded.replace("_", " ").split()))
    return (_LEADING.sub("", plain, count=1) or plain)[:256]


def _stripped(name: str) -> str:
    bare = name.strip(_EDGE)
    start = name.find(bare) - 1
    return name[start:].rstrip(_EDGE) if start >= 0 and _NUMBERED.match(name, start) else bare


def candidate_keys(text: str) -> set[str]:
    """Every key that a name in a text could have: of its words up to four in a row, of Chinese letters up to eight."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("_", " ")
    keys = _runs(plain)
    if _CJK_RUN.search(plain):
        keys |= _runs(_CJK_RUN.sub(" ", plain))  # 她认识Anna吗
    for run in _CJK_RUN.findall(plain[:_MOST_PIECES]):
        keys |= {run[at : at + size] for at in range(len(run)) for size in range(1, _LONGEST_CJK_RUN + 1)}
    return {entity_key(key) for key in keys} - {""}


def _runs(plain: str) -> set[str]:
    pieces = [_stripped(piece) for piece in plain.split()[:_MOST_PIECES]]
    pieces = [part.removesuffix("'s").removesuffix("’s") for part in pieces if part]
    return {" ".join(pieces[at : at + size]) for at in range(len(pieces)) for size in range(1, _LONGEST_RUN + 1)}


def owner_role(name: str) -> str | None:
    """`SELF` or `ASSISTANT`, where that is whom a name means."""
    return _SPEAKERS.get(" ".join(unicodedata.normalize("NFKC", name).casefold().replace("_", " ").split()))


def owner_name(name: str, scope: Scope) -> str:
    """`SELF` or `ASSISTANT` where a name is the id of the scope's own user or agent, letter by letter; else the name.

    Only callers name people by ids. In what is said, the user's id is a name like any other.

    Example:
        >>> from langmem_adapter.records.scope import Scope
        >>> [owner_name(name, Scope("anna")) for name in ("anna", "Anna")]
        ['user', 'Anna']
    """
    ids = {scope.agent_id: ASSISTANT, scope.user_id: SELF}
    return ids.get(name, name)


def owner_id(who: str, scope: Scope) -> str | None:
    """The id of the scope's user (`SELF`) or agent (`ASSISTANT`)."""
    return scope.agent_id if who == ASSISTANT else scope.user_id


def owner_key(who: str, owner: str | None) -> str:
    """What stands for a user (`SELF`) or an agent (`ASSISTANT`) in the place of an `entity_key`, which holds no underscore."""
    return f"_{who}" if owner is None else f"_{who}_{blake2b(owner.encode(), digest_size=16).hexdigest()}"


class EntityReference(NamedTuple):
    """One end of a relation: the key by which the graph knows it, its name, and which of the scope's own it is, if one."""

    key: str
    name: str
    owner: str | None


def relation_end(name: str, scope: Scope) -> EntityReference:
    """The end of a name; `SELF` and `ASSISTANT` are the scope's own, who are called by their ids."""
    if name not in {SELF, ASSISTANT}:
        return EntityReference(entity_key(name), name, None)
    owner = owner_id(name, scope)
    return EntityReference(owner_key(name, owner), owner or name, name)


def named_speaker(actor: str | None, role: str | None, scope: Scope) -> str:
    """The name of a speaker; blank for the scope's own user or agent.

    These also speak under the scope's `user_id` (an assistant: `agent_id`) in any spelling, under a word for user or
    assistant, without a name (then *actor* is the role), and in what a tool returns. Facts of a named speaker are stored under
    that name; two speakers are the same if their `entity_key` is.

    Example:
        >>> from langmem_adapter.records.scope import Scope
        >>> [named_speaker(actor, "user", Scope("anna")) for actor in ("user", "Anna", "Ben")]
        ['', '', 'Ben']
    """
    own = owner_id(ASSISTANT if role == ASSISTANT else SELF, scope)
    if actor is None or role in {actor, "tool"} or owner_role(actor) is not None:
        return ""
    return "" if entity_key(actor) in {"", entity_key(own or "")} else actor


def with_speaker(text: str, actor: str | None, role: str | None, scope: Scope) -> str:
    """What a memory says, behind the name of its speaker where there is one; the other arguments are those of `named_speaker`.

    Example:
        >>> from langmem_adapter.records.scope import Scope
        >>> [with_speaker("Likes tea", actor, "user", Scope("anna")) for actor in ("Anna", "Ben")]
        ['Likes tea', 'Ben: Likes tea']
    """
    name = named_speaker(actor, role, scope)
    return f"{name}: {text}" if name else text


def name_speaker(triples: Iterable[Triple], speaker: str, role: str) -> tuple[Triple, ...]:
    """Relations stated by a named speaker, with the name in place of `SELF` or `ASSISTANT`."""
    own = ASSISTANT if role == ASSISTANT else SELF
    names = {own: speaker or own}
    return tuple(
        replace(each, source=names.get(each.source, each.source), target=names.get(each.target, each.target))
        for each in triples
    )


def relation_name(name: str) -> str:
    """The form in which a relation's name is kept: words joined by underscores; `relation_name("Resides In")` is `lives_in`."""
    plain = unicodedata.normalize("NFKC", name).casefold().replace("'", "").replace("’", "")
    joined = "_".join(re.findall(r"\w+", plain.replace("_", " ")))
    return _SAME.get(joined, joined)


def is_single(relation: str) -> bool:
    """Whether an entity has one such target at a time: one home, one employer, one age."""
    return relation in _SINGLE


def is_symmetric(relation: str) -> bool:
    """Whether it says the same in both directions."""
    return relation in _SYMMETRIC


def opposite_relation(relation: str) -> str | None:
    """The relation that cannot hold beside it between the same two, where one is known."""
    return _OPPOSITES.get(relation)


def mentions_name(text: str, name: str) -> bool:
    """Whether a text holds one of the words of a name."""
    content = _content(name.replace("_", " "))
    return not content.isdisjoint(_content(text)) if content else name.casefold() in text.casefold()


def mentions_whole_name(text: str, name: str) -> bool:
    """Whether a text holds all words of a name."""
    content = _content(name.replace("_", " "))
    return content <= _content(text) if content else name.casefold() in text.casefold()


def drops_name(before: str, after: str, name: str) -> bool:
    """Whether a word of a name is gone from a text, compared with the text before it."""
    content = _content(name.replace("_", " "))
    if not content:
        return name.casefold() in before.casefold() and name.casefold() not in after.casefold()
    return not content.isdisjoint(_content(before) - _content(after))


def _content(text: str) -> set[str]:
    return meaningful(signed_words(text))
