"""Facts in English talk: what a speaker says of himself, of what is his, and of whom he has just named.

A sentence is cut into clauses that have their own subject; a clause becomes a text in the third person ("I moved to Braga":
"Moved to Braga"), which the table of statements reads. What a row understands is kept; of the rest only what tells something
done, planned or lasting, and stands on its own. A clause that is neither yields nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.rules.sentences import LONGEST, Sentence, commands
from langmem_adapter.statements.dates import TIME_WORDS
from langmem_adapter.statements.english import KINDS, NAME
from langmem_adapter.statements.reading import read
from langmem_adapter.statements.words import ADJECTIVES, DEMONYMS, FORMS, INNER, LASTING, third
from langmem_adapter.text import content_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langmem_adapter.statements.statement import Statement

__all__ = ["english_facts"]

# ── clauses ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_OPENING: Final = re.compile(
    r"(?:(?:hi|hello|hey|hiya|howdy|dear)(?: there| all| everyone| everybody| again| [A-Z][\w'-]*)?(?=[,.!:;—-]|\s+(?:i|my|we)\b)"
    r"|good (?:morning|afternoon|evening|day)(?: [A-Z][\w'-]*)?(?=[,.!])|(?:nice|pleased|glad) to meet you(?: too)?|greetings|thanks"
    r"|thank you|ok|okay|well|so|oh|ah|wow|yes|yeah|yep|no|nope|sure|actually|honestly|frankly|basically|anyway|also|by the way|btw|fyi|and"
    r"|but|plus|besides|however|then|now|currently|right now|these days|nowadays|in fact|of course|to be honest"
    r"|as you (?:may |might |already )?know|unfortunately|fortunately|luckily|sadly|personally|for the record|in addition|because|since"
    r"|for your information|just so you know|(?:it )?turns out(?: that)?|guess what|finally|lately|recently"
    r"|(?:please )?(?:note|remember|don't forget|keep in mind)(?: that)?(?=\s+(?:i|my|we)\b)"
    r"|(?:let me|i(?: just)? (?:want|wanted|need|would like|should|must|have) to|i'd like to|i (?:should|must))"
    r" (?:tell you|say|mention|add|let you know|share)(?: that)?(?=\s+(?:i|my|we)\b)|you should (?:also )?know(?: that)?)\b[\s,.!:;—-]+",
    re.IGNORECASE,
)
_UNITS: Final = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)?(?:day|night|morning|afternoon|evening|week|weekend|month|year|spring|summer|autumn|fall|winter))s?"
_WHEN: Final = re.compile(
    rf"(?P<when>yesterday|today|tonight|tomorrow|earlier(?: today)?|the day (?:before yesterday|after tomorrow)"
    rf"|(?:yesterday |tomorrow |this |last |next |every |on |in the ){_UNITS}|(?:in|since|last|next|on) (?:january|february|march|april|may|june"
    r"|july|august|september|october|november|december|[12]\d{3})(?: \d{1,4})?|(?:\w+ ){1,2}(?:days?|weeks?|months?|years?) ago)\b,?\s+"
    r"(?=(?:i|we|my|our)\b)",
    re.IGNORECASE,
)
_SUPPOSED: Final = re.compile(
    r"(?:(?:what |even |as )?if|unless|suppose|supposing|imagine|pretend|assuming|assume|let's|say that|whether|i wish|wish|i think|i guess"
    r"|i hope (?!to\b))\b",
    re.IGNORECASE,
)
_ASKING: Final = (
    r"(?:can|could|would|will|do|does|did|should|may|might) (?:you|i|we|he|she|it|they|anyone|somebody|someone)\b"
    r"|(?:what|which|where|when|how|who|whose|why)(?:'s|'re)?\b|(?:is|are|was|were) (?:there|it|this|that|you|he|she|they|i|my|the)\b"
    r"|any (?:idea|tips|advice|suggestion|recommendation)|please\b|right$|isn't|aren't|don't you"
)
_ASKS: Final = re.compile(_ASKING, re.IGNORECASE)
_OWN: Final = (
    r"(?:i|we|he|she|they|im|ive)(?:'[a-z]+)?\s|it(?:'s| is| was| has)\s|(?:my|our|his|her|their|its)\s+(?:[\w'-]+\s+){1,4}"
    r"(?:is|are|was|were|has|have|had|lives?|works?|likes?|loves?|died|moved|plays?|stud(?:y|ies)|got|just|turned|isn't)\b|(?:call me|me favou?rite)\s"
)
_SHARED: Final = (
    r"(?:now (?:work|live|study|am)|also|never|love|like|enjoy|hate|prefer|do not|don't|cannot|can't|has|have|am|is|speaks?|stud(?:y|ies)) \w"
    r"|lives? (?:in|with|at|near)|works? (?:at|for|as|in|from|with)|(?:started|moved|went|bought|met|visited|had|got|lost|quit|ate|saw|took|made"
    r"|finished|joined|discussed|learned|watched|played|spent|sold|wrote|became|adopted|switched) \w|(?:plan|want|need|hope|wants|plans|needs|hopes)"
    r" to|will \w|can \w|loves \w|likes \w|enjoys \w|hates \w"
)
_CUT: Final = re.compile(
    rf"\s*[,;:—–]\s*(?:(?:(?:it )?turns out(?: that)?|and|but|so|yet|because|plus|also|then|or|while|though|now)\s+)*(?=(?:{_OWN}|{_ASKING}))"
    rf"|\s+(?:and|but|so|because|while|though|although|however)\s+(?:also\s+|then\s+|now\s+)?(?=(?:{_OWN}|{_ASKING}))"
    rf"|\s*,?\s+(?P<shared>and|but)\s+(?=(?:{_SHARED}))|\s+[–—-]+\s+|(?P<who>,? which\b|,? who\b).*",
    re.IGNORECASE,
)
_PRONOUN: Final = re.compile(r"(?:i|we|he|she|they)\b", re.IGNORECASE)
_FIRST: Final = re.compile(r"(?P<who>i(?=m |ve |ll |'|\s)|we(?=['\s]))\s*(?P<rest>.+)", re.IGNORECASE)
_WITH_ME: Final = re.compile(r"(?:my )?(?P<who>(?<=my )[\w'-]+(?: [\w'-]+)?|(?-i:[A-Z]\w+)) and i\s+(?P<rest>.+)", re.IGNORECASE)
_MY_SOMEBODY: Final = re.compile(r"(?:my [\w'-]+(?: [\w'-]+)?|(?-i:[A-Z]\w+))", re.IGNORECASE)
_MINE: Final = re.compile(r"(?:my|our|me(?= favou?rite))\s+(?P<rest>.+)", re.IGNORECASE)
_OTHER: Final = re.compile(r"(?:he|she|they|it|his|her|their|its)(?=['\s])\s*(?P<rest>.+)", re.IGNORECASE)
_CALL: Final = re.compile(rf"(?i:(?:please |just )?(?:you can |you may )?call me) (?P<name>{NAME})(?i: please| for short|, not .+)?[,!]?$")
_NICK: Final = re.compile(rf"(?i:(?:my friends|people|everyone|everybody|friends|they) calls? me) (?P<name>{NAME})$")
_THIS_IS: Final = re.compile(rf"(?i:this is|the name's|name's|i go by) (?P<name>{NAME})(?i: speaking| here| from .+)?$")
_MY_KIN: Final = re.compile(r"(?P<name>[A-Z][\w'-]*(?: [A-Z][\w'-]*)?) is my (?P<kin>[\w-]+(?: [\w-]+)?)$")
_BARE: Final = re.compile(r"(?:allergic to|looking for|born in|born on|vegetarian|vegan|just (?:moved|started|bought|finished|got))\b", re.IGNORECASE)
_YOU: Final = re.compile(r"\b(?:you|your|yours|yourself|you're|you've|(?-i:ur?)(?!\.\w))\b", re.IGNORECASE)
_NAMES: Final = re.compile(r"\b(?:named|called|name is|[Ss]ister is|[Bb]rother is|[Ww]ife is|[Hh]usband is) ([A-Z][\w-]*)")
_NOW: Final = re.compile(r"(?<=\w),?\s+(?:now|right now|nowadays|these days|at the moment|at present|already|as well|too|though|by the way|honestly)$", re.IGNORECASE)
"""A memory holds until it is changed: "now" at the end of one would be wrong tomorrow."""
_MARKS: Final = " ,;:—–-~*\"'(["


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
        if asked or len(clause) > LONGEST or (_ASKS.match(clause) and not _CALL.match(clause)) or _SUPPOSED.match(clause) or commands(clause):
            continue
        for fact in _read(clause, first=first and place == 0, seen=seen):
            yield from _shown(fact, when)


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


def _trimmed(text: str, marks: str) -> str:
    """A text without marks around it; a sign stays with what it stands at: -5, A-, A*."""
    bare = text.strip(marks)
    before, _, after = text.partition(bare) if bare else ("", "", "")
    sign = before[-1:] if bare[:1].isdigit() and before.endswith(("-", "~")) else ""
    return f"{sign}{bare}{after[: len(after) - len(after.lstrip('-*'))]}"


def _read(clause: str, *, first: bool, seen: str) -> Iterator[str]:
    """The facts of a clause by its subject."""
    if found := _CALL.match(clause):
        yield f"Name is {found['name']}"
    elif found := _NICK.match(clause):
        yield f"Nickname is {found['name']}"
    elif _YOU.search(clause):
        return  # talk with the assistant, not about the speaker
    elif first and (found := _THIS_IS.match(clause)) and found["name"].split()[0].lower() not in TIME_WORDS:
        yield f"Name is {found['name']}"
    elif found := _MY_KIN.match(clause):
        yield f"Has a {found['kin']} named {found['name']}"
    elif found := _WITH_ME.match(clause):
        yield from (f"{fact} with {found['who']}" for fact in _predicate(found["rest"]))
    elif found := _FIRST.match(clause):
        yield from _predicate(found["rest"])
    elif found := _MINE.match(clause):
        told = re.sub(r"^((?:[\w-]+ )?name)'s (?=\w)", r"\1 is ", found["rest"], flags=re.IGNORECASE)
        yield from _of_others(re.sub(r"^([\w-]+)'s (?=(?:an?|called|named|allergic|from|in)\b)", r"\1 is ", told))
    elif _OTHER.match(clause):
        yield from _of_others(clause)
    elif _BARE.match(clause):
        yield from _predicate(clause if clause.lower().startswith("just ") else f"am {clause}")
    elif (name := clause.partition(" ")[0]) in set(_NAMES.findall(seen)) or re.match(r"[A-Z]\w+ (?:died|passed away)\b", clause):
        yield from _of_others(clause) if name else ()


def _of_others(told: str) -> Iterator[str]:
    """What is said of somebody else, or of something of the speaker's: only what a row understands."""
    said = read(_sentence(told))
    plain = said.attribute and said.attribute not in {"any", "plan", "event", "habit", "own", "trait"}
    of_kin = bool(said.people) and said.attribute and (said.attribute != "event" or any(map(str.isdigit, told)) or len(told.split()) > 2)  # noqa: PLR2004
    if (plain or (of_kin and not _OTHER.match(told)) or said.ended or (said.people and said.attribute in {"habit", "event"})) and said.subject not in _NOT_MINE:
        yield told


_NOT_MINE: Final = frozenset("it its this that".split())

# ── the third person ────────────────────────────────────────────────────────────────────────────────────────────────────

_SHORT: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), put)
    for pattern, put in (
        (r"^'?m\b", "am"), (r"^'re\b", "are"), (r"^'?ve\b", "have"), (r"^'?ll\b", "will"), (r"^'d\b", "would"), (r"^'s\b", "is"),
        (r"\b(?:can't|can not)\b", "cannot"), (r"\bwon't\b", "will not"), (r"^(do|does|did|is|are|was|were|has|have|would)n'?t\b", r"\1 not"),
    )
)  # fmt: skip
_FILLER: Final = re.compile(
    r"(?:also|just|actually|currently|truly|definitely|totally|simply|finally|already|now|then|even|personally|probably|certainly|particularly|"
    r"especially|too|both|all|kind of|officially|honestly)\s+",
    re.IGNORECASE,
)
_DEGREE: Final = re.compile(
    r"(?:really|absolutely|usually|often|always|sometimes|rarely|seldom|mostly|mainly|normally|generally|recently|still|occasionally|regularly|only)\s+",
    re.IGNORECASE,
)
_ENDED: Final = re.compile(r"[\s,]+(?:any ?more|any longer)$", re.IGNORECASE)
_NAME: Final = re.compile(r"(?P<name>[A-Z][\w'-]*[a-z][\w'-]*(?: [A-Z][\w'.-]*){0,2})(?:, (?P<what>an? .+)|,? from (?P<home>.+)|,? here|!)?$")
_NO_NAME: Final = ADJECTIVES | DEMONYMS | TIME_WORDS | frozenset("team also currently".split())


def _predicate(rest: str) -> Iterator[str]:
    """Facts in what follows "I" or "we"; mostly one or none, two for "am Ann, a nurse"."""
    told, kept = _plain(_NOW.sub("", rest))
    verb, _, after = told.partition(" ")
    after = _FILLER.sub("", after) if verb in {"am", "have", "will", "can"} else after
    found = _NAME.match(_NOW.sub("", after)) if verb == "am" else None
    if found and found["name"].split()[0].lower() not in _NO_NAME:
        yield f"Name is {found['name'].rstrip('.')}"
        if found["what"] or found["home"]:
            yield f"Is {found['what'] or 'from ' + found['home']}"
    elif (fact := _third(verb.lower(), after)) and _is_fact(fact, read(_sentence(fact))):
        yield f"{kept}{fact[0].lower()}{fact[1:]}" if kept else fact


def _plain(rest: str) -> tuple[str, str]:
    told, kept = rest.strip(), ""
    for short, long in _SHORT:
        told = short.sub(long, told, count=1)
    while True:
        if found := _FILLER.match(told):
            told = told[found.end() :]
        elif (found := _DEGREE.match(told)) and not kept:
            kept, told = found.group().capitalize(), told[found.end() :]
        else:
            return told, kept


def _third(verb: str, after: str) -> str:
    """The clause in the third person, without subject; empty where no verb of the table opens it."""
    over = _ENDED.search(after) is not None
    after = _ENDED.sub("", after)
    denied = re.match(r"(?:not|never|no longer) ", after)
    if verb in {"am", "are"}:
        if denied:
            return f"Is {'no longer' if over or denied.group() == 'no longer ' else denied.group().strip()} {_years(after[denied.end() :])}"
        return _capital(after) if _progressive(after) else f"Is {_years(after)}"
    if verb in {"do", "does"} and denied:
        return f"No longer {_verb_third(after[4:])}" if over else f"Doesn't {after[4:]}"
    if verb == "did" and denied:
        return ""
    if verb == "no" and after.startswith("longer "):
        inner = _third(*_split(after[7:]))
        return inner and (f"Is no longer {inner[3:]}" if inner.startswith("Is ") else f"No longer {inner[0].lower()}{inner[1:]}")
    if verb == "never":
        head, tail = _split(after)
        inner = _third(head, tail)
        return inner and f"Never {inner[0].lower()}{inner[1:]}"
    if verb == "cannot":
        return f"Can't {after}{' anymore' if over else ''}"
    if verb in {"have", "had"} and re.match(r"got ", after):
        after = after[4:]
    fixed = {"have": "Has", "was": "Was", "were": "Was", "will": "Will", "shall": "Will", "would": "Would", "can": "Can", "used": "Used", "had": "Had"}
    if verb in fixed:
        return f"No longer has {after}" if verb == "have" and over else f"{fixed[verb]} {after}"
    if verb in LASTING:
        return f"{third(verb).capitalize()} {after}{' anymore' if over else ''}".strip()
    form = FORMS.get(verb)
    return f"{verb.capitalize()} {after}".strip() if form and form[1] in {"past", "base"} else ""


def _split(told: str) -> tuple[str, str]:
    head, _, tail = told.partition(" ")
    return head.lower(), tail


def _verb_third(told: str) -> str:
    head, tail = _split(told)
    return f"{third(head)} {tail}".strip() if head in FORMS else told


def _progressive(after: str) -> bool:
    return FORMS.get(re.sub(r"^(?:still|now|only|really) ", "", after).partition(" ")[0].lower(), ("", ""))[1] == "ing" or after.startswith("going to ")


def _years(told: str) -> str:
    return f"{told} years old" if re.fullmatch(r"\d{1,3}", told) else told


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


_OF_ME: Final = re.compile(r"(?<=\w )(?:my|our) (?:own )?(?=\w)", re.IGNORECASE)  # the fact has no "I" that this could lean on


def _sentence(fact: str) -> str:
    """A fact as it will stand."""
    text = _trimmed(_OF_ME.sub("", fact), _MARKS)
    return text.rstrip(")") if text.count(")") > text.count("(") else text


_JUST: Final = frozenset({"yesterday", "today", "earlier", "earlier today", "this morning", "this afternoon"})


def _shown(fact: str, when: str) -> Iterator[str]:
    text = _NOW.sub("", _sentence(fact))
    if not content_words(text) or len(text) + len(when) >= LONGEST:
        return
    if when and when.lower() not in _JUST and when.lower() not in text.lower():
        text = f"{text} {when if when[:1].isdigit() else when[0].lower() + when[1:]}"
    yield _capital(text)


# ── what is a fact ──────────────────────────────────────────────────────────────────────────────────────────────────────

_LEANS: Final = re.compile(
    r"\b(?:i|i'm|i've|i'll|me|myself|we|us|mine|ourselves|it|them|they|him|he|she|this(?! (?:week|month|year|weekend|spring|summer|fall|autumn|winter|morning|afternoon|evening)\b)|these|those|there|here|something|anything|everything|things?|stuff|such|"
    r"one|ones|everyone|someone|somebody|recently|lately|so far|just now|above|following|let's|check out|more)\b|\bthat (?!\w+s\b)|\b(?:that|which|what)$",
    re.IGNORECASE,
)
"""What speaks of the conversation or leans on what was said before."""
_LOOSE_END: Final = re.compile(
    r"\b(?:that|so|too|much|a lot|well|better|together|again|away|back|up|off|out|on|for|with|to|of|in|at|about|and|or|but|the|an?|through|around|by|from|as|"
    r"last|later|before|after|if|when|because|ago|even|how|why|very|really|over|her|his|their|own|along|forward|down|then|ever|was|is|all)$",
    re.IGNORECASE,
)
_TALK: Final = re.compile(
    r"(?:Will|Would|Wants to|Needs to|Has to|Hopes to|Going to|Plans? to|Can|Can't|Could)\b (?:definitely |also |like to |love to )?(?:ask|know|hear|tell|say|check|talk|"
    r"discuss|thank|see|clarify|confirm|request|point out|mention|inform|apologi[sz]e|be|understand|find out|figure|admit|make sure|try|let|think|keep|do|"
    r"take (?:a|it|that|some|care|your)|wait|get back|give|remember|go(?:$| now| soon| to bed| with| check| find| prepare| deal)|pass|consider|enjoy|stay|pick|help|explain|"
    r"show|provide|assume|work hard|look|encounter|continue|share|hang|catch|bring|appreciate|never|always|have (?:a|fun)|believe|imagine|relate|wait|agree|use|speak (?:to|with)|return|relax|chat|not)\b",
    re.IGNORECASE,
)
_MOOD: Final = re.compile(
    r"Is (?:so|very|really|glad|happy|sorry|sure|excited|going|not sure|thrilled|grateful|thankful|lucky|stoked|afraid (?:that|not)|interested in (?:that|how|what))\b"
    r"|(?:Loves?|Likes?) (?:you|your|that|the (?:way|idea|sound|look)|how|what|hearing|seeing|this)\b"
    r"|Ha[ds] (?:(?:an?|some|so) )?(?:great|good|nice|fun|amazing|awesome|blast|hard|rough|tough|lot|wonderful|lovely|busy|long|really|few|feeling|idea|question|point|had|never"
    r"|always)\b|Got (?:it|you|this|that|back|some|a lot|to|so|really|into|through)\b|Gave (?!up)|Believes (?!in)|Hope[sd] (?!to)"
    r"|(?:Made|Took|Found|Kept|Told|Said|Meant|Felt|Came|Saw|Needed|Wanted|Tried|Keeps?|Makes?|Needs?|Gets?|Means|Misses|Cares|Brings|Brought|Sees|Comes|Follows|Does|Did|Dreams"
    r"|Sells|Tells|Says)\b(?!')"
)
"""What is said of the moment: feelings, talk, and verbs that say little by themselves."""
_GOING_ON: Final = re.compile(
    r"(?:Looking for|Learning|Studying|Planning|Training|Saving|Writing|Building|Expecting|Moving|Working (?:on|at|for|as)|Preparing|Going to|Renovating|Applying|Taking|Dating|"
    r"Raising|Attending|Volunteering|Recovering|Considering|Organizing|Organising|Launching|Opening|Starting|Visiting|Flying|Travell?ing|Trying to (?:learn|quit|lose|save|become))\b"
)
_AHEAD: Final = re.compile(
    r"(?:Will|Would|Wants to|Hopes to|Plans? (?:to|on)|Going to|Intends to|Has to|Needs to)\b (?:like to |love to |prefer to )?(?:learn|become|visit|buy|move|start|travel|write|open|study|"
    r"own|live|run|adopt|marry|lose|quit|join|publish|build|retire|graduate|fly|attend|turn|apply|finish|take (?:the |an? |my )?\w+|erase|wear|pay|avoid|go to|play|perform|host|"
    r"organi[sz]e|volunteer|teach|create|launch|save|improve|get (?:an?|married|my)|have (?:an? )?(?:baby|child|kid|surgery|operation|party|wedding|dog|cat)|start|work (?:as|at|for|in)|be a)\b",
    re.IGNORECASE,
)
_NAMED: Final = frozenset(
    "name nickname age birthday birthplace origin nationality gender home employer job school partner diet religion phone email language height weight salary commute device "
    "family pet friend allergy health study vehicle speak".split()
)


def _is_fact(text: str, said: Statement) -> bool:
    """Whether a statement of the speaker is worth remembering: it says something lasting or done, and stands on its own."""
    text = _sentence(text)
    told = text.split()
    if text.count('"') % 2 or _MOOD.match(text) and said.attribute not in {"health", "pet", "home", "employer", "job"} and not (said.attribute == "like" and told[0] == "Is"):
        return False
    if said.attribute == "like" and re.search(r"\b(?:answer|response|idea|question)s?$", text):
        return False
    leans = _LEANS.search(text.replace("the US", "the States"))
    if leans and not (said.attribute in {"home", "partner"} and leans.group().lower() in {"someone", "here"}):
        return False
    if said.attribute in _NAMED:
        return bool(content_words(text)) and (said.ended or bool(said.value) or said.attribute == "home") and not re.search(r" (?:of|with|in|at|to|for|the|and)$", text)
    if _LOOSE_END.search(text) and not said.ended:
        return False
    if told[0] == "Has" and said.attribute in {"own", "plan"} and told[1:2] != ["to"]:
        return _owned(text[4:])
    if (said.attribute == "plan" and not (said.ended and not said.empty)) or _TALK.match(text):
        return not _TALK.match(text) and len(told) > 3 and (bool(_AHEAD.match(_capital(text.removeprefix("No longer ")))) or bool(_GOING_ON.match(text)))  # noqa: PLR2004
    if said.attribute in {"like", "prefer"}:
        return bool(content_words(said.value)) and len(told) > 1
    if said.attribute in {"any"} or said.ended:
        return len(told) > 1
    if said.attribute in {"trait", "skill"}:
        return len(told) > 1 and told[-1].lower() not in INNER and not re.search(r"\b(?:believer|thing|person|way|fan of yours|reminder|dream|mess|work in progress)\b", text)
    if re.match(r"(?:Is|Was|Has)\b", text):
        return _state(text)
    if FORMS.get(told[0].lower(), ("", ""))[1] == "ing":
        return len(told) > 2 and bool(_GOING_ON.match(text))  # noqa: PLR2004
    return said.attribute in {"habit", "event"} and _deed(text, told)


_VAGUE: Final = frozenset("make keep need get want take see go come do believe follow bring manage support care have share stay avoid".split())


def _owned(value: str) -> bool:
    head = re.split(r"\b(?:about|for|with|on|in|of|that|who|to|regarding)\b|,", value, maxsplit=1)[0].split()
    return bool(head) and not INNER.intersection(word.lower() for word in head) and bool(re.match(r"(?:an?|no|the|\d\S*|two|three|four|five|six)\b|\w+ (?:car|bike|sister)|(?-i:[A-Z]\w+(?: [A-Z]\w+)*$)", value)) or head[:1] == ["anything"]


def _state(text: str) -> bool:
    if re.match(r"Was (?:born|raised|diagnosed|promoted|hired|fired|laid off|married|elected|admitted|accepted)\b", text):
        return True
    if done := re.match(r"Has (?:recently |just )?(?:been to|visited|lived|worked|studied|graduated|moved|bought|adopted|published|played|climbed|written|won|retired|started|joined) ", text):
        return len(text) > done.end()
    return bool(re.match(r"Is (?:not )?(?:from|in (?:the|an?) (?:band|army|navy|choir|club|team)|on (?:an? )?(?:diet|medication|parental leave|maternity leave)|part of)\b", text))


def _deed(text: str, told: list[str]) -> bool:
    """Whether something done, or done again and again, is told with what it was done to."""
    if told[0] in {"Doesn't", "Never", "Can't", "No"} or told[0].lower() in {"eats", "drinks"}:
        return len(told) > 1
    if len(told) == 1 or (len(told) == 2 and told[1].lower() in {"regularly", "daily"}):  # noqa: PLR2004
        return told[0] in {"Smokes", "Vapes", "Retired", "Graduated", "Hikes", "Runs", "Swims", "Volunteers", "Meditates", "Sings", "Skis", "Surfs", "Sews", "Paints"}
    words = [word.lower().strip(",") for word in told[1:]]
    if INNER.intersection(words) or re.search(r"\b(?:errors?|exception|traceback|message|output|response|that)\b", text):
        return False
    return len(told) > 2 or told[1][0].isupper() or FORMS.get(told[0].lower(), ("", ""))[0] in LASTING - _VAGUE  # noqa: PLR2004
