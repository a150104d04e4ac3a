"""Facts in English talk: what a speaker says of himself, of what is his, and of whom he has just named.

A sentence is cut into clauses that have their own subject; a clause becomes a text in the third person ("I moved to Braga":
"Moved to Braga"), which the table of statements reads. What a row understands is kept; of the rest only what tells something
done, planned or lasting, and stands on its own. A clause that is neither yields nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.rules.sentences import LONGEST, Sentence, commands, put_plainly
from langmem_adapter.statements.dates import TIME_WORDS, timed
from langmem_adapter.statements.english import GIVEN
from langmem_adapter.statements.parser import read
from langmem_adapter.statements.tables import lists, patterns, retold
from langmem_adapter.statements.words import FORMS, KINDS, WORDS, third
from langmem_adapter.text import content_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langmem_adapter.statements.statement import Statement

__all__ = ["english_facts"]

_LEANING: Final = {"home": WORDS["BESIDE_ONE"], "partner": WORDS["BESIDE_ONE"], "detail": frozenset({"on"})}
"""Words that lean on nothing where such an attribute is told: "lives with us", "flight is on the 12th"."""
_CLOSE: Final = KINDS - WORDS["PLURAL"] - {"friend", "fish", "bird", "partner"}
_P: Final = patterns("english-talk", GIVEN | {"CLOSE": "|".join(sorted(_CLOSE))})
"""How English is spoken: openings, joints of clauses, and what tells a fact from talk."""
_RETOLD: Final = retold("english-retold", GIVEN)
"""How what is spelt in haste ("im"), told in a roundabout way ("They put me on nights") and short ("'ve") is put plainly."""
_NAMED: Final = WORDS["NAMED"]
"""Attributes whose rows understand enough: what they read is a fact as it stands."""


def _tense(text: str) -> str:
    """The tense of the verb that opens a text ("past", "ing" …); empty where none does."""
    return FORMS.get(text.partition(" ")[0].lower(), ("", ""))[1]


def _leans(text: str, said: Statement) -> bool:
    """Whether a text leans on what was said before it, or on the conversation."""
    found = _P["LEANS"].search(text.replace("the US", "the States"))
    known = found is not None and found.group().lower().partition(" the ")[0] in _LEANING.get(said.attribute, ())
    whose = _P["WHOSE"].search(text) is not None and not said.people
    return (found is not None and not known) or whose


def _is_fact(text: str, said: Statement) -> bool:
    """Whether a statement of the speaker is a fact: "Moved to Rome", but not "Bought it there" or "Will do best"."""
    told = text.split()
    sober = said.attribute in WORDS["SOBER"] or (said.attribute == "like" and told[0] == "Is")
    if text.count('"') % 2 or (not sober and _P["MOOD"].match(text)) or _leans(text, said):
        return False
    if said.attribute in _NAMED and not (said.attribute == "hobby" and not said.ended and _vague_hobby(text)):
        return bool(content_words(text)) and (said.ended or bool(said.value)) and not _P["CUT_OFF"].search(text)
    if _P["LOOSE_END"].search(text) and not said.ended:
        return False
    if told[0] == "Has" and said.attribute in {"own", "plan"} and told[1:2] != ["to"]:
        return _P["OWNED"].match(text) is not None and not _inner(_P["OF_WHAT"].split(text)[0])
    if (said.attribute == "plan" and (said.empty or not said.ended)) or _P["TALK"].match(text):
        return _is_plan(text.removeprefix("No longer ").capitalize() if said.ended else text)
    return _is_told(text, said, told)


def _is_plan(text: str) -> bool:
    plainly = _P["AHEAD"].match(text) or _P["GOING_ON"].match(text)
    idle = _P["TALK"].match(text) or _inner(text) or _P["SOON"].search(text)
    return plainly is not None and not idle and len(text.split()) > 3  # noqa: PLR2004 - shorter ones say too little


def _is_told(text: str, said: Statement, told: list[str]) -> bool:
    if said.attribute in {"like", "prefer"}:
        return bool(content_words(said.value)) and len(told) > 1 and not _P["PRAISE"].search(text)
    if said.attribute in {"any", "trait", "skill"} or said.ended:
        return len(told) > 1 and (said.ended or not (_inner(told[-1]) or _P["NO_TRAIT"].search(text)))
    if told[0] in {"Is", "Was", "Has", "Doesn't"}:
        return _P["STATE"].match(text) is not None
    if _tense(text) == "ing":
        return (len(told) > 2 or told[-1][0].isupper()) and _P["GOING_ON"].match(text) is not None  # noqa: PLR2004
    return said.attribute in {"habit", "event", "hobby"} and _is_deed(text, told)


def _is_deed(text: str, told: list[str]) -> bool:
    """Whether something done, or done again and again, is told with what it was done to."""
    cut = timed(text)
    if len(told) == 1 or (cut and " " not in cut[0]):
        return told[0].lower() in WORDS["WHOLE"]
    if _inner(" ".join(told[1:])) or _P["OUTPUT"].search(text):
        return False
    if _tense(text) == "past":
        return _tied(text) and (len(told) > 2 or told[1][0].isupper() or any(map(str.isdigit, told[1])))  # noqa: PLR2004
    lasting = FORMS.get(told[0].lower(), ("", ""))[0] in WORDS["LASTING"] - WORDS["VAGUE"]
    return len(told) > 2 or lasting or told[0] == "Never"  # noqa: PLR2004


def _tied(text: str) -> bool:
    """Whether a deed is tied to a day, a name or somebody, or lasts: without one nobody knows later what it was."""
    return _P["ANCHOR"].search(text, text.find(" ")) is not None or _P["LASTING_DEED"].match(text) is not None


def _vague_hobby(text: str) -> bool:
    alone = " " not in text and text.lower() not in WORDS["WHOLE"]
    began = text.startswith(("Started", "Took"))
    return alone or (_tense(text) == "past" and not began and not _P["ANCHOR"].search(text))


def _inner(text: str) -> bool:
    """Whether a text names what one has only within the conversation."""
    told = _P["SOME_OF"].sub("", text)
    return not WORDS["INNER"].isdisjoint(word.lower().strip(",") for word in told.split())


_MARKS: Final = " ,;:—–-~*\"'(["


def english_facts(sentence: Sentence, *, first: bool, seen: str) -> Iterator[str]:
    """The facts of one English sentence, without subject where the speaker is meant: "Name is John", "Her name is Jesica".

    Args:
        sentence: One sentence.
        first: Whether it opens the message (where "This is Ann" is an introduction).
        seen: The facts found so far in the conversation, joined: names in them may be subjects.
    """
    body = _unopened(sentence.text)
    body = _plainly(body) if len(body) <= LONGEST else body
    if _P["SUPPOSED"].match(body):
        return
    found = _P["WHEN"].match(body)
    when = found["when"] if found else ""
    clauses = _clauses(body[found.end() :] if found else body)
    for place, clause in enumerate(clauses):
        asked = sentence.asks and place == len(clauses) - 1
        asks = asked or (_P["ASKING"].match(clause) and not _P["CALL"].match(clause))
        if not (asks or len(clause) > LONGEST or _P["SUPPOSED"].match(clause) or commands(clause)):
            for fact in _read(clause, first=first and place == 0, seen=seen):
                yield from _shown(fact, when)


def _plainly(body: str) -> str:
    """A sentence with roundabout wordings put plainly."""
    body = put_plainly(body, _RETOLD["spelt"])
    starts = _starts(body)
    for row in _RETOLD["told"]:
        if found := next(filter(None, (row.pattern.match(body, start) for start in starts)), None):
            body = f"{body[: found.start()]}{found.expand(row.put)}{body[found.end() :]}"
            starts = _starts(body)
    return body


def _starts(body: str) -> list[int]:
    return [found.end() for found in _P["STARTS"].finditer(body)]


def _unopened(text: str) -> str:
    start = 0
    while found := _P["OPENING"].match(text, start):
        start = found.end()
    return text[start:]


def _clauses(body: str) -> list[str]:
    clauses: list[str] = []
    start, shared = 0, ""
    for cut in [*_P["CUT"].finditer(body), None]:
        piece = body[start : cut.start() if cut else len(body)]
        if shared:  # "I live in Paris and work at Acme": the second half borrows the subject
            owner = _P["PRONOUN"].match(clauses[-1]) if clauses else None
            if clauses and (owner is None or (_tense(piece) == "base" and _governs(clauses[-1]))):
                clauses[-1] += f" {shared} {piece}"
            else:
                clauses.append(f"{owner.group()} {piece}" if owner else piece)
        elif clauses and _P["MY_SOMEBODY"].fullmatch(clauses[-1]):
            clauses[-1] += f" and {piece}"
        else:
            clauses.append(piece)
        if cut:
            start, shared = cut.end(), cut["shared"] or ""
    return [plain for clause in clauses if (plain := _unopened(_trimmed(clause, f"{_MARKS})]")))]


def _governs(clause: str) -> bool:
    """Whether what follows "and" is still what one will do, or wants to: "I want to rest and enjoy the sun"."""
    aims = (_tense(verb) == "base" or verb in {"try", "find", "be"} for verb in re.findall(r"\bto (\w+)", clause))
    return _P["GOVERNS"].search(clause) is not None or any(aims)


def _trimmed(text: str, marks: str) -> str:
    """A text without marks around it; a sign stays with what it stands at: -5, A-, A*."""
    bare = text.strip(marks)
    before, _, after = text.partition(bare) if bare else ("", "", "")
    sign = before[-1:] if bare[:1].isdigit() and before.endswith(("-", "~")) else ""
    return f"{sign}{bare}{after[: len(after) - len(after.lstrip('-*'))]}"


def _read(clause: str, *, first: bool, seen: str) -> Iterator[str]:
    """The facts of a clause by its subject."""
    if naming := _named(clause, first=first):
        yield naming
    elif _P["YOU"].search(clause):
        return  # talk with the assistant, not about the speaker
    elif found := _P["WITH_ME"].match(clause):
        yield from (_joined(fact, f"with {found['who']}") for fact in _predicate(found["rest"]))
    elif found := _P["FIRST"].match(clause):
        yield from _predicate(found["rest"])
    elif found := _P["MINE"].match(clause):
        yield from _of_others(_unshortened(found["rest"]))
    elif _P["BARE"].match(clause):
        yield from _predicate(clause if clause.lower().startswith("just ") else f"am {clause}")
    elif _P["OTHER"].match(clause) or clause.partition(" ")[0] in _P["NAMES"].findall(seen) or _P["DIED"].match(clause):
        yield from _of_others(clause)


def _joined(fact: str, whom: str) -> str:
    """A fact with whom it was done with, before its time: "Got married to her last week"."""
    cut = timed(fact)
    told = cut[0] if cut else fact
    return f"{told} {whom}{fact[len(told) :]}"


def _unshortened(told: str) -> str:
    """The clause with its verb in full: "phone's a Pixel" has no other, "sister's dog died" has, "mum's gone" is a past."""
    for found in _P["IS"].finditer(told):
        rest = told[found.end() :].split()
        open_ = any(rest[0].lower() in WORDS[name] for name in ("ADJECTIVES", "PASSIVE")) or _tense(rest[0]) == "ing"
        if not open_ and _tense(rest[0]) == "past":
            return f"{told[: found.start()]} has {told[found.start() + 3 :]}"
        active = [word for word in rest if word not in WORDS["PASSIVE"]]
        if open_ or not any(word.lower() in WORDS["FINITE"] or _tense(word) in {"now", "past"} for word in active):
            return f"{told[: found.start()]} is {told[found.start() + 3 :]}"
    return told


def _named(clause: str, *, first: bool) -> str:
    """What says a name: "Call me Al", "This is Ann", "Anna is my sister"."""
    clause = _P["NOW"].sub("", clause)
    for key, told in _NAMING.items():
        if found := _P[key].fullmatch(clause):
            return f"{told} {found['name']}"
    if _P["YOU"].search(clause):
        return ""
    if first and (found := _P["THIS_IS"].match(clause)) and found["name"].split()[0].lower() not in TIME_WORDS:
        return f"Name is {found['name']}"
    found = _P["MY_KIN"].match(clause)
    return f"Has a {found['kin']} named {found['name']}" if found else ""


_NAMING: Final = {"CALL": "Name is", "NICK": "Nickname is", "NOT_CALLED": "Is no longer nicknamed"}


def _of_others(told: str) -> Iterator[str]:
    """What is said of somebody else, or of something of the speaker's: only what a row understands, and what kin did."""
    told = _P["NOW"].sub("", told)
    text, other = _sentence(told), _P["OTHER"].match(told) is not None
    said = read(text)
    verb = not said.subject and said.attribute not in {"goal", "major"}
    misread = verb and text.partition(" ")[0].lower() in FORMS  # "loved ones are …"
    thing = said.subject in {"it", "its", "this", "that"} and said.attribute != "name"
    if misread or thing or _leans(_P["OTHER_WORD"].sub("", text), said):
        return
    deed = said.people and said.attribute in {"habit", "event", "trait", "skill", "prefer"} and _P["DEED"].match(text)
    known = WORDS["TOLD_OF_OTHERS"] if other else _NAMED | {"favorite", "detail", "like", "goal", "religion", "any"}
    understood = said.attribute in known or (deed and not other)
    if understood or (said.ended and said.attribute != "any"):
        yield told


_NO_NAME: Final = WORDS["ADJECTIVES"] | WORDS["DEMONYMS"] | TIME_WORDS | frozenset("team also currently".split())


def _predicate(rest: str) -> Iterator[str]:
    """Facts in what follows "I" or "we"; mostly one or none, two for "am Ann, a nurse"."""
    told, kept = _plain(_P["NOW"].sub("", rest))
    verb, _, after = told.partition(" ")
    after = _P["FILLER"].sub("", after) if verb in {"am", "have", "will", "can"} else after
    found = _P["I_AM"].match(_P["NOW"].sub("", after)) if verb == "am" else None
    if found and found["name"].split()[0].lower() not in _NO_NAME:
        yield f"Name is {found['name'].rstrip('.')}"
        if found["what"] or found["home"]:
            yield f"Is {found['what'] or 'from ' + found['home']}"
    elif (kept, verb) != ("Recently ", "read") and (fact := _standing(_third(verb.lower(), after))):
        if _tense(verb) == "base" and " to " not in fact:
            fact = _P["AND"].sub(lambda found: f"and {third(found[1])}", fact)
        yield f"{kept}{fact[0].lower()}{fact[1:]}" if kept else fact


def _standing(fact: str) -> str:
    """A fact, or as much from its beginning as stands on its own; empty where that is none."""
    joints = [found.start() for found in _P["JOINT"].finditer(fact)][::-1]
    for place in (len(fact), *joints):
        text = _sentence(fact[:place])
        if text and _is_fact(text, read(text)):
            return text
        if not _P["LEANS"].search(text):
            break
    return ""


def _plain(rest: str) -> tuple[str, str]:
    told, kept = put_plainly(rest.strip(), _RETOLD["short"], count=1), ""
    while True:
        if found := _P["FILLER"].match(told):
            told = told[found.end() :]
        elif (found := _P["DEGREE"].match(told)) and not kept:
            kept, told = found.group().capitalize(), told[found.end() :]
        else:
            return told, kept


def _third(verb: str, after: str) -> str:
    """The clause in the third person, without subject; empty where no verb of the table opens it."""
    over = _P["ENDED"].search(after) is not None
    after = _P["ENDED"].sub("", after)
    denied = re.match(r"(?:not|never|no longer) ", after)
    if verb in {"am", "are"}:
        no = "no longer" if over else denied.group().strip() if denied else ""
        return _being(after, no, after[denied.end() :] if denied else after)
    if verb in {"do", "does", "did"} and denied:
        told = f"No longer {_verb_third(after[4:])}" if over else f"Doesn't {after[4:]}"
        return "" if verb == "did" else told
    if never := re.match("(never|no longer) (.*)", f"{verb} {after}"):
        inner = _third(*_split(never[2]))
        return inner and f"{never[1].capitalize()} {inner[0].lower()}{inner[1:]}"
    return _stated(verb, after, " anymore" if over else "")


def _being(after: str, denied: str, what: str) -> str:
    if denied:
        return f"Is {denied} {_years(what)}"
    after = re.sub(r"^(?:still|now|only|really) (?=\w+ing\b)", "", after)
    progressive = _tense(after) == "ing" or after.startswith("going to ")
    return _capital(after) if progressive else f"Is {_years(after)}"


def _stated(verb: str, after: str, over: str) -> str:
    after = after.removeprefix("got ") if verb in {"have", "had"} else after
    if verb == "cannot":
        return f"Can't {after}{over}"
    if verb in _FIXED:
        return f"No longer has {after}" if verb == "have" and over else f"{_FIXED[verb]} {after}"
    if verb in WORDS["LASTING"]:
        return f"{third(verb).capitalize()} {after}{over}".strip()
    return f"{verb.capitalize()} {after}".strip() if _tense(verb) in {"past", "base"} else ""


_FIXED: Final = dict(pair.split("=") for pair in lists("english-forms")["FIXED"])


def _split(told: str) -> tuple[str, str]:
    head, _, tail = told.partition(" ")
    return head.lower(), tail


def _verb_third(told: str) -> str:
    head, tail = _split(told)
    return f"{third(head)} {tail}".strip() if head in FORMS else told


def _years(told: str) -> str:
    return f"{told} years old" if re.fullmatch(r"\d{1,3}", told) else told


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _sentence(fact: str) -> str:
    """A fact as it will stand."""
    text = _trimmed(_P["OF_ME"].sub("", fact), _MARKS)
    text = text.rstrip(")") if text.count(")") > text.count("(") else text
    return f'{text}"' if text.count('"') % 2 and '"' in text[1:] else text


def _shown(fact: str, when: str) -> Iterator[str]:
    text = _P["NOW"].sub("", _sentence(fact))
    if not content_words(text) or len(text) + len(when) >= LONGEST:
        return
    if when and not _P["JUST"].fullmatch(when) and when.lower() not in text.lower():
        text = f"{text} {when if when[:1].isdigit() else when[0].lower() + when[1:]}"
    yield _capital(text)
