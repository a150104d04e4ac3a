"""Facts in English clauses: what a speaker says of himself, of what is his, and of whom he has just named.

A sentence is cut into clauses that have their own subject; each clause is read by the first rule whose words it opens
with. There is no parser behind it and no guess: a clause that no rule knows yields nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.rules.english_verbs import being, predicate, told_of_others
from langmem_adapter.reasoning.rules.sentences import LONGEST, Sentence, commands
from langmem_adapter.reasoning.rules.words import MONTHS, PAST, THIRD
from langmem_adapter.text import content_words

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["english_facts"]

_OPENING: Final = re.compile(
    r"(?:(?:hi|hello|hey|hiya|howdy|dear)(?: there| all| everyone| everybody| again| [A-Z][\w'-]*)?(?=[,.!:;—-]"
    r"|\s+(?:i|my|we)\b)"
    r"|good (?:morning|afternoon|evening|day)(?: [A-Z][\w'-]*)?(?=[,.!])|(?:nice|pleased"
    r"|glad) to meet you(?: too)?|greetings"
    r"|thanks|thank you|ok|okay|well|so|oh|ah|wow|yes|yeah|yep|no|nope|sure|actually|honestly|frankly|basically"
    r"|anyway|also"
    r"|by the way|btw|fyi|and|but|plus|besides|however|then|now|currently|right now|these days|nowadays|in fact"
    r"|of course"
    r"|to be honest|as you (?:may |might |already )?know|unfortunately|fortunately|luckily|sadly|personally"
    r"|for the record"
    r"|in addition|for your information|just so you know|because|since"
    r"|(?:please )?(?:note|remember|don't forget|keep in mind)(?: that)?(?=\s+(?:i|my|we)\b)"
    r"|(?:let me|i(?: just)? (?:want|wanted|need|would like|should|must|have) to|i'd like to|i (?:should|must))"
    r" (?:tell you|say|mention|add|let you know|share)(?: that)?(?=\s+(?:i|my|we)\b)"
    r"|you should (?:also )?know(?: that)?)\b[\s,.!:;—-]+",
    re.IGNORECASE,
)
_WHEN: Final = re.compile(
    r"(?P<when>yesterday|today|tonight|tomorrow|earlier(?: today)?|(?:the day (?:before yesterday|after tomorrow))"
    r"|(?:yesterday |tomorrow |this |last |next |every |on |in the )"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)?(?:day|night|morning|afternoon|evening|week|weekend|month|year"
    r"|spring|summer|autumn"
    r"|fall|winter)s?|(?:in|since|last|next|on) (?:january|february|march|april|may|june|july|august|september|october"
    r"|november|december|[12]\d{3})(?: \d{1,4})?|(?:\w+ ){1,2}(?:days?|weeks?|months?|years?) ago)\b,?\s+(?=(?:i"
    r"|we|my|our)\b)",
    re.IGNORECASE,
)
_PAST_WHEN: Final = frozenset({"yesterday", "today", "earlier", "earlier today", "this morning", "this afternoon"})
_SUPPOSED: Final = re.compile(
    r"(?:(?:what |even |as )?if|unless|suppose|supposing|imagine|pretend|assuming|assume|let's say|say that"
    r"|whether)\b",
    re.IGNORECASE,
)
_ASKING: Final = (
    r"(?:can|could|would|will|do|does|did|should|may|might) (?:you|i|we|he|she|it|they|anyone|somebody|someone)\b"
    r"|(?:what|which|where|when|how|who|whose|why)(?:'s|'re)?\b|(?:is|are|was|were) (?:there|it|this|that|you|he"
    r"|she|they|i|my|the)\b"
    r"|any (?:idea|tips|advice|suggestion|recommendation)|please\b|right$|isn't|aren't|don't you"
)
_ASKS: Final = re.compile(_ASKING, re.IGNORECASE)
_VERB_OF_NOUN: Final = r"(?:is|are|was|were|has|have|had|lives?|works?|likes?|loves?|died|moved|plays?|stud(?:y|ies))"
_OWN: Final = (
    r"(?:i|we|he|she|they|im|ive)(?:'[a-z]+)?\s|it(?:'s| is| was| has)\s"
    rf"|(?:my|our|his|her|their|its)\s+(?:[\w'-]+\s+){{1,4}}{_VERB_OF_NOUN}\b|(?:call me|me favou?rite)\s"
)
_SHARED: Final = (
    r"(?:now (?:work|live|study|am)|also|never|love|like|enjoy|hate|prefer|do not|don't|cannot|can't|has|have|am|is|speaks?"
    r"|stud(?:y|ies)) \w"
    r"|lives? (?:in|with|at|near)|works? (?:at|for|as|in|from|with)|(?:started|moved|went|bought|met|visited|had"
    r"|got|lost|quit"
    r"|ate|saw|took|made|finished|joined|discussed|learned|watched|played|spent|sold|wrote) \w"
    r"|(?:plan|want|need|hope|wants|plans|needs|hopes) to|will \w|can \w|loves \w|likes \w|enjoys \w|hates \w"
)
_CUT: Final = re.compile(
    rf"\s*[,;:—]\s*(?:(?:and|but|so|yet|because|plus|also|then|or|while|though)\s+)*(?=(?:{_OWN}|{_ASKING}))"
    rf"|\s+(?:and|but|so|because|while|though|although|however)\s+(?:also\s+|then\s+)?(?=(?:{_OWN}|{_ASKING}))"
    rf"|\s*,?\s+(?P<shared>and|but)\s+(?=(?:{_SHARED}))",
    re.IGNORECASE,
)
_PRONOUN: Final = re.compile(r"(?:i|we|he|she|they)\b", re.IGNORECASE)
_FIRST: Final = re.compile(r"(?P<who>i(?=m |ve |ll |'|\s)|we(?=['\s]))\s*(?P<rest>.+)", re.IGNORECASE)
_WITH_ME: Final = re.compile(r"my (?P<who>[\w'-]+(?: [\w'-]+)?) and i\s+(?P<rest>.+)", re.IGNORECASE)
_MY_SOMEBODY: Final = re.compile(r"my [\w'-]+(?: [\w'-]+)?", re.IGNORECASE)
_MINE: Final = re.compile(r"(?:my|our|me(?= favou?rite))\s+(?P<rest>.+)", re.IGNORECASE)
_OTHER: Final = re.compile(r"(?P<who>he|she|they|it)(?=['\s])\s*(?P<rest>.+)", re.IGNORECASE)
_THEIRS: Final = re.compile(r"(?:his|her|their|its)\s+(?P<rest>.+)", re.IGNORECASE)
_NAMED: Final = r"(?P<name>[A-Z][\w'-]*(?: [A-Z][\w'.-]*){0,2})"
_CALL: Final = re.compile(
    rf"(?i:(?:please |just )?(?:you can |you may )?call me) {_NAMED}(?i: please| for short)?[,!]?$"
)
_NICK: Final = re.compile(rf"(?i:(?:my friends|people|everyone|everybody|friends|they) calls? me) {_NAMED}$")
_THIS_IS: Final = re.compile(rf"(?i:this is|the name's|name's|i go by) {_NAMED}(?i: speaking| here| from .+)?$")
_MY_KIN: Final = re.compile(r"(?P<name>[A-Z][\w'-]*(?: [A-Z][\w'-]*)?) is my (?P<kin>[\w-]+(?: [\w-]+)?)$")
_BARE: Final = re.compile(
    r"(?P<verb>love|loving|allergic to|looking for|born in|born on|vegetarian|vegan|just (?:moved|started|bought"
    r"|finished|got))\b",
    re.IGNORECASE,
)
_YOU: Final = re.compile(r"\b(?:you|your|yours|yourself|you're|you've|(?-i:ur?)(?!\.\w))\b", re.IGNORECASE)
_NAMES: Final = re.compile(
    r"\b(?:named|called|name is|[Ss]ister is|[Bb]rother is|[Ww]ife is|[Hh]usband is) ([A-Z][\w-]*)"
)
_NOT_MINE: Final = frozenset(
    "apologies apology bad code command commands concern error function guess instruction instructions issue "
    "mistake order "
    "orders pleasure point problem problems program prompt query question questions request script server test tests "
    "understanding".split()
)
_NOW: Final = re.compile(r"(?<=\w),?\s+(?:now|right now|nowadays|these days|at the moment|at present)$", re.IGNORECASE)
"""A memory holds until it is changed: "now" at the end of one would be wrong tomorrow."""


def english_facts(sentence: Sentence, *, first: bool, seen: str) -> Iterator[str]:
    """The facts of one English sentence, without subject where the speaker is meant.

    Args:
        sentence: One sentence.
        first: Whether it opens the message (where "This is Ann" is an introduction).
        seen: The facts found so far in the conversation, joined: names in them may be subjects.

    Yields:
        Short statements: "Name is John", "Her name is Jesica".
    """
    body = _unopened(sentence.text)
    if _SUPPOSED.match(body):
        return
    found = _WHEN.match(body)
    when = found["when"] if found else ""
    clauses = _clauses(body[found.end() :] if found else body)
    for place, clause in enumerate(clauses):
        asked = sentence.asks and place == len(clauses) - 1
        if asked or len(clause) > LONGEST or _ASKS.match(clause) or _SUPPOSED.match(clause) or commands(clause):
            continue
        for fact in _read(clause, first=first and place == 0, seen=seen):
            yield from _shown(_NOW.sub("", fact), when)


def _unopened(text: str) -> str:
    start = 0
    while found := _OPENING.match(text, start):
        start = found.end()
    return text[start:]


def _clauses(body: str) -> list[str]:
    clauses: list[str] = []
    start, shared = 0, ""
    for cut in [*_CUT.finditer(body), None]:
        piece = body[start : cut.start() if cut else len(body)]
        if shared:  # "I live in Paris and work at Acme": the second half borrows the subject
            owner = _PRONOUN.match(clauses[-1]) if clauses else None
            if owner is None and clauses:
                clauses[-1] += f" {shared} {piece}"
            else:
                clauses.append(f"{owner.group()} {piece}" if owner else piece)
        elif clauses and _MY_SOMEBODY.fullmatch(clauses[-1]):
            clauses[-1] += f" and {piece}"
        else:
            clauses.append(piece)
        if cut:
            start, shared = cut.end(), cut["shared"] or ""
    return [plain for clause in clauses if (plain := _unopened(_trimmed(clause, f"{_MARKS})]")))]


_MARKS: Final = " ,;:—-~*\"'(["


def _trimmed(text: str, marks: str) -> str:
    """A text without marks around it; a sign stays with what it stands at: -5, A-, A*."""
    bare = text.strip(marks)
    before, _, after = text.partition(bare) if bare else ("", "", "")
    sign = before[-1:] if bare[:1].isdigit() and before.endswith(("-", "~")) else ""
    return f"{sign}{bare}{after[: len(after) - len(after.lstrip('-*'))]}"


def _read(clause: str, *, first: bool, seen: str) -> Iterator[str]:
    if found := _CALL.match(clause):
        yield f"Name is {found['name']}"
    elif found := _NICK.match(clause):
        yield f"Nickname is {found['name']}"
    elif _YOU.search(clause):
        return  # talk with the assistant, not about the speaker
    elif first and (found := _THIS_IS.match(clause)) and found["name"].split()[0].lower() not in MONTHS:
        yield f"Name is {found['name']}"
    elif found := _MY_KIN.match(clause):
        yield f"Has a {found['kin']} named {found['name']}"
    else:
        yield from _by_subject(clause, seen)


def _by_subject(clause: str, seen: str) -> Iterator[str]:
    if found := _WITH_ME.match(clause):
        yield from (f"{fact} with {found['who']}" for fact in predicate(found["rest"]))
    elif found := _FIRST.match(clause):
        yield from predicate(found["rest"])
    elif found := _MINE.match(clause):
        yield from _of_mine(found["rest"])
    elif found := _OTHER.match(clause):
        if told_of_others(found["rest"], thing=found["who"].lower() == "it"):
            yield clause
    elif found := _THEIRS.match(clause):
        if _verb_place(found["rest"]):
            yield clause
    elif found := _BARE.match(clause):
        yield from _without_subject(clause, found["verb"].lower())
    elif (name := clause.partition(" ")[0]) in set(_NAMES.findall(seen)) and told_of_others(clause[len(name) + 1 :]):
        yield clause


def _of_mine(rest: str) -> Iterator[str]:
    told = re.sub(r"^((?:[\w-]+ )?name)'s (?=\w)", r"\1 is ", rest, flags=re.IGNORECASE)
    told = re.sub(r"^([\w-]+)'s (?=(?:an?|called|named|allergic|from|in)\b)", r"\1 is ", told)
    place = _verb_place(told)
    nouns = [noun.lower().removesuffix("'s") for noun in told.split()[:place]]
    if place and nouns[-1] not in _NOT_MINE and nouns[0] not in _NOT_MINE:
        yield told


def _verb_place(rest: str) -> int:
    """Where the verb of "sister lives in Rome" stands; 0 where there is none among the first words."""
    told = [word.lower().strip(",") for word in rest.split()[:8]]
    for place, word in enumerate(told[1:7], start=1):
        if (word in _LINKS or word in PAST or word in THIRD) and place + 1 < len(told):
            return place
        if word in PAST and place + 1 == len(told):  # "my dog died"
            return place
    return 0


_LINKS: Final = frozenset(
    "is are was were has have had isn't aren't doesn't don't can can't cannot will won't wants needs lives".split()
)


def _without_subject(clause: str, verb: str) -> Iterator[str]:
    rest = clause.split(maxsplit=1)
    if (verb == "love" and len(rest) > 1) or verb.startswith("just "):
        yield from predicate(clause)
    elif verb == "loving" or (len(rest) == 1 and verb not in {"vegetarian", "vegan"}):
        return
    else:
        yield from being(clause)


_OF_ME: Final = re.compile(r"(?<=\w )(?:my|our) (?=\w)", re.IGNORECASE)  # the fact has no "I" that this could lean on


def _shown(fact: str, when: str) -> Iterator[str]:
    text = _trimmed(_OF_ME.sub("", fact), _MARKS)
    if text.count(")") > text.count("("):
        text = text.rstrip(")")
    if not content_words(text) or len(text) + len(when) >= LONGEST:
        return
    if when and when.lower() not in _PAST_WHEN and when.lower() not in text.lower():
        text = f"{text} {when if when[:1].isdigit() else when[0].lower() + when[1:]}"
    yield text[0].upper() + text[1:]
