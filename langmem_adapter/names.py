"""Names in the knowledge graph: when two of them mean the same thing, and what the name of a relation implies.

Equality is by spelling, never by nearness of vectors: peers that merged names whose embeddings were close merged strangers.
What spelling cannot tell (Bob is Robert) is told by the model, which is shown the names that are known, or by hand (`merge`).
The user and the agent whom a scope belongs to are no names: no spelling means them, whatever their ids are.
"""

from __future__ import annotations

import re
import unicodedata
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.text import meaningful, signed_words

if TYPE_CHECKING:
    from langmem_adapter.records.scope import Scope

__all__ = [
    "LONGEST_NAME",
    "LONGEST_RELATION",
    "End",
    "end_of",
    "entity_key",
    "gives_up",
    "is_single",
    "is_symmetric",
    "keys_in",
    "named_speaker",
    "opposites",
    "owner_id",
    "owner_key",
    "relation_name",
    "says",
    "says_all",
    "speaker",
    "whom",
    "with_speaker",
]

LONGEST_NAME: Final = 200
LONGEST_RELATION: Final = 100
"""Characters of a name."""

_MOST_PIECES: Final = 2_000
_LONGEST_RUN: Final = 4
_LONGEST_CJK_RUN: Final = 8
_CJK_RUN: Final = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
_EDGE: Final = " \t\r\n.,;:!?\"'()[]{}<>。，、；：！？“”‘’（）【】《》…~"
_NUMBERED: Final = re.compile(r"[.<>~]\w")  # these signs belong to what they stand before: .5, <5, .NET
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

# The first word of a line stands for all of it.
_SAME: Final = {
    name: line.split()[0]
    for line in (
        "lives_in live_in resides_in reside_in living_in home based_in is_based_in moved_to relocated_to has_home_in",
        "works_at work_at works_for work_for employed_by employed_at is_employed_by employer has_employer",
        "works_as work_as is_a_by_profession occupation profession job has_job job_title has_job_title has_profession",
        "born_in was_born_in is_born_in birthplace has_birthplace",
        "born_on was_born_on birthday has_birthday birth_date date_of_birth",
        "comes_from is_from from originally_from origin",
        "has_age age aged is_aged",
        "named is_named called is_called name has_name",
        "married_to is_married_to spouse spouse_of is_spouse_of wife_of husband_of has_wife has_husband has_spouse",
        "partner_of is_partner_of in_a_relationship_with dating is_dating girlfriend boyfriend has_girlfriend has_boyfriend",
        "engaged_to is_engaged_to fiance fiancee",
        "friend_of is_friend_of is_friends_with friends_with friend has_friend",
        "sibling_of is_sibling_of",
        "colleague_of is_colleague_of coworker_of",
        "likes like loves love enjoys enjoy is_fond_of fond_of is_a_fan_of",
        "dislikes dislike hates hate does_not_like doesnt_like",
        "has_status status marital_status relationship_status",
        "follows_diet diet has_diet",
        "住在 居住在 搬到 搬到了 居住于 住",
        "工作于 就职于 任职于 在职于 供职于",
        "职业 职业是 工作是 担任",
        "出生于 出生在 出生地",
        "来自",
        "年龄 年龄是",
        "名字 名叫 叫 叫做 姓名",
        "喜欢 喜爱 爱 热爱",
        "不喜欢 讨厌",
        "结婚对象 配偶 嫁给 娶了",
    )
    for name in line.split()
}
_SINGLE: Final = frozenset(
    "lives_in works_at works_as born_in born_on comes_from has_age named married_to engaged_to partner_of has_status "
    "follows_diet 住在 工作于 职业 出生于 来自 年龄 名字 结婚对象 生日 婚姻状况 饮食".split()
)
_SYMMETRIC: Final = frozenset(
    "married_to engaged_to partner_of friend_of sibling_of colleague_of related_to same_as knows 结婚对象 朋友 同事".split()
)
_OPPOSITES: Final = {"likes": "dislikes", "dislikes": "likes", "喜欢": "不喜欢", "不喜欢": "喜欢"}


def entity_key(name: str) -> str:
    """What two names of the same thing have in common: no case, width, spacing, article, Dr. or closing punctuation.

    Args:
        name: As it is written, at most `LONGEST_NAME` characters.

    Returns:
        At most 256 characters; empty where the name holds nothing but punctuation.

    Example:
        >>> entity_key("The  Eiffel_Tower."), entity_key("my sister"), entity_key("Dr. Chen"), entity_key("Ｌｙｏｎ")
        ('eiffel tower', 'sister', 'chen', 'lyon')
    """
    folded = unicodedata.normalize("NFKC", name.translate(_UNSEEN)).casefold()
    plain = _stripped(" ".join(folded.replace("_", " ").split()))
    return (_LEADING.sub("", plain, count=1) or plain)[:256]


def _stripped(name: str) -> str:
    bare = name.strip(_EDGE)
    start = name.find(bare) - 1
    return name[start:].rstrip(_EDGE) if start >= 0 and _NUMBERED.match(name, start) else bare


def keys_in(text: str) -> set[str]:
    """Every key that a name in a text could have: of its words up to four in a row, of Chinese letters up to eight.

    Args:
        text: Any text; of a long one the first 2,000 pieces are read.

    Example:
        >>> sorted(keys_in("Is Anna in New York?"))[:4], "小红" in keys_in("我妹妹小红很好")
        (['anna', 'anna in', 'anna in new', 'anna in new york'], True)
    """
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


def speaker(name: str) -> str | None:
    """`SELF` or `ASSISTANT`, where that is whom a name means.

    Example:
        >>> speaker("USER_ID"), speaker("我"), speaker("Anna")
        ('user', 'user', None)
    """
    return _SPEAKERS.get(" ".join(unicodedata.normalize("NFKC", name).casefold().replace("_", " ").split()))


def whom(name: str, scope: Scope) -> str:
    """`SELF` or `ASSISTANT` where a name is the id of the scope's own user or agent, letter by letter; else the name.

    Only callers name people by ids. In what is said, the user's id is a name like any other.

    Example:
        >>> from langmem_adapter.records.scope import Scope
        >>> [whom(name, Scope("anna")) for name in ("anna", "Anna")]
        ['user', 'Anna']
    """
    ids = {scope.agent_id: ASSISTANT, scope.user_id: SELF}
    return ids.get(name, name)


def owner_id(who: str, scope: Scope) -> str | None:
    """The id of the scope's user (`SELF`) or agent (`ASSISTANT`)."""
    return scope.agent_id if who == ASSISTANT else scope.user_id


def owner_key(who: str, owner: str | None) -> str:
    """What stands for a user or an agent in the place of an `entity_key`, which never holds an underscore.

    Args:
        who: `SELF` or `ASSISTANT`.
        owner: The id; `None` where the scope names none.
    """
    return f"_{who}" if owner is None else f"_{who}_{blake2b(owner.encode(), digest_size=16).hexdigest()}"


class End(NamedTuple):
    """One end of a relation: the key by which the graph knows it, its name, and which of the scope's own it is, if one."""

    key: str
    name: str
    owner: str | None


def end_of(name: str, scope: Scope) -> End:
    """The end of a name; `SELF` and `ASSISTANT` are the scope's own, who are called by their ids."""
    if name not in {SELF, ASSISTANT}:
        return End(entity_key(name), name, None)
    owner = owner_id(name, scope)
    return End(owner_key(name, owner), owner or name, name)


def named_speaker(actor: str | None, role: str | None, scope: Scope) -> str:
    """The name of whoever speaks; blank where that is the scope's own user or agent, who mostly go without.

    Theirs is also what is said in the name of the scope's `user_id` (of an assistant: `agent_id`) in any spelling, or under
    one of the words for user and assistant, and what a tool returns. Everybody else is somebody of his own: what he says is
    true of himself, and two speakers are the same where `entity_key` says so of their names.

    Args:
        actor: The name that a message carries, or the role where it carries none.
        role: The role of the message.
        scope: Whose memory it goes into.

    Example:
        >>> from langmem_adapter.records.scope import Scope
        >>> [named_speaker(actor, "user", Scope("anna")) for actor in ("user", "Anna", "Ben")]
        ['', '', 'Ben']
    """
    own = owner_id(ASSISTANT if role == ASSISTANT else SELF, scope)
    if actor is None or role in {actor, "tool"} or speaker(actor) is not None:
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


def relation_name(name: str) -> str:
    """The name of a relation in the form in which it is kept; a few that mean the same become one.

    Args:
        name: As a model or a person writes it, at most `LONGEST_RELATION` characters.

    Returns:
        Words joined by underscores; empty where there are none.

    Example:
        >>> relation_name("Resides In"), relation_name("plays-chess with"), relation_name("居住在")
        ('lives_in', 'plays_chess_with', '住在')
    """
    plain = unicodedata.normalize("NFKC", name).casefold().replace("'", "").replace("’", "")
    joined = "_".join(re.findall(r"\w+", plain.replace("_", " ")))
    return _SAME.get(joined, joined)


def is_single(relation: str) -> bool:
    """Whether somebody has one such target at a time: one home, one employer, one age.

    Example:
        >>> is_single("lives_in"), is_single("likes")
        (True, False)
    """
    return relation in _SINGLE


def is_symmetric(relation: str) -> bool:
    """Whether it says the same in both directions."""
    return relation in _SYMMETRIC


def opposites(relation: str) -> str | None:
    """The relation that cannot hold beside it between the same two, where one is known."""
    return _OPPOSITES.get(relation)


def says(text: str, name: str) -> bool:
    """Whether a text speaks of the thing of this name: it holds one of the name's words.

    Example:
        >>> says("Moved to New York", "new_york"), says("Lives in Rome", "Lyon")
        (True, False)
    """
    told = _told(name.replace("_", " "))
    return not told.isdisjoint(_told(text)) if told else name.casefold() in text.casefold()


def says_all(text: str, name: str) -> bool:
    """The same, of a text that holds all words of the name.

    Example:
        >>> says_all("Moved to New York", "new_york"), says_all("Moved to New Delhi", "New York")
        (True, False)
    """
    told = _told(name.replace("_", " "))
    return told <= _told(text) if told else name.casefold() in text.casefold()


def gives_up(before: str, after: str, name: str) -> bool:
    """Whether a text speaks no longer of the thing of this name, as the text before it did: a word of the name is gone.

    Example:
        >>> gives_up("Likes green tea", "Likes black tea", "green tea"), gives_up("Likes tea", "Likes black tea", "tea")
        (True, False)
    """
    told = _told(name.replace("_", " "))
    if not told:
        return name.casefold() in before.casefold() and name.casefold() not in after.casefold()
    return not told.isdisjoint(_told(before) - _told(after))


def _told(text: str) -> set[str]:
    return meaningful(signed_words(text))
