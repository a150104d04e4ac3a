"""Closed classes of English: everyday verbs and their forms, family and pets, jobs, nationalities, lasting qualities.

They are lists on purpose: a word that is missing costs a fact, a guess would cost the user's trust in all of them.
"""

from __future__ import annotations

import re
from typing import Final

from langmem_adapter.vocabulary import IRREGULAR

__all__ = [
    "ADJECTIVES", "DEMONYMS", "DONE", "FEMALE", "FORMS", "INNER", "JOBS", "LASTING", "MALE", "OTHERS", "PETS", "PLURAL", "gerund",
    "third",
]  # fmt: skip


def third(verb: str) -> str:
    """The form of an English verb after he, she or it.

    Example:
        >>> third("live"), third("study"), third("teach"), third("have")
        ('lives', 'studies', 'teaches', 'has')
    """
    if verb in {"have", "be"}:
        return "has" if verb == "have" else "is"
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.search("[^aeiou]y$", verb) else f"{verb}s"


def gerund(verb: str) -> str:
    """The form in "-ing" of an English verb.

    Example:
        >>> gerund("hike"), gerund("swim"), gerund("play")
        ('hiking', 'swimming', 'playing')
    """
    if verb.endswith("e") and not verb.endswith(("ee", "be")):
        return f"{verb[:-1]}ing"
    return f"{_doubled(verb)}ing"


def _doubled(verb: str) -> str:
    short = re.fullmatch("[^aeiou]*[aeiou][bdgmnprt]|program", verb)
    return verb + verb[-1] if short else verb


def _past(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb}d"
    return f"{verb[:-1]}ied" if re.search("[^aeiou]y$", verb) else f"{_doubled(verb)}ed"


LASTING: Final = frozenset(
    "admire adore attend avoid bake believe bike bring brew build buy care celebrate climb coach code collect come commute "
    "compose cook crave cycle dance design detest develop direct dislike do draw dream drink drive earn eat employ enjoy "
    "exercise favor favour fear fish fly follow game garden go grow hate have hike hope hunt identify intend invest jog journal "
    "keep knit lead lean learn lift like listen live loathe love major make manage meditate mentor miss need own paint plan play "
    "practice practise pray prefer program race raise read rent reside ride row run sail save sew share sing skate ski sleep smoke "
    "speak specialise specialize spend stay stream struggle study subscribe suffer support surf swim take teach tutor train travel "
    "use vape visit volunteer wake walk want watch wear weigh work write".split()
)
"""Verbs whose present tells something lasting of the speaker."""

DONE: Final = LASTING | frozenset(
    "adopt apply arrange become begin book break bring cancel catch change choose complete cut date decide deliver die discuss divorce "
    "donate drop earn elope enroll enter fall find finish found gain get give graduate hang hire host hurt injure interview invite "
    "join land launch leave lose marry meet move open order organize organise pass pay perform photograph pick plant propose publish "
    "purchase quit receive recover register relocate renovate repair resign retire return say see sell settle set shoot sign sprain "
    "start stop submit swap switch tell throw transfer turn upgrade win wed".split()
)
"""Verbs whose past reports what was done."""

_NO_PAST: Final = {"be", "say", "tell", "child", "man", "woman", "person", "foot", "tooth", "mouse", "wife"}
_SAME_PAST: Final = {
    "cut": "cut",
    "quit": "quit",
    "read": "read",
    "hurt": "hurt",
    "set": "set",
    "cost": "cost",
    "wed": "wed",
}

FORMS: Final[dict[str, tuple[str, str]]] = {
    **{gerund(verb): (verb, "ing") for verb in DONE},
    **{_past(verb): (verb, "past") for verb in DONE - IRREGULAR.keys()},
    **{form: (verb, "past") for form, verb in IRREGULAR.items() if verb in DONE},
    **{third(verb): (verb, "now") for verb in LASTING | DONE},
    **{verb: (verb, "base") for verb in LASTING},
    **{form: (verb, "past") for form, verb in _SAME_PAST.items() if verb != "read"},
    "had": ("have", "past"), "did": ("do", "past"), "dying": ("die", "ing"), "looking": ("look", "ing"), "trying": ("try", "ing"), "cancelled": ("cancel", "past"), "travelled": ("travel", "past"), "travelling": ("travel", "ing"), "enrolled": ("enroll", "past"), "got": ("get", "past"),
}  # fmt: skip
"""Forms of verbs, each with its base and its tense: `base`, `now`, `past`, `ing`."""

INNER: Final = frozenset(
    "advice answer answers chance clue concern couple doubt error errors feeling feelings feedback few hard help hunch idea ideas "
    "information issue issues look luck moment point problem problems query question questions request requests say second "
    "suggestion suggestions task thing things thought thoughts time trouble update fun blast bit lot ton way reason reasons".split()
)
"""Nouns that one has only within the conversation: "I have a question"."""

ADJECTIVES: Final = frozenset(
    "addicted afraid agnostic allergic ambidextrous asthmatic atheist autistic bilingual bisexual blind born celiac colorblind "
    "colourblind color-blind colour-blind committed dairy-free deaf diabetic divorced dyslexic employed engaged expecting fluent fond "
    "gay gluten-free halal intolerant introverted extroverted jewish keen keto kosher lactose-intolerant left-handed lesbian "
    "married muslim christian buddhist hindu nearsighted short-sighted passionate pescatarian pregnant responsible retired "
    "right-handed scared self-employed separated single sober straight terrified trans transgender trilingual unemployed vegan "
    "vegetarian widowed lactose gluten interested".split()
)
"""Complements of "I am" that last longer than the conversation; all others ("tired", "sorry") are left alone."""

DEMONYMS: Final = frozenset(
    "african albanian algerian american arab argentine argentinian armenian asian australian austrian bangladeshi belgian "
    "bolivian bosnian brazilian british bulgarian cambodian canadian catalan catholic chilean chinese christian colombian "
    "croatian cuban czech danish dutch ecuadorian egyptian english estonian ethiopian european filipino finnish french georgian "
    "german ghanaian greek hungarian icelandic indian indonesian iranian iraqi irish israeli italian jamaican japanese jewish "
    "jordanian kazakh kenyan korean kurdish latvian lebanese lithuanian malaysian mexican mongolian moroccan muslim nepali "
    "nigerian norwegian pakistani palestinian persian peruvian polish portuguese protestant romanian russian scottish serbian "
    "singaporean slovak slovenian spanish sudanese swedish swiss syrian taiwanese thai tibetan tunisian turkish ugandan ukrainian "
    "uruguayan venezuelan vietnamese welsh yemeni".split()
)

JOBS: Final = (
    "accountant|actor|actress|administrator|analyst|apprentice|architect|artist|assistant|astronaut|attorney|auditor|author|baker|"
    "banker|barber|barista|bartender|biologist|broker|bus driver|butcher|carpenter|cashier|ceo|chef|chemist|clerk|coach|consultant|"
    "contractor|cook|cto|dentist|designer|detective|developer|diplomat|director|doctor|driver|economist|editor|electrician|engineer|"
    "entrepreneur|farmer|firefighter|florist|freelancer|gardener|geologist|hairdresser|historian|housewife|illustrator|instructor|"
    "intern|journalist|judge|lawyer|lecturer|librarian|manager|mathematician|mechanic|midwife|musician|nurse|officer|paralegal|"
    "paramedic|pharmacist|photographer|physicist|physiotherapist|pilot|planner|plumber|politician|postdoc|principal|producer|"
    "professor|programmer|psychiatrist|psychologist|realtor|receptionist|recruiter|reporter|researcher|salesman|salesperson|scientist|"
    "secretary|social worker|soldier|statistician|surgeon|tailor|teacher|technician|tester|therapist|trader|trainer|trainee|"
    "translator|tutor|vet|veterinarian|waiter|waitress|welder|writer"
)
"""As a pattern."""

FEMALE: Final = frozenset(
    "aunt daughter fiancée fiancee girlfriend granddaughter grandma grandmother mom mother mum mama niece sister stepmother "
    "wife ex-wife stepsister sister-in-law mother-in-law".split()
)
MALE: Final = frozenset(
    "boyfriend brother dad father fiancé fiance grandfather grandpa grandson husband nephew son stepfather uncle ex-husband "
    "stepbrother brother-in-law father-in-law".split()
)
PLURAL: Final = frozenset(
    "parents kids children siblings sisters brothers twins grandparents friends sons daughters".split()
)
OTHERS: Final = frozenset(
    "baby boss child colleague coworker cousin friend kid neighbor neighbour partner roommate flatmate sibling twin".split()
)
PETS: Final = frozenset(
    "bird bunny cat cats dog dogs fish hamster horse kitten parrot pet pony puppy rabbit snake tortoise turtle".split()
)
