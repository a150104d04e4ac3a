"""Which relations the rules read off statements, and which statements they leave alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter.names import LONGEST_NAME, LONGEST_RELATION, entity_key, relation_name
from langmem_adapter.reasoning.base import KnownNames
from langmem_adapter.reasoning.rules import RuleReasoner
from langmem_adapter.statements.reader import read
from tests.cases import each
from tests.reasoning.reasoner_conformance import question, turn

if TYPE_CHECKING:
    from langmem_adapter.records.graph import Triple

REASONER = RuleReasoner()

ENGLISH = [
    # home, work, origin
    ("Lives in Lyon", ["user lives_in Lyon"]),
    ("Lives in the US", ["user lives_in US"]),
    ("Moved to New York last year", ["user lives_in New York"]),
    ("Used to live in Rome", ["user lives_in Rome, ended"]),
    ("Lives in Rome with wife", ["user lives_in Rome"]),
    ("Works at Acme", ["user works_at Acme"]),
    ("Works at Acme as a nurse", ["user works_at Acme", "user works_as nurse"]),
    ("Works as a nurse at St. Mary's hospital", ["user works_as nurse", "user works_at St. Mary's hospital"]),
    ("No longer works at Acme", ["user works_at Acme, ended"]),
    ("Quit job at Acme", ["user works_at Acme, ended"]),
    ("Birthday is May 5", ["user born_on May 5"]),
    # family, friends, animals
    ("Has a sister named Jesica", ["user has_sister Jesica"]),
    ("Has a sister", ["user has sister"]),
    ("Has two cats named Tom and Kitty", ["user has_cat Tom", "user has_cat Kitty"]),
    ("No longer has a dog", ["user has dog, ended"]),
    ("Wife's name is Ann", ["user married_to Ann"]),
    ("Is married to Anna", ["user married_to Anna"]),
    ("Is single", ["user has_status single"]),
    ("Sister Jesica lives in Rome", ["user has_sister Jesica", "Jesica lives_in Rome"]),
    ("Sister lives in Rome", ["sister lives_in Rome"]),
    ("Brother no longer lives in Rome", ["brother lives_in Rome, ended"]),
    ("Dog Rex loves swimming", ["user has_dog Rex", "Rex likes swimming"]),
    # likes and all the rest
    ("Likes cats, dogs, and horses", ["user likes cats", "user likes dogs", "user likes horses"]),
    ("Doesn't like olives", ["user dislikes olives"]),
    ("Is not a fan of olives", ["user dislikes olives"]),
    ("Favourite colour is blue", ["user has_favorite_color blue"]),
    (
        "Favourite movies are Inception and Interstellar",
        ["user has_favorite_movies Inception", "user has_favorite_movies Interstellar"],
    ),
    ("Is no longer vegan", ["user follows_diet vegan, ended"]),
    ("Plays chess every Sunday", ["user plays chess"]),
    ("Speaks fluent German and some Dutch", ["user speaks German", "user speaks Dutch"]),
    ("Stopped drinking coffee", ["user drinks coffee, ended"]),
]  # fmt: skip

NOTHING_IN_ENGLISH = [
    "Likes it when it rains",
    "Likes tea more than coffee",
    "Likes pizza without olives",
    "Likes pizza and ice cream",
    "Doesn't like coffee in the evening",
    "Lives in a small flat",
    "Lives in constant fear",
    "Will move to Rome",
    "Moves to Rome next week",
    "Wants to learn piano",
    "Works from home",
    "Sister's dog is called Rex",
    "Is an aspiring writer",
    "Is a doctor's wife",
    "Has no siblings",
    "Doesn't eat meat",
    "Quit smoking",
    "Name is hard to pronounce",
    "Favourite thing about Rome is the food",
    "She lives in Rome",
    "",
    "...",
]

CHINESE = [
    ("住在杭州", ["user 住在 杭州"]),
    ("搬到了上海", ["user 住在 上海"]),
    ("在腾讯工作", ["user 工作于 腾讯"]),
    ("不再在腾讯工作了", ["user 工作于 腾讯, ended"]),
    ("是一名软件工程师", ["user 职业 软件工程师"]),
    ("名字是小明", ["user 名字 小明"]),
    ("有一个妹妹叫小红", ["user 有妹妹 小红"]),
    ("有一个叫小明的弟弟", ["user 有弟弟 小明"]),
    ("养了一条叫豆豆的狗", ["user 有狗 豆豆"]),
    ("老婆叫李娜", ["user 结婚对象 李娜"]),
    ("妹妹小红住在罗马", ["user 有妹妹 小红", "小红 住在 罗马"]),
    ("妹妹Anna住在柏林", ["user 有妹妹 Anna", "Anna 住在 柏林"]),
    ("姐姐的狗叫旺财", ["姐姐 有狗 旺财"]),
    ("妈妈是老师", ["妈妈 职业 老师"]),
    ("喜欢披萨和汉堡", ["user 喜欢 披萨", "user 喜欢 汉堡"]),
    ("不喜欢吃香菜", ["user 不喜欢 香菜"]),
    ("不再喝咖啡了", ["user 喝 咖啡, ended"]),
    ("最喜欢的颜色是蓝色", ["user 最喜欢的颜色 蓝色"]),
    ("对海鲜和花生过敏", ["user 过敏于 海鲜", "user 过敏于 花生"]),
]

NOTHING_IN_CHINESE = [
    "住在一个小公寓里",
    "在家工作",
    "如果住在北京就好了",
    "去过日本",
    "喜欢红色和蓝色的衣服",
    "有两只猫，一只叫小白，一只叫小黑",
    "她住在罗马",
]


def relations(text: str) -> tuple[Triple, ...]:
    return read(text).relations


def shown(text: str) -> list[str]:
    told = relations(text)
    return [f"{one.source} {one.relation} {one.target}{', ended' if one.ended else ''}" for one in told]


@each(("text", "expected"), [*ENGLISH, *CHINESE])
def test_a_statement_gives_its_relations(text: str, expected: list[str]) -> None:
    assert shown(text) == expected


@each("text", [*NOTHING_IN_ENGLISH, *NOTHING_IN_CHINESE])
def test_relations_what_cannot_be_read_with_confidence_gives_none(text: str) -> None:
    assert shown(text) == []


@each(
    ("text", "since", "until"),
    [
        ("Works at Acme since 2019", "2019-01-01", None),
        ("Lives in Rome since March 2020", "2020-03-01", None),
        ("Lives in Rome since 2020-03-05", "2020-03-05", None),
        ("Has lived in Lyon since 2015", "2015-01-01", None),
        ("Has been working at Shell since May 2017", "2017-05-01", None),
        ("Has been vegan since 2018", "2018-01-01", None),
        ("Moved to Paris in 2019", "2019-01-01", None),
        ("Married Lena in 2015", "2015-01-01", None),
        ("No longer works at Acme since 2021", None, "2021-01-01"),
        ("Likes jazz since last year", None, None),
        ("Lives in Rome since 2020-02-31", None, None),
        ("自2019年住在杭州", "2019-01-01", None),
        ("从2019年3月开始在腾讯工作", "2019-03-01", None),
        ("2019年搬到了上海", "2019-01-01", None),
    ],
)
def test_relations_dates_say_since_when_and_until_when(text: str, since: str | None, until: str | None) -> None:
    told = relations(text)[-1]
    dates = tuple(datetime.fromisoformat(day).replace(tzinfo=UTC) if day else None for day in (since, until))
    assert (told.valid_from, told.valid_to) == dates


def test_relations_types_are_told_where_the_words_tell_them() -> None:
    jesica, home = relations("Sister Jesica lives in Rome")
    assert (jesica.target_type, home.source_type, home.target_type) == ("person", "person", "place")
    employer, job = relations("Works at Acme as a nurse")
    assert (employer.target_type, job.target_type) == ("organization", "occupation")
    assert relations("Dog is called Rex")[0].target_type == "animal"
    assert relations("Likes cheese pizza")[0].target_type == ""


def test_relations_a_favourite_is_the_only_one_and_a_list_is_not() -> None:
    assert relations("Favourite colour is blue")[0].single is True
    assert {one.single for one in relations("Favourite movies are Inception and Interstellar")} == {False}
    assert relations("Lives in Rome")[0].single is None


def extracted(*texts: str, about: str = "user", known: KnownNames | None = None) -> list[list[str]]:
    role = "assistant" if about == "assistant" else "user"
    asked = replace(question(*(turn(text, role) for text in texts), about=about), graph=known or KnownNames())
    facts = REASONER.extract.invoke(asked).facts
    return [[f"{one.source} {one.relation} {one.target}" for one in fact.relations] for fact in facts]


def test_relations_a_pronoun_means_who_was_named_just_before() -> None:
    assert extracted("I have a sister named Jesica.", "She lives in Rome.") == [
        ["user has_sister Jesica"],
        ["Jesica lives_in Rome"],
    ]
    assert extracted("我有一个妹妹叫小红。", "她住在罗马。") == [["user 有妹妹 小红"], ["小红 住在 罗马"]]


def test_relations_a_name_may_open_a_statement() -> None:
    assert relations("Work lives in Rome") == ()
    assert relations("Jesica lives in Rome")[0].source == "Jesica"


def test_relations_a_pronoun_nobody_fits_gives_none() -> None:
    assert extracted("She lives in Rome.") == [[]]


def test_relations_the_assistants_facts_are_its_own() -> None:
    assert extracted("I like jazz.", about="assistant") == [["assistant likes jazz"]]


MESSAGES = st.lists(
    st.one_of(
        st.sampled_from(
            [f"I {text[0].lower()}{text[1:]}." for text, _ in ENGLISH] + [f"我{text}。" for text, _ in CHINESE]
        ),
        st.sampled_from(
            ["I have a sister named Jesica. She lives in Rome.", "My sister's name is Ann.", "我妹妹叫小红。"]
        ),
        st.text(max_size=60),
    ),
    max_size=4,
)


@given(MESSAGES)
@settings(max_examples=30, deadline=None)
def test_relations_facts_are_the_same_with_and_without_a_graph(messages: list[str]) -> None:
    plain = question(*map(turn, messages))
    without = REASONER.extract.invoke(plain).facts
    beside = REASONER.extract.invoke(replace(plain, graph=KnownNames())).facts
    assert [replace(fact, relations=()) for fact in beside] == list(without)
    assert all(fact.relations == () for fact in without)


WORDS = st.sampled_from(
    "Lives in at as a the and , or Rome Acme nurse sister Jesica 's is are has named called likes doesn't like no longer "
    "since 2019 every Sunday dog and who moved to from born married "
    '住在 罗马 妹妹 小红 叫 有 喜欢 不再 和 、 的 在 工作 是 自2019年 ( ! " * 0'.split()
)


@given(
    st.one_of(
        st.text(max_size=300), st.lists(WORDS, max_size=25).map(" ".join), st.lists(WORDS, max_size=12).map("".join)
    )
)
@settings(max_examples=100, deadline=None)
def test_relations_every_triple_is_well_formed(text: str) -> None:
    for one in relations(text):
        assert entity_key(one.source)
        assert entity_key(one.target)
        assert len(one.source) <= LONGEST_NAME
        assert len(one.target) <= LONGEST_NAME
        assert one.relation == relation_name(one.relation)
        assert 0 < len(one.relation) <= LONGEST_RELATION
        assert one.valid_from is None or one.valid_to is None or one.valid_from < one.valid_to
