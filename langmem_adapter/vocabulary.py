"""Word lists: what the rules of a language cannot tell. English and Chinese; everything else works without them.

They are data for `text` and `languages`, and nothing else reads them. A change of `STOPWORDS`, `STOPWORDS_CJK`, `CLITICS`,
`ELIDED`, `IRREGULAR`, `TIMES` or `TOPICS` changes the words that are stored: raise `text.TOKENIZER` with it; the others are
only asked when a search is made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = [
    "CHANGES",
    "CHANGES_CJK",
    "CLITICS",
    "ELIDED",
    "IRREGULAR",
    "KIN",
    "LIGHT",
    "RELATED",
    "STOPWORDS",
    "STOPWORDS_CJK",
    "TIMES",
    "TOPICS",
    "WHEN",
]

STOPWORDS: Final = frozenset(
    "a about after all also am an and any are as at be been before being but by can could did do does doing done "
    "for from get had has have having he her hers him his how i if in into is it its just let like me more most "
    "much my no nor not of on or our out over own really s same she should so some such t than that the their "
    "them then there these they this those to too under up us very was we were what when where which while who "
    "whom why will with would you your".split()
)
"""Stems that mark grammar, hardly meaning."""

STOPWORDS_CJK: Final = frozenset("的了是在有和我你他她它们这那也就都很吗呢吧啊着过一个不人说要会对")
"""Chinese particles and pronouns; as parts of pairs of letters they still count."""

CLITICS: Final = frozenset("s t d m re ve ll".split())
"""What stands after an apostrophe and is no word: Anna's, don't, we'll."""

ELIDED: Final = frozenset(
    "c d j l m n s t qu jusqu lorsqu puisqu quoiqu gl un all dall dell nell sull coll agl dagl degl negl sugl quest "
    "quell sant".split()
)
"""What French, Italian and Catalan leave of a word before an apostrophe: l'avion, dell'anno, d'aigua."""

IRREGULAR: Final = {
    form: verb
    for verb, *forms in (
        group.split()
        for group in (
            "go goes went gone; buy bought; teach taught; think thought; bring brought; catch caught; "
            "fight fought; seek sought; sell sold; tell told; hold held; feel felt; keep kept; "
            "leave left; meet met; lose lost; find found; build built; send sent; spend spent; "
            "lend lent; sit sat; stand stood; understand understood; win won; hear heard; pay paid; "
            "say said; make made; lead led; feed fed; speak spoke spoken; write wrote written; "
            "drive drove driven; ride rode ridden; choose chose chosen; break broke broken; "
            "wake woke woken; wear wore worn; tear tore torn; swim swam swum; sing sang sung; "
            "drink drank drunk; begin began begun; run ran; come came; become became; see saw seen; "
            "take took taken; give gave given; eat ate eaten; fall fell fallen; know knew known; "
            "grow grew grown; throw threw thrown; fly flew flown; draw drew drawn; show shown; "
            "get got gotten; forget forgot forgotten; sleep slept; dream dreamt; learn learnt; "
            "hide hid hidden; bite bit bitten; steal stole stolen; shoot shot; hang hung; dig dug; "
            "stick stuck; strike struck; freeze froze frozen; mean meant; deal dealt; swear swore sworn; "
            "child children; man men; woman women; person people; foot feet; tooth teeth; mouse mice; "
            "wife wives"
        ).split(";")
    )
    for form in forms
}
"""English forms that no stemmer brings together, by the form."""

TIMES: Final = frozenset(
    "yesterday today tonight tomorrow last next ago week weekend month year day morning evening night since recently soon "
    "summer winter spring autumn monday tuesday wednesday thursday friday saturday sunday january february march april may "
    "june july august september october november december "
    "昨天 今天 明天 前天 后天 上周 下周 周末 星期 上个月 下个月 去年 今年 明年 早上 晚上 最近 月 年".split()
)
"""Words that tell a time."""

WHEN: Final = ("when ", "how long ", "what date", "which date", "what day", "which day", "what year", "which year")
"""How a question for a time begins, in English; Chinese ones hold 什么时候, 几点, 哪天, 哪年, 多久."""

RELATED: Final = (
    "live reside move relocate home apartment house flat city town address 住 搬 家",
    "work job employ career profession position occupation company employer promote hire 工作 上班 公司 职",
    "marry single wife husband spouse engage divorce wedding fiance girlfriend boyfriend partner 结婚 离婚 妻子 丈夫",
    "eat food meal diet dish cuisine snack 吃 饭 菜",
    "drink beverage tea coffee wine beer alcohol juice 喝 茶 咖啡 酒",
    "drive car vehicle automobile truck 开车 车",
    "study school university college degree class course learn education 学 学校 大学 课",
    "read book novel author literature 读 书 小说",
    "pet dog cat puppy kitten animal 宠物 狗 猫",
    "kid child son daughter baby 孩子 儿子 女儿",
    "parent mother father mom dad mum 父母 妈妈 爸爸",
    "sibling sister brother 姐姐 妹妹 哥哥 弟弟",
    "trip travel vacation holiday visit flight journey tour 旅行 旅游 飞",
    "movie film cinema 电影",
    "music song band concert album 音乐 歌",
    "sick ill disease illness health medicine medication doctor 病 药 医生",
    "money salary earn income wage pay 钱 工资 收入",
    "like love enjoy favourite favorite prefer hate dislike fond 喜欢 爱 讨厌",
    "exercise gym workout fitness training 运动 健身",
    "hobby pastime activity 爱好",
    "paint painting art draw artist 画",
    "friend buddy pal 朋友",
    "buy purchase shop sell 买 卖",
    "start begin 开始",
    "finish complete end 结束",
    "happy glad joy excited 高兴 开心",
    "sad upset unhappy 难过",
    "scared afraid fear 怕",
    "create make build craft 做",
    "help support assist 帮",
    "photo picture image 照片",
    "wake awake 起床 醒",
    "name call 名字 叫",
)
"""Words that a search takes for each other, to some degree; the first one names the group."""

TOPICS: Final = Path(__file__).with_name("topics.txt")
"""A file of words that speak of a topic, behind its name. A broad net, in which a new fact finds the memories it may concern:
"called off the wedding" and "engaged to Marek" share no word and, without a model, no direction. Of a longer Chinese word the
last two letters count."""

KIN: Final = frozenset(
    "wife husband spouse fiance girlfriend boyfriend partner dog cat puppy kitten pet kid child son daughter baby parent "
    "mother father mom dad mum sibling sister brother aunt uncle cousin niece nephew grandmother grandfather friend neighbour "
    "boss colleague roommate 妻子 丈夫 女友 男友 狗 猫 孩子 儿子 女儿 父母 妈妈 爸爸 姐姐 妹妹 哥哥 弟弟 朋友 邻居".split()
)
"""Whom a statement may speak of besides the one who makes it."""

LIGHT: Final = frozenset("take use go get look play watch have make keep put give come want need see".split())
"""Verbs that say little of what a statement is about."""

CHANGES: Final = frozenset(
    "now nowadays lately anymore longer instead new another changed moved switched replaced swapped quit stopped left dropped "
    "sold cancelled canceled deleted became become started began turned raised promoted transferred relocated migrated updated "
    "fixed finished ended traded renamed adopted climbed picked dyed actually finally already since recently rescheduled "
    "rebooked postponed hired joined retired married divorced learned".split()
)
"""English words of statements that something is no longer as it was, as they are written."""

CHANGES_CJK: Final = ("现在", "不再", "改", "换", "搬", "已经", "了", "又")
"""The same in Chinese."""
