"""Word lists of the rule reasoner: closed classes and the everyday verbs in which people speak of themselves.

They are lists on purpose: a verb that is missing costs a fact, a guess would cost the user's trust in all of them.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ADJECTIVES",
    "BASE",
    "DEMONYMS",
    "FEMALE",
    "INNER",
    "JOBS",
    "MALE",
    "MONTHS",
    "PARTICIPLES",
    "PAST",
    "PETS",
    "PLURAL",
    "SINGLE_NOUNS",
    "THIRD",
    "third",
]


def third(verb: str) -> str:
    """The form of an English verb after he, she or it.

    Example:
        >>> third("live"), third("study"), third("teach"), third("have")
        ('lives', 'studies', 'teaches', 'has')
    """
    if verb in _ODD:
        return _ODD[verb]
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2:-1] not in set("aeiou"):
        return f"{verb[:-1]}ies"
    return f"{verb}s"


_ODD: Final = {"have": "has", "be": "is", "am": "is", "are": "is"}

BASE: Final = frozenset(
    "admire adore attend avoid bake believe bike bring brew build buy care celebrate climb coach code collect come "
    "commute "
    "compose cook crave cycle dance design detest develop direct dislike do draw dream drink drive earn eat employ "
    "enjoy "
    "exercise favor favour fear fish fly follow game garden go grow hate have hike hope hunt intend invest jog "
    "journal keep "
    "knit lead learn like listen live loathe love major make manage meditate mentor miss need own paint plan play "
    "practice "
    "practise pray prefer program race raise read rent ride row run sail save sew sing skate ski sleep smoke "
    "specialise "
    "specialize speak spend stay struggle study subscribe suffer support surf swim take teach train travel use vape "
    "visit volunteer wake walk want watch wear weigh work write".split()
)
"""Present-tense verbs that tell something lasting about the speaker."""

THIRD: Final = frozenset(third(verb) for verb in BASE)

PAST: Final = {
    "adopted": "adopt", "ate": "eat", "attended": "attend", "baked": "bake", "became": "become", "began": "begin",
    "bought": "buy", "broke": "break", "built": "build", "came": "come", "caught": "catch", "celebrated": "celebrate",
    "changed": "change", "chose": "choose", "climbed": "climb", "completed": "complete", "cooked": "cook", "cut": "cut",
    "decided": "decide", "died": "die", "discussed": "discuss", "drank": "drink", "drove": "drive", "enjoyed": "enjoy",
    "fell": "fall", "finished": "finish", "flew": "fly", "founded": "found", "gained": "gain", "gave": "give",
    "got": "get", "graduated": "graduate", "grew": "grow", "had": "have", "hated": "hate", "hired": "hire", "hurt": "hurt",
    "injured": "injure", "invited": "invite", "joined": "join", "launched": "launch", "learned": "learn",
    "learnt": "learn", "left": "leave", "liked": "like", "lived": "live", "lost": "lose", "loved": "love", "made": "make",
    "majored": "major", "married": "marry", "met": "meet", "moved": "move", "opened": "open", "ordered": "order",
    "paid": "pay", "painted": "paint", "passed": "pass", "planted": "plant", "played": "play", "published": "publish",
    "quit": "quit", "ran": "run", "received": "receive", "renovated": "renovate", "rented": "rent", "resigned": "resign",
    "retired": "retire", "sang": "sing", "saw": "see", "signed": "sign", "slept": "sleep", "sold": "sell",
    "spent": "spend", "started": "start", "stayed": "stay", "stopped": "stop", "studied": "study", "swam": "swim",
    "switched": "switch", "taught": "teach", "took": "take", "trained": "train", "travelled": "travel",
    "traveled": "travel", "turned": "turn", "visited": "visit", "volunteered": "volunteer", "walked": "walk",
    "was": "be", "watched": "watch", "went": "go", "were": "be", "won": "win", "wore": "wear", "worked": "work",
    "wrote": "write",
}  # fmt: skip
"""Past forms that report an activity, each with its base form."""

PARTICIPLES: Final = frozenset(PAST) - {"was", "were", "had", "saw", "went", "ate", "became", "broke"} | frozenset(
    "been become begun broken chosen done drunk driven eaten fallen flown given gone grown ridden run seen sung "
    "swum taken "
    "woken worn written never always recently just".split()
)

INNER: Final = frozenset(
    "advice answer answers chance clue concern couple doubt error errors feeling feelings feedback few hard help "
    "hunch idea "
    "information issue issues look luck moment problem problems query question questions request requests say "
    "second suggestion suggestions "
    "task thing things thought thoughts time trouble update".split()
)
"""Nouns that one has only within the conversation: "I have a question"."""

ADJECTIVES: Final = frozenset(
    "able addicted afraid agnostic allergic ambidextrous asthmatic atheist autistic bad based bilingual bisexual "
    "blind born "
    "celiac colorblind colourblind color-blind colour-blind committed dairy-free deaf diabetic divorced dyslexic "
    "employed "
    "engaged expecting fluent fond gay gluten gluten-free good halal in into interested intolerant introverted "
    "extroverted "
    "jewish keen keto kosher lactose lactose-intolerant left-handed lesbian married muslim christian buddhist hindu "
    "nearsighted short-sighted passionate pescatarian pregnant responsible retired right-handed scared self-employed "
    "separated single sober straight terrified trans transgender trilingual unemployed vegan vegetarian "
    "widowed".split()
)
"""Complements of "I am" that last longer than the conversation; all others ("tired", "sorry") are left alone."""

DEMONYMS: Final = frozenset(
    "african albanian algerian american arab argentine argentinian armenian asian australian austrian bangladeshi "
    "belgian "
    "bolivian bosnian brazilian british bulgarian cambodian canadian catalan catholic chilean chinese christian "
    "colombian "
    "croatian cuban czech danish dutch ecuadorian egyptian english estonian ethiopian european filipino finnish "
    "french "
    "georgian german ghanaian greek hungarian icelandic indian indonesian iranian iraqi irish israeli italian "
    "jamaican "
    "japanese jewish jordanian kazakh kenyan korean kurdish latvian lebanese lithuanian malaysian mexican mongolian "
    "moroccan muslim nepali nigerian norwegian pakistani palestinian persian peruvian polish portuguese protestant "
    "puerto romanian russian scottish serbian singaporean slovak slovenian spanish sri sudanese swedish swiss syrian "
    "taiwanese thai tibetan tunisian turkish ugandan ukrainian uruguayan venezuelan vietnamese welsh yemeni".split()
)

JOBS: Final = frozenset(
    "accountant actor actress administrator analyst apprentice architect artist assistant astronaut attorney baker "
    "banker "
    "barber barista bartender biologist broker butcher carpenter cashier ceo chef chemist clerk coach consultant "
    "contractor cook cto dentist designer detective developer diplomat director doctor driver economist editor "
    "electrician "
    "engineer entrepreneur farmer firefighter freelancer gardener geologist hairdresser historian illustrator intern "
    "journalist judge lawyer lecturer librarian manager mathematician mechanic midwife musician nurse officer "
    "paramedic "
    "pharmacist photographer physicist physiotherapist pilot planner plumber politician postdoc principal professor "
    "programmer psychiatrist psychologist realtor receptionist recruiter researcher salesman salesperson scientist "
    "secretary soldier statistician student surgeon tailor teacher technician therapist tester trader trainer "
    "translator "
    "tutor vet veterinarian waiter waitress writer".split()
)

FEMALE: Final = frozenset(
    "aunt daughter fiancée fiancee girlfriend granddaughter grandma grandmother mom mother mum niece sister "
    "stepmother wife "
    "ex-wife stepsister sister-in-law mother-in-law "
    "姐姐 妹妹 妈妈 母亲 妻子 老婆 太太 女儿 女朋友 女友 奶奶 外婆 姥姥 阿姨 姑姑 侄女 孙女 姐 妹".split()
)
MALE: Final = frozenset(
    "boyfriend brother dad father fiancé fiance grandfather grandpa grandson husband nephew son stepfather uncle "
    "ex-husband "
    "stepbrother brother-in-law father-in-law "
    "哥哥 弟弟 爸爸 父亲 丈夫 老公 先生 儿子 男朋友 男友 爷爷 外公 姥爷 叔叔 舅舅 侄子 孙子 哥 弟".split()
)
PLURAL: Final = frozenset(
    "parents kids children siblings sisters brothers twins grandparents friends sons daughters 父母 孩子们 爸妈 "
    "双胞胎".split()
)
PETS: Final = frozenset(
    "bird bunny cat cats dog dogs fish hamster horse kitten parrot pet pony puppy rabbit snake tortoise turtle car "
    "boat bike "
    "狗 猫 小狗 小猫 狗狗 猫咪 鹦鹉 仓鼠 兔子 乌龟 宠物 马 鸟 车".split()
)

SINGLE_NOUNS: Final = frozenset(
    "address age anniversary birthday boss budget city company country diet e-mail email employer favorite "
    "favourite gender "
    "handle height hometown job language major manager name nationality nickname number occupation phone "
    "profession pronouns "
    "religion role salary school size surname timezone title university username weight zip".split()
)
"""Nouns of "my … is …" that have one value at a time."""

MONTHS: Final = frozenset(
    "january february march april may june july august september october november december monday tuesday wednesday "
    "thursday friday saturday sunday today tomorrow tonight yesterday weekend morning afternoon evening night "
    "noon".split()
)
"""Words of time: never a person's name, and no head of a compound noun."""
