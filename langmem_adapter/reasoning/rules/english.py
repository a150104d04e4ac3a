"""Facts in English talk: what a speaker says of himself, of what is his, and of whom he has just named.

A sentence is cut into clauses that have their own subject; a clause becomes a text in the third person ("I moved to Braga":
"Moved to Braga"), which the table of statements reads. What a row understands is kept; of the rest only what tells something
done, planned or lasting, and stands on its own. A clause that is neither yields nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.rules.sentences import LONGEST, Sentence, commands
from langmem_adapter.statements.dates import TIME_WORDS, timed
from langmem_adapter.statements.english import GIVEN
from langmem_adapter.statements.reading import read
from langmem_adapter.statements.tables import patterns
from langmem_adapter.statements.words import ADJECTIVES, DEMONYMS, FORMS, INNER, KINDS, LASTING, PLURAL, third
from langmem_adapter.text import content_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langmem_adapter.statements.statement import Statement

__all__ = ["english_facts"]

# ── clauses ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

"""A memory holds until it is changed: "now" at the end of one would be wrong tomorrow."""
_P: Final = patterns(
    "english-talk", GIVEN | {"CLOSE": "|".join(sorted(KINDS - PLURAL - set("friend fish bird partner".split())))}
)
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
    if _P["SUPPOSED"].match(body):
        return
    found = _P["WHEN"].match(body)
    when = found["when"] if found else ""
    clauses = _clauses(body[found.end() :] if found else body)
    for place, clause in enumerate(clauses):
        asked = sentence.asks and place == len(clauses) - 1
        if (
            asked
            or len(clause) > LONGEST
            or (_P["ASKING"].match(clause) and not _P["CALL"].match(clause))
            or _P["SUPPOSED"].match(clause)
            or commands(clause)
        ):
            continue
        for fact in _read(clause, first=first and place == 0, seen=seen):
            yield from _shown(fact, when)


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
            if clauses and (
                owner is None or (FORMS.get(_split(piece)[0], ("", ""))[1] == "base" and _governs(clauses[-1]))
            ):
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
    modal = re.search(r"(?:'ll|'d|\b(?:will|would|can|could|should|might|must|let|help)) ", clause)
    return modal is not None or any(
        FORMS.get(verb, ("", ""))[1] == "base" or verb in {"try", "find", "be"}
        for verb in re.findall(r"\bto (\w+)", clause)
    )


def _trimmed(text: str, marks: str) -> str:
    """A text without marks around it; a sign stays with what it stands at: -5, A-, A*."""
    bare = text.strip(marks)
    before, _, after = text.partition(bare) if bare else ("", "", "")
    sign = before[-1:] if bare[:1].isdigit() and before.endswith(("-", "~")) else ""
    return f"{sign}{bare}{after[: len(after) - len(after.lstrip('-*'))]}"


def _read(clause: str, *, first: bool, seen: str) -> Iterator[str]:
    """The facts of a clause by its subject."""
    if found := _P["CALL"].match(clause):
        yield f"Name is {found['name']}"
    elif found := _P["NICK"].match(clause):
        yield f"Nickname is {found['name']}"
    elif _P["YOU"].search(clause):
        return  # talk with the assistant, not about the speaker
    elif first and (found := _P["THIS_IS"].match(clause)) and found["name"].split()[0].lower() not in TIME_WORDS:
        yield f"Name is {found['name']}"
    elif found := _P["MY_KIN"].match(clause):
        yield f"Has a {found['kin']} named {found['name']}"
    elif found := _P["WITH_ME"].match(clause):
        yield from (f"{fact} with {found['who']}" for fact in _predicate(found["rest"]))
    elif found := _P["FIRST"].match(clause):
        yield from _predicate(found["rest"])
    elif found := _P["MINE"].match(clause):
        told = re.sub(r"^((?:[\w-]+ )?name)'s (?=\w)", r"\1 is ", found["rest"], flags=re.IGNORECASE)
        yield from _of_others(re.sub(r"^([\w-]+)'s (?=(?:an?|called|named|allergic|from|in)\b)", r"\1 is ", told))
    elif _P["OTHER"].match(clause):
        yield from _of_others(clause)
    elif _P["BARE"].match(clause):
        yield from _predicate(clause if clause.lower().startswith("just ") else f"am {clause}")
    elif (name := clause.partition(" ")[0]) in set(_P["NAMES"].findall(seen)) or re.match(
        r"[A-Z]\w+ (?:died|passed away)\b", clause
    ):
        yield from _of_others(clause) if name else ()


def _of_others(told: str) -> Iterator[str]:
    """What is said of somebody else, or of something of the speaker's: only what a row understands, and what kin did."""
    text = _sentence(told)
    said = read(text)
    other = _P["OTHER"].match(told) is not None
    if FORMS.get(text.partition(" ")[0].lower()) and not said.subject:  # "loved ones are …"
        return
    if said.subject in _NOT_MINE and said.attribute != "name" or _leans(re.sub(_P["OTHER_WORD"], "", text), said):
        return
    named = said.attribute in _NAMED | {"favorite", "detail", "like", "goal", "religion"} or (
        said.ended and said.attribute != "any"
    )
    of_kin = bool(said.people) and said.attribute in {"habit", "event", "trait", "skill", "prefer"} and not other
    gone = said.attribute == "any" and not other
    if named or gone or (of_kin and (len(text.split()) > 3 or re.search(r"\d|died|passed away", text))):  # noqa: PLR2004
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
_NO_NAME: Final = ADJECTIVES | DEMONYMS | TIME_WORDS | frozenset("team also currently".split())


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
    elif fact := _standing(_third(verb.lower(), after)):
        if FORMS.get(verb.lower(), ("", ""))[1] == "base" and " to " not in fact:
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
    told, kept = rest.strip(), ""
    for short, long in _SHORT:
        told = short.sub(long, told, count=1)
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
        if denied:
            return f"Is {'no longer' if over or denied.group() == 'no longer ' else denied.group().strip()} {_years(after[denied.end() :])}"
        after = re.sub(r"^(?:still|now|only|really) (?=\w+ing\b)", "", after)
        return _capital(after) if _progressive(after) else f"Is {_years(after)}"
    if verb in {"do", "does"} and denied:
        return f"No longer {_verb_third(after[4:])}" if over else f"Doesn't {after[4:]}"
    if verb == "did" and denied:
        return ""
    if verb == "no" and after.startswith("longer "):
        inner = _third(*_split(after[7:]))
        return inner and (
            f"Is no longer {inner[3:]}" if inner.startswith("Is ") else f"No longer {inner[0].lower()}{inner[1:]}"
        )
    if verb == "never":
        head, tail = _split(after)
        inner = _third(head, tail)
        return inner and f"Never {inner[0].lower()}{inner[1:]}"
    if verb == "cannot":
        return f"Can't {after}{' anymore' if over else ''}"
    if verb in {"have", "had"} and re.match(r"got ", after):
        after = after[4:]
    fixed = {
        "have": "Has",
        "was": "Was",
        "were": "Was",
        "will": "Will",
        "shall": "Will",
        "would": "Would",
        "can": "Can",
        "used": "Used",
        "had": "Had",
    }
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
    return FORMS.get(re.sub(r"^(?:still|now|only|really) ", "", after).partition(" ")[0].lower(), ("", ""))[
        1
    ] == "ing" or after.startswith("going to ")


def _years(told: str) -> str:
    return f"{told} years old" if re.fullmatch(r"\d{1,3}", told) else told


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _sentence(fact: str) -> str:
    """A fact as it will stand."""
    text = _trimmed(_P["OF_ME"].sub("", fact), _MARKS)
    text = text.rstrip(")") if text.count(")") > text.count("(") else text
    return f'{text}"' if text.count('"') % 2 and '"' in text[1:] else text


_JUST: Final = frozenset({"yesterday", "today", "earlier", "earlier today", "this morning", "this afternoon"})


def _shown(fact: str, when: str) -> Iterator[str]:
    text = _P["NOW"].sub("", _sentence(fact))
    if not content_words(text) or len(text) + len(when) >= LONGEST:
        return
    if when and when.lower() not in _JUST and when.lower() not in text.lower():
        text = f"{text} {when if when[:1].isdigit() else when[0].lower() + when[1:]}"
    yield _capital(text)


# ── what is a fact ──────────────────────────────────────────────────────────────────────────────────────────────────────

"""What speaks of the conversation or leans on what was said before."""
"""What is said of the moment: feelings, talk, and verbs that say little by themselves."""
_NAMED: Final = frozenset(
    "name nickname age birthday birthplace origin nationality gender home employer job school partner diet religion phone email language height weight salary commute device "
    "family pet friend allergy health study vehicle speak hobby group visit".split()
)


def _leans(text: str, said: Statement) -> bool:
    """Whether a text leans on what was said before it."""
    found = _P["LEANS"].search(text.replace("the US", "the States"))
    known = said.attribute in {"home", "partner"} and found and found.group().lower() in {"someone", "here"}
    whose = re.search(r"(?<!^)\b(?:his|her|their|its)\b", text) and not said.people
    return bool((found and not known) or whose)


def _is_fact(text: str, said: Statement) -> bool:
    """Whether a statement of the speaker is worth remembering: it says something lasting or done, and stands on its own."""
    text = _sentence(text)
    told = text.split()
    if (
        text.count('"') % 2
        or _P["MOOD"].match(text)
        and said.attribute not in {"health", "pet", "home", "employer", "job"}
        and not (said.attribute == "like" and told[0] == "Is")
    ):
        return False
    if said.attribute == "like" and re.search(r"\b(?:answer|response|idea|question)s?$", text):
        return False
    if _leans(text, said):
        return False
    if (
        said.attribute == "hobby"
        and not said.ended
        and (
            len(told) == 1
            and not _alone(told)
            or FORMS.get(told[0].lower(), ("", ""))[1] == "past"
            and told[0] not in {"Started", "Took"}
        )
    ):
        return _alone(told) or _P["ANCHOR"].search(text) is not None
    if said.attribute in _NAMED:
        return (
            bool(content_words(text))
            and told[-1] not in {"well", "hard", "too", "much", "lot"}
            and (said.ended or bool(said.value) or said.attribute == "home")
            and not re.search(r" (?:of|with|in|at|to|for|the|and)$", text)
        )
    if _P["LOOSE_END"].search(text) and not said.ended:
        return False
    if told[0] == "Has" and said.attribute in {"own", "plan"} and told[1:2] != ["to"]:
        return _owned(text[4:])
    if (said.attribute == "plan" and not (said.ended and not said.empty)) or _P["TALK"].match(text):
        if INNER.intersection(word.lower() for word in told) or re.search(r"\b(?:soon|again|someday|sometime)$", text):
            return False
        return (
            not _P["TALK"].match(text)
            and len(told) > 3
            and (bool(_P["AHEAD"].match(_capital(text.removeprefix("No longer ")))) or bool(_P["GOING_ON"].match(text)))
        )  # noqa: PLR2004
    if said.attribute in {"like", "prefer"}:
        return bool(content_words(said.value)) and len(told) > 1 and not _P["PRAISE"].search(text)
    if said.attribute in {"any"} or said.ended:
        return len(told) > 1
    if said.attribute in {"trait", "skill"}:
        return (
            len(told) > 1
            and told[-1].lower() not in INNER
            and not re.search(
                r"\b(?:believer|thing|person|way|fan of yours|reminder|dream|mess|work in progress)\b", text
            )
        )
    if re.match(r"(?:Is|Was|Has)\b", text):
        return _state(text)
    if FORMS.get(told[0].lower(), ("", ""))[1] == "ing":
        return len(told) > 2 and bool(_P["GOING_ON"].match(text))  # noqa: PLR2004
    return said.attribute in {"habit", "event"} and _deed(text, told)


"""What pays a compliment: "I love the colours!" """
_VAGUE: Final = frozenset(
    "make keep need get want take see go come do believe follow bring manage support care have share stay avoid".split()
)


def _owned(value: str) -> bool:
    head = re.split(r"\b(?:about|for|with|on|in|of|that|who|to|regarding)\b|,", value, maxsplit=1)[0].split()
    return (
        bool(head)
        and not INNER.intersection(word.lower() for word in head)
        and bool(
            re.match(
                r"(?:an?|no|the|\d\S*|two|three|four|five|six)\b|\w+ (?:car|bike|sister)|(?-i:[A-Z]\w+(?: [A-Z]\w+)*$)",
                value,
            )
        )
        or head[:1] == ["anything"]
    )


def _state(text: str) -> bool:
    if re.match(
        r"Was (?:born|raised|diagnosed|promoted|hired|fired|laid off|married|elected|admitted|accepted)\b", text
    ):
        return True
    if done := re.match(
        r"Has (?:recently |just )?(?:been to|visited|lived|worked|studied|graduated|moved|bought|adopted|published|climbed|written|won|retired|started|joined) ",
        text,
    ):
        return len(text) > done.end()
    return bool(
        re.match(
            r"Is (?:not )?(?:from|in (?:the|an?) (?:band|army|navy|choir|club|team)|on (?:an? )?(?:diet|medication|parental leave|maternity leave)|part of)\b",
            text,
        )
    )


"""What ties a deed to a day, a name or somebody: without one nobody knows later what it was."""


def _alone(told: list[str]) -> bool:
    return told[0] in _WHOLE


_WHOLE: Final = frozenset(
    third(verb).capitalize()
    for verb in "smoke vape hike run swim cycle volunteer meditate sing ski surf sew knit paint jog dance garden climb".split()
)
"""Verbs that are a statement on their own: "I smoke"."""


def _deed(text: str, told: list[str]) -> bool:
    """Whether something done, or done again and again, is told with what it was done to."""
    if told[0] == "Doesn't":
        return (
            re.match(
                r"Doesn't (?:eat|drink|smoke|vape|drive|speak|use|watch|wear|work|play|cook|exercise|own|celebrate|listen|read|believe in|write|travel|fly|swim|run|sleep)\b",
                text,
            )
            is not None
        )
    if told[0] in {"Never", "No"} or told[0].lower() in {"eats", "drinks"}:
        return len(told) > 1
    cut = timed(text)
    if len(told) == 1 or (cut and " " not in cut[0]):
        return _alone(told)
    words = [word.lower().strip(",") for word in told[1:]]
    if INNER.intersection(words) or re.search(
        r"\b(?:errors?|exception|traceback|message|output|response|that)\b", text
    ):
        return False
    if FORMS.get(told[0].lower(), ("", ""))[1] == "past" and not (
        _P["ANCHOR"].search(text, len(told[0])) or _P["LASTING_DEED"].match(text)
    ):
        return False
    return (
        len(told) > 2
        or told[1][0].isupper()
        or any(map(str.isdigit, told[1]))
        or FORMS.get(told[0].lower(), ("", ""))[0] in LASTING - _VAGUE
    )  # noqa: PLR2004
