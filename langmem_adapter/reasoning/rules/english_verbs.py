"""What English verbs say of their speaker: "am a nurse" becomes "Is a nurse", "am tired" becomes nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.rules.words import (
    ADJECTIVES,
    BASE,
    DEMONYMS,
    INNER,
    MONTHS,
    PARTICIPLES,
    PAST,
    THIRD,
    third,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["being", "predicate", "told_of_others"]

_SHORT: Final = (
    (re.compile(r"^'m\b", re.IGNORECASE), "am"),
    (re.compile(r"^'re\b", re.IGNORECASE), "are"),
    (re.compile(r"^'ve\b", re.IGNORECASE), "have"),
    (re.compile(r"^'ll\b", re.IGNORECASE), "will"),
    (re.compile(r"^'d\b", re.IGNORECASE), "would"),
    (re.compile(r"^'s\b", re.IGNORECASE), "is"),
    (re.compile(r"^m (?=\w)", re.IGNORECASE), "am "),
    (re.compile(r"^ve (?=\w)", re.IGNORECASE), "have "),
    (re.compile(r"^ll (?=\w)", re.IGNORECASE), "will "),
)
_NOT: Final = re.compile(r"^(do|does|did|is|are|was|were|will|has|have|would)n['o]?t\b", re.IGNORECASE)
_FILLER: Final = re.compile(
    r"^(?:also|just|actually|currently|truly|definitely|totally|simply|finally|already|now|then|even|personally"
    r"|probably"
    r"|certainly|particularly|especially|too|both|all)\s+",
    re.IGNORECASE,
)
_DEGREE: Final = re.compile(
    r"^(?:really|absolutely|usually|often|always|sometimes|rarely|seldom|mostly|mainly|normally|generally|recently"
    r"|still"
    r"|occasionally|regularly|mostly)\s+",
    re.IGNORECASE,
)
_ENDED: Final = re.compile(r"[\s,]+(?:any ?more|any longer)$", re.IGNORECASE)
_TALK: Final = re.compile(
    r"(?:ask|know|hear|tell|say|check|talk|discuss|thank|see if|clarify|confirm|request|point out|mention|inform"
    r"|apologi[sz]e|be honest"
    r"|understand|find out|figure|book|order a|get a refund|return|cancel|speak (?:to|with)|go(?:$| now| soon"
    r"| to bed)|admit|make sure)\b",
    re.IGNORECASE,
)
_PROMISE: Final = re.compile(
    r"(?:try|see|let|tell|ask|be (?:back|right|there|honest|happy|glad|sure|able)|do (?:that|it|so)|take (?:it"
    r"|that|a look)|think|keep (?:that|it)"
    r"|check|say|wait|have to|need|get back|give (?:it|that)|remember|go with|pass|never (?:forget|mind)|assume"
    r"|use (?:that|it)"
    r"|look (?:into|at)|help|explain|show|provide|write (?:a|the|it))\b",
    re.IGNORECASE,
)
_PASSING: Final = re.compile(
    r"(?:looking forward|wondering|asking|kidding|joking|talking|saying|telling|thinking(?! (?:of|about) \w+ing)"
    r"|feeling|doing"
    r"|having (?:trouble|issues?|problems?|difficult|a (?:hard|bad|good|great))|getting (?:an? |the |this "
    r"|some )?(?:error|following)|going"
    r"(?! to )|hoping you|trying to (?:understand|figure|find out|see|get this|get it)|calling|referring"
    r"|seeing (?:an?|the|this)"
    r"|using (?:the|this|your)|assuming|guessing|beginning|being|sorry|running late|running into|during|something"
    r"|anything|nothing|king)\b",
    re.IGNORECASE,
)
_OBJECTLESS: Final = frozenset(
    "it that this them these those one ones so too much very lot a the some any all him her us me here there well "
    "better "
    "and or to of for in on at as into with from about up out by over do did everything anything something nothing "
    "things stuff thing".split()
)
_NAME: Final = re.compile(
    r"(?P<name>[A-Z][\w'-]*[a-z][\w'-]*(?: [A-Z][\w'.-]*){0,2})(?:, (?P<what>an? .+)|,? from (?P<home>.+)|,? here|!)?$"
)
_NO_NAME: Final = (
    ADJECTIVES
    | DEMONYMS
    | MONTHS
    | frozenset(
        "sorry sure fine happy busy ready ok okay back done here there not so very too just really still in on at "
        "from a an the "
        "tired hungry bored excited good great interested my your currently also".split()
    )
)
_AGE: Final = re.compile(
    r"\d{1,3}(?:[ -]years?[ -]olds?(?:\b.*)?)?$|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty)\b[\w -]*$"
)
_NOUN: Final = re.compile(
    r"(?:an?|the|one of)\s+(?!bit\b|little\b|lot\b|few\b|second\b|mess\b|wreck\b|fool\b)", re.IGNORECASE
)
_PLACE: Final = re.compile(
    r"(?:originally |all |both )?(?:from|in|on a|on an|on the|on my (?!way\b|own\b)|on medication|under|over \d|about to"
    r"|almost \d|called|named|"
    r"living|working|my)\s+(?!(?:the mood|trouble|need|doubt|charge of nothing|fact|general|a (?:hurry|rush"
    r"|meeting|bad)|it|this|that)\b)",
    re.IGNORECASE,
)
_ADVERBS: Final = re.compile(
    r"(?:very|so|really|quite|severely|extremely|highly|deathly|mildly|happily|recently|newly|now|currently|also"
    r"|still|fully|strictly"
    r"|completely|partially|already|officially|deeply|mostly|a bit|pretty|strict|originally|both)\s+",
    re.IGNORECASE,
)
_WAS: Final = re.compile(
    r"(?:born|raised|diagnosed|promoted|hired|fired|laid off|married|in|at|an?|on|named|elected|admitted|accepted"
    r"|working|living)\b",
    re.IGNORECASE,
)
_ABLE: Final = frozenset(
    "cook dance dive draw drive fly juggle knit lift paint play program read ride run sew sing skate ski speak "
    "surf swim type "
    "understand write code translate analyse analyze summarise summarize explain generate".split()
)


def predicate(rest: str) -> Iterator[str]:
    """Facts in what follows "I" or "we".

    Args:
        rest: The clause without its subject: "'m a nurse", "love hiking", "moved to Rome".

    Yields:
        Statements without subject; mostly one or none, two for "am Ann, a nurse".
    """
    told, kept = _plain(rest)
    verb, _, after = told.partition(" ")
    rule = _RULES.get(verb.lower())
    if rule is not None:
        found = rule(after)
    elif verb.lower() in BASE:
        found = _present(verb.lower(), after)
    elif verb.lower() in PAST or (verb.endswith("ed") and verb.lower() not in _UNTOLD):
        found = _past(verb.lower(), after)
    else:
        return
    for fact in found:
        yield f"{kept}{fact[0].lower()}{fact[1:]}" if kept and not fact.startswith("Name") else fact


def being(told: str) -> Iterator[str]:
    """Facts in what follows "I am"; also where it was left out, as in "Allergic to nuts"."""
    told = _FILLER.sub("", told)
    found = _NAME.match(told)
    if found and found["name"].split()[0].lower() not in _NO_NAME:
        yield f"Name is {found['name'].rstrip('.')}"
        if found["what"] or found["home"]:
            yield f"Is {found['what'] or 'from ' + found['home']}"
        return
    word = _ADVERBS.sub("", told).partition(" ")[0].lower().strip(",")
    if re.match(r"(?:[a-z]+-)?[a-z]{2,}ing$", word):
        yield from _progressive(_ADVERBS.sub("", told))
    elif _lasting(told):
        yield f"Is {_years(told)}"


def told_of_others(rest: str, *, thing: bool = False) -> bool:
    """Whether what follows "she" (or, with *thing*, "it") is a statement worth keeping as it stands."""
    told, _ = _plain(rest)
    verb, _, after = told.partition(" ")
    if verb.lower() in {"is", "are", "was", "were"}:
        after = re.sub(r"^(?:not|no longer) ", "", after)
        named = re.match(r"(?:called|named) ", after)
        return bool(named) if thing else bool(named) or any(True for _ in being(after))
    if thing or not _has_object(after):
        return verb.lower() == "died"
    spoken = (
        verb.lower() in THIRD
        or verb.lower() in PAST
        or verb.lower() in {"has", "have", "can", "will", "wants", "needs"}
    )
    return spoken or (verb.lower() in BASE) or bool(re.match(r"(?:does|do|did) not \w+|never \w+|no longer \w+", told))


def _plain(rest: str) -> tuple[str, str]:
    told = rest.strip()
    for short, long in _SHORT:
        told = short.sub(long, told, count=1)
    kept = ""
    while True:
        told = re.sub(r"^(?:can't|can not)\b", "cannot", told, flags=re.IGNORECASE)
        told = re.sub(r"^won't\b", "will not", told, flags=re.IGNORECASE)
        told = _NOT.sub(r"\1 not", told)
        if found := _FILLER.match(told):
            told = told[found.end() :]
        elif (found := _DEGREE.match(told)) and not kept:
            kept, told = found.group().capitalize(), told[found.end() :]
        else:
            return told, kept


def _has_object(after: str) -> bool:
    told = (re.sub(r"\W", "", word) for word in after.split())
    return any(word == "US" or word.lower() not in _OBJECTLESS | {""} for word in told)


def _am(after: str) -> Iterator[str]:
    ended = _ENDED.search(after)
    after = _ENDED.sub("", after)
    negated = re.match(r"(not|no longer) ", after, re.IGNORECASE)
    if not negated:
        yield from being(after)
        return
    told = after[negated.end() :]
    word = "no longer" if ended or negated[1].lower() == "no longer" else "not"
    if not _NAME.match(told) and any(True for _ in being(told)):
        yield f"Is {word} {_years(told)}"


def _progressive(told: str) -> Iterator[str]:
    planned = re.match(r"going to (.+)", told, re.IGNORECASE)
    if planned:
        if not _TALK.match(planned[1]) and not _PROMISE.match(planned[1]) and _has_object(planned[1]):
            yield told.capitalize() if told.isupper() else told[0].upper() + told[1:]
    elif not _PASSING.match(told) and len(told.split()) > 1 and _has_object(told.split(maxsplit=1)[1]):
        yield told[0].upper() + told[1:]


def _lasting(told: str) -> bool:
    plain = _ADVERBS.sub("", told, count=2)
    word = re.split(r"[\s,]", plain, maxsplit=1)[0].lower()
    noun = _NOUN.match(plain)
    if noun:
        return _has_object(plain[noun.end() :]) and plain[noun.end() :].split()[-1].lower() not in INNER
    if (word in ADJECTIVES or word in DEMONYMS or _AGE.match(plain)) and word != "in":
        return True
    return _PLACE.match(plain) is not None and _has_object(plain.partition(" ")[2])


def _years(told: str) -> str:
    return f"{told} years old" if re.fullmatch(r"\d{1,3}", told) else told


def _was(after: str) -> Iterator[str]:
    told = _ADVERBS.sub("", re.sub(r"^not ", "", after))
    if _WAS.match(told) and _has_object(told):
        yield f"Was {after}"


def _have(after: str) -> Iterator[str]:
    ended = _ENDED.search(after)
    told = _FILLER.sub("", re.sub(r"^got\s+", "", _ENDED.sub("", after), flags=re.IGNORECASE))
    if goal := re.match(r"to (.+)", told):
        if not _TALK.match(goal[1]) and _has_object(goal[1]):
            yield f"Has to {goal[1]}"
        return
    first = told.partition(" ")[0].lower()
    if first in PARTICIPLES or (first.endswith("ed") and first not in _UNTOLD | {"red"}):
        if _has_object(told.partition(" ")[2]) or first == "retired":
            yield f"Has {told}"
    elif _possession(told):
        yield f"No longer has {told}" if ended else f"Has {told}"


def _possession(told: str) -> bool:
    head = re.split(r"\b(?:about|for|with|on|in|of|that|who|to|regarding)\b|,", told, maxsplit=1)[0].split()
    return (
        bool(head)
        and head[-1].lower() not in INNER
        and _has_object(" ".join(head))
        and told.partition(" ")[0].lower() not in INNER
    )


def _will(after: str) -> Iterator[str]:
    told = _FILLER.sub("", after)
    if not _PROMISE.match(told) and not _TALK.match(told) and _has_object(told.partition(" ")[2]):
        yield f"Will {told}"


def _would(after: str) -> Iterator[str]:
    found = re.match(r"(?:really )?(?P<verb>like|love|prefer) to (?P<goal>.+)", after, re.IGNORECASE)
    if found and not _TALK.match(found["goal"]) and _has_object(found["goal"].partition(" ")[2]):
        yield f"Would {found['verb'].lower()} to {found['goal']}"


def _do(after: str) -> Iterator[str]:
    negated = re.match(r"not (.+)", after)
    if not negated:
        yield from _present("do", after)
        return
    told = _ENDED.sub("", negated[1])
    adverb = _DEGREE.match(told)
    base, _, rest = (told[adverb.end() :] if adverb else told).partition(" ")
    if base.lower() not in BASE or (
        base.lower() in {"want", "need", "plan", "believe", "care", "make"} and rest.startswith("to ")
    ):
        return
    if _ENDED.search(negated[1]):
        yield from (f"No longer {fact[0].lower()}{fact[1:]}" for fact in _present(base.lower(), rest))
    elif any(True for _ in _present(base.lower(), rest)):
        yield f"Doesn't {told}"


def _did(after: str) -> Iterator[str]:
    if after.startswith("not "):
        return
    yield from _past("did", after)


def _no(after: str) -> Iterator[str]:
    if after.lower().startswith("longer "):
        yield from _turned("No longer", after[7:])


def _never(after: str) -> Iterator[str]:
    yield from _turned("Never", after)


def _turned(word: str, told: str) -> Iterator[str]:
    base = told.partition(" ")[0]
    if base.lower() in {"am", "have"} or base.lower() in BASE:
        for fact in predicate(told):
            if not fact.startswith("Name"):
                yield f"{word} {fact[0].lower()}{fact[1:]}" if base.lower() != "am" else f"Is {word.lower()}{fact[2:]}"
    elif base.lower() in PAST:
        yield f"{word} {told}"


def _cannot(after: str) -> Iterator[str]:
    base, _, rest = after.partition(" ")
    if base.lower() in {
        "stand",
        "bear",
        "eat",
        "drink",
        "tolerate",
        "digest",
        "drive",
        "swim",
        "afford",
        "have",
    } | _ABLE - {"understand", "read"}:
        bare = base.lower() in {"swim", "drive", "cook", "dance", "sing", "read", "write"}
        if _has_object(rest) or (bare and not rest):
            yield f"Can't {_ENDED.sub('', after)}"


def _can(after: str) -> Iterator[str]:
    told = _FILLER.sub("", after)
    base, _, rest = told.partition(" ")
    if base.lower() in _ABLE and (_has_object(rest) or not rest):
        yield f"Can {told}"


def _used(after: str) -> Iterator[str]:
    if after.startswith("to ") and _has_object(after[3:]):
        yield f"Used {after}"


def _up(after: str) -> Iterator[str]:
    if _has_object(after):
        yield f"Gave up {after}"


def _present(verb: str, after: str) -> Iterator[str]:
    if verb in _LEANING and not after.startswith(_LEANING[verb]):
        return
    if verb in {"want", "need", "like", "love", "hate", "prefer", "plan", "have", "hope", "intend"}:
        goal = re.match(
            r"(?:to|some|help|advice|assistance|an? (?:moment|second|favou?r|hand)|more)\b\s*(.*)", after, re.IGNORECASE
        )
        if goal and (not after.lower().startswith("to ") and verb in {"want", "need"}):
            return
        if goal and after.lower().startswith("to ") and (_TALK.match(goal[1]) or not _has_object(goal[1])):
            return
    if _has_object(after) or (not after and verb in _WHOLE):
        yield f"{third(verb).capitalize()} {after}".rstrip()


def _past(verb: str, after: str) -> Iterator[str]:
    if verb == "had" and not _possession(after):
        return
    if verb == "gave" and after.startswith("up "):
        yield from _up(after[3:])
    elif (_has_object(after) and not _INSIDE.search(after)) or (not after and verb in {"retired", "graduated"}):
        yield f"{verb.capitalize()} {after}".rstrip()


_LEANING: Final = {
    "believe": ("in ",), "hope": ("to ", "for "), "intend": ("to ",), "struggle": ("with ",), "suffer": ("from ",)
}  # fmt: skip
"""Verbs that tell something lasting only with these words after them: "I hope it works" is talk."""

_WHOLE: Final = frozenset(
    "bake bike climb code cook cycle dance drink drive exercise fish garden hike hunt jog journal knit meditate "
    "paint run "
    "sail sew sing skate ski smoke surf swim travel vape volunteer".split()
)
"""Verbs that are a statement on their own: "I smoke"."""

_UNTOLD: Final = frozenset(
    "asked wanted needed noticed realized realised mentioned wondered tried used guessed hoped supposed assumed "
    "believed "
    "expected meant figured checked clicked pasted attached included updated typed uploaded encountered followed "
    "agreed "
    "disagreed thanked answered replied".split()
)
_INSIDE: Final = re.compile(
    r"\b(?:an?|the|this|following|some) (?:\w+ )?(?:errors?|exception|traceback|message|output|response)\b"
)

_RULES: Final[dict[str, Callable[[str], Iterator[str]]]] = {
    "am": _am, "are": _am, "was": _was, "were": _was, "have": _have, "will": _will, "shall": _will, "would": _would,
    "do": _do, "did": _did, "no": _no, "never": _never, "cannot": _cannot, "can": _can, "used": _used,
}  # fmt: skip
