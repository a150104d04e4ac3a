"""What the offline reasoner makes of a new fact beside what is known."""

from __future__ import annotations

from typing import Final

from langmem_adapter.memory.memory import Memory
from langmem_adapter.reasoning.base import Comparison, KnownMemory
from langmem_adapter.reasoning.rules import RuleReasoner
from langmem_adapter.records.results import Fact
from langmem_adapter.statements.reader import read
from tests.cases import each
from tests.reasoning.reasoner_conformance import check_answer, comparison

REASONER = RuleReasoner()

# what is known (parted by semicolons), the new fact, what becomes of it
DECIDED = [
    ("Name is John", "name is john.", "NONE:0"),
    ("User is a software engineer", "Is a software engineer", "NONE:0"),
    ("I really like cheese pizza", "Loves cheese pizza", "NONE:0"),
    ("Has a sister named Jesica", "Has a sister", "NONE:0"),
    ("Has a sister", "Sister's name is Jesica", "UPDATE:0 Has a sister named Jesica"),
    ("Has a sister", "Her name is Jesica", "UPDATE:0 Has a sister named Jesica"),
    ("有一个姐姐", "姐姐叫Jesica", "UPDATE:0 有一个叫Jesica的姐姐"),
    ("Is a vegetarian", "Is vegetarian", "NONE:0"),
    ("Name is John Smith", "Name is John", "NONE:0"),
    ("Lives in Paris, France", "Lives in Paris", "NONE:0"),
    ("Lives in the old town of Lyon", "Lives in Lyon", "NONE:0"),
    ("Lives in New York", "Lives in York", "UPDATE:0"),
    ("Lives in Lyon", "Lives in the old town of Lyon", "UPDATE:0"),
    ("Lives in Rome", "Moved to Paris", "UPDATE:0"),
    ("Lived in Rome", "Moved to Paris", "ADD"),
    ("Works at Acme", "Joined Netflix", "UPDATE:0"),
    ("Works at Acme", "Is unemployed", "UPDATE:0"),
    ("Is a nurse", "Became a teacher", "UPDATE:0"),
    ("Is a nurse", "Is a runner", "ADD"),
    ("Is 29 years old", "Turned 30", "UPDATE:0"),
    ("Phone number is 555-0100", "Phone number is now 555-0199", "UPDATE:0"),
    ("Email is a@b.com", "Email address is c@d.org", "UPDATE:0"),
    ("Husband is Tom", "Got divorced", "UPDATE:0"),
    ("Wife's name is Ann", "Wife's name is Mia", "UPDATE:0"),
    ("Sister's name is Ann", "Sister's name is Mia", "ADD"),
    ("Sister is a nurse", "Sister is 30", "ADD"),
    ("Sister lives in Rome", "Sister lives in Oslo", "ADD"),
    ("Locker code is 4312", "Locker code is 9908", "UPDATE:0"),
    ("Password is aB3x", "Password is AB3x", "UPDATE:0"),
    ("Rent is 900", "Rent is 950", "UPDATE:0"),
    ("Rent is 900", "Rent is very high", "ADD"),
    ("Phone is a Pixel 8", "Phone is broken", "ADD"),
    ("Work email is a@b.org", "Work email is now c@d.org", "UPDATE:0"),
    ("Email is a@b.org", "Work email is c@d.org", "ADD"),
    ("Favorite band is Paramore", "Favorite band is The National", "ADD"),
    ("Cat is fat", "Cat is old", "ADD"),
    ("Drinks coffee every morning", "Stopped drinking coffee", "DELETE:0 ADD"),
    ("Smokes", "Quit smoking", "DELETE:0 ADD"),
    ("Has a dog named Rex", "No longer has a dog", "DELETE:0"),
    ("Has a dog", "No longer has a cat", "ADD"),
    ("Works at Acme", "Quit job", "DELETE:0 ADD"),
    ("Works at Acme", "No longer works at Bosch", "ADD"),
    ("Likes cheese pizza", "Doesn't like cheese pizza", "DELETE:0 ADD"),
    ("Likes beer in summer and wine in winter", "Likes wine in summer and beer in winter", "ADD"),
    ("Likes C", "Likes C++", "ADD"),
    ("名字是王芳", "改名叫王雨桐了", "UPDATE:0"),
    ("住在深圳", "搬到上海了", "UPDATE:0"),
    ("在移动上班", "跳槽到阿里了", "UPDATE:0"),
    ("在移动上班", "辞职了", "DELETE:0 ADD"),
    ("是程序员", "转行做产品经理了", "UPDATE:0"),
    ("今年二十九岁", "今年30岁", "UPDATE:0"),
    ("手机号是13800001111", "新号码是13922223333", "UPDATE:0"),
    ("老婆叫李娜", "离婚了", "UPDATE:0"),
    ("吃素", "不吃素了", "DELETE:0 ADD"),
    ("每天喝咖啡", "不再喝咖啡", "DELETE:0"),
    ("地址是幸福路3号", "地址改成和平路5号", "UPDATE:0"),
    ("同事叫小王", "同事叫小李", "ADD"),
    ("妈妈住在北京", "妈妈住在上海", "ADD"),
    ("血型是A型", "学历是硕士", "ADD"),
    ("名字是小明", "英文名是Henry", "ADD"),
    ("Name is Henry", "Maiden name is Zhao", "ADD"),
]


def decided(known: str, fact: str) -> str:
    asked = comparison((fact,), tuple(known.split("; ")))
    answer = REASONER.decide.invoke(asked)
    check_answer(answer, asked)
    told = [v.event if v.number is None else f"{v.event}:{v.number}" for v in answer.decisions]
    texts = [f" {v.text}" for v in answer.decisions if v.event == "UPDATE" and v.text != fact]
    return " ".join(told) + "".join(texts)


@each(("known", "fact", "expected"), DECIDED)
def test_decide_replaces_ends_and_adds(known: str, fact: str, expected: str) -> None:
    assert decided(known, fact) == expected


def test_offline_decide_changes_nothing_of_another_speaker() -> None:
    known = (KnownMemory(0, "Lives in Oslo", "Nate"), KnownMemory(1, "Lives in Rome"))
    (decision,) = REASONER.decide.invoke(Comparison((Fact("Lives in Paris", 0),), known)).decisions
    assert (decision.event, decision.number) == ("UPDATE", 1)


def test_decide_adds_a_kept_text_beside_anything() -> None:
    asked = Comparison((Fact("I live in Rome.", 0, is_quotation=True),), (KnownMemory(0, "Lives in Oslo"),))
    assert [decision.event for decision in REASONER.decide.invoke(asked).decisions] == ["ADD"]


def test_offline_decide_takes_back_what_is_changed_twice() -> None:
    asked = Comparison((Fact("Lives in Rome", 0), Fact("Lives in Oslo", 1)), (KnownMemory(0, "Lives in Oslo"),))
    assert [decision.event for decision in REASONER.decide.invoke(asked).decisions] == ["NONE", "NONE"]
    asked = comparison(("Has a dog", "No longer has a dog"), ())
    assert [decision.event for decision in REASONER.decide.invoke(asked).decisions] == ["NONE", "NONE"]


UNLIKE: Final = [
    ("I like beer in summer and wine in winter.", "I like wine in summer and beer in winter."),
    ("The office is room 7 on floor 7.", "The office is room 12 on floor 7."),
    ("My locker password is aB3x.", "Remember that the spare one is AB3x."),
]


@each(("first", "second"), UNLIKE)
def test_add_keeps_two_texts_that_are_not_equal(first: str, second: str) -> None:
    with Memory(":memory:") as memory:
        for text in (first, second, first):
            memory.add(text, user_id="u")
        assert len(memory.get_all(user_id="u")) == 2


UPDATED: Final = [
    ("My name is Kim.", "Please call me Robin from now on.", {"Name is Robin"}),
    ("I'm Maria, nice to meet you", "I go by Mia these days", {"Goes by Mia"}),
    ("My name is Kim.", "I changed my name, it's Robin now.", {"Name is Robin (I changed my name)"}),
    ("I'm Megan Doyle.", "I'm Megan Fletcher now, after the wedding.", {"Name is Megan Fletcher (after the wedding)"}),
    ("I live in Oslo.", "Just moved to Bergen!", {"Moved to Bergen"}),
    (
        "im based in tucson",
        "I don't live in Tucson anymore, I live in Denver.",
        {"Lives in Denver (I don't live in Tucson anymore)"},
    ),
    ("I live in Oslo.", "I've moved. My new place is in Bergen.", {"New place is in Bergen", "I've moved."}),
    ("I work at Tesco.", "I quit my job at Tesco and now I work at Aldi.", {"Works at Aldi (I quit my job at Tesco)"}),
    ("I work at Target, the one by the highway", "I'm at Costco now.", {"Works at Costco"}),
    ("My employer is KPMG.", "I've left, so my new employer is Deloitte.", {"New employer is Deloitte (I've left)"}),
    ("I'm a nurse.", "I got promoted, I'm head nurse now!", {"Is head nurse (I got promoted)"}),
    ("im 19 btw", "turned 20 today", {"Turned 20 on 2026-06-01"}),
    ("I'm fifty-three years old.", "I'm fifty-four now.", {"Is fifty-four years old"}),
    (
        "My birthday is on March 14.",
        "Sorry, I typed that wrong, my birthday is on March 24.",
        {"Birthday is on March 24"},
    ),
    ("My birthday is May 3.", "My birthday isn't May 3, it's May 4.", {"Birthday is May 4 (My birthday isn't May 3)"}),
    ("My girlfriend is Zoe", "I have a new girlfriend, her name is Wren", {"Has a new girlfriend, her name is Wren"}),
    ("I'm dating Tom.", "I broke up with Tom and I'm dating Sam now.", {"Dating Sam (I broke up with Tom)"}),
    ("You can reach me on 555-0138", "my number changed, it's (555) 010-0191 now", {"Number is now (555) 010-0191"}),
    ("My mobile is 555-0117.", "new cell number, 555-0164", {"Phone number is 555-0164"}),
    ("use a@x.org for my email", "i've got a different email now: b@x.org", {"Email is b@x.org"}),
    ("我的名字是陈静。", "我改名了，现在叫陈思。", {"名字是陈思 (我改名了)"}),
    ("大家叫我小张", "以后叫我老张吧", {"名字是老张"}),
    ("我一个人住在苏州。", "上个月搬家了，现在定居青岛了", {"定居青岛了 (2026年5月搬家了)"}),
    ("我在腾讯上班", "我跳槽了，现在在小米工作", {"在小米工作 (我跳槽了)"}),
    ("单位是海尔。", "我调动了，现在在格力上班。", {"在格力上班 (我调动了)"}),
    ("我是一名会计。", "我转行了，现在是一名教练。", {"是一名教练 (我转行了)"}),
    ("我在一中当老师。", "我改做产品经理了。", {"改做产品经理了"}),
    ("我今年27岁。", "我刚过完生日，现在28岁了。", {"28岁了 (我刚过完生日)"}),
    ("我是三月五号出生的", "更正一下，我生日是三月九号", {"生日是三月九号"}),
    ("我男朋友是张凯。", "我再婚了，现在的老公叫林峰。", {"老公叫林峰 (我再婚了)"}),
    ("我电话是13811112222", "打我电话13933334444", {"电话是13933334444"}),
    ("我的电子邮箱:a@qq.com", "我换邮箱了，新的是 b@qq.com", {"邮箱是b@qq.com"}),
]


@each(("first", "second", "texts"), UPDATED)
def test_add_replaces_the_earlier_value_by_a_clause_of_a_message(first: str, second: str, texts: set[str]) -> None:
    with Memory(":memory:") as memory:
        memory.add(first, user_id="u", timestamp="2026-05-01T10:00:00+00:00")
        memory.add(second, user_id="u", timestamp="2026-06-01T10:00:00+00:00")
        assert {item.text for item in memory.get_all(user_id="u")} == texts


DENIED: Final = [
    ("I don't have children.", "I have two children.", ["Has two children"]),
    ("I'm married to Tom.", "I'm not married.", ["Is not married"]),
    ("我有两个孩子。", "我没有孩子。", ["没有孩子"]),
    ("I don't have a dog.", "I got a dog called Rex.", ["Got a dog called Rex"]),
    ("I don't have a cat.", "I have a cat named Tom.", ["Has a cat named Tom"]),
    ("I don't have a sister.", "Her name is Eva.", ["Doesn't have a sister", "Her name is Eva"]),
    ("I have a sister.", "Her name is Eva.", ["Has a sister named Eva"]),
    ("I like tea.", "Tom and I moved to Bonn.", ["Likes tea", "Tom and I moved to Bonn."]),
    ("I like tea.", "My brother and I live in Ulm.", ["Likes tea", "My brother and I live in Ulm."]),
]


@each(("first", "second", "kept"), DENIED)
def test_add_after_a_denial_and_of_two_people_says_what_was_said(first: str, second: str, kept: list[str]) -> None:
    with Memory(":memory:") as memory:
        for message in (first, second):
            memory.add(message, user_id="u")
        assert sorted(item.text for item in memory.get_all(user_id="u")) == kept


UNSURE: Final = [
    ("My name is Kim.", "We flitted at the weekend, it's Soroba Lane now."),
    ("I live in Oslo.", "My brother said, I live in Rome."),
    ("I live in Oslo.", "If I get the job, I live in Rome."),
    ("I'm a nurse.", "Let's play a game, I'm a pirate now."),
    ("My name is Kim.", "call me later"),
    ("My phone number is 555-0117.", "My phone is a Pixel 2016 from 2016."),
    ("我住在成都。", "小李搬家了，现在住在青岛"),
    ("我住在成都。", "我妹妹搬家了，现在住在青岛"),
    ("我在腾讯工作。", "最近我在找工作，但是没有机会。"),
    ("我的电话是13811112222。", "客服电话改成10086000了"),
    ("我叫小明。", "请叫我起床"),
    ("我叫小明。", "我养了一只猫，名字叫小花。"),
    ("我叫小明。", "我有新女友了，名字叫苏晴。"),
    ("我住在成都。", "我住过北京。"),
    ("我住在成都。", "我搬到新办公室了。"),
    ("我在腾讯工作。", "我加入了健身房。"),
    ("My name is Al.", "I have a new boyfriend, name is Tom"),
    ("我叫李华。", "我是张伟的朋友。"),
    ("我的电话是13811112222", "我订单号是1234567890"),
    ("My number is 555-0100", "call my mom at 555-0199"),
    ("My email is a@b.org", "I sent it to x@y.org from my phone"),
    ("My birthday is May 5.", "The party for my birthday is on May 7"),
    ("My email is a@b.org", "The email for my son is s@t.com"),
    ("My number is 555-0100", "My new account number is 55501234"),
    ("我在百度上班", "我明天入职阿里"),
    ("I work at Acme.", "I got an offer from Google"),
    ("I live in Rome.", "I sold my flat in Leeds."),
]


@each(("first", "second"), UNSURE)
def test_add_replaces_nothing_where_a_clause_leaves_doubt(first: str, second: str) -> None:
    with Memory(":memory:") as memory:
        (known,) = memory.add(first, user_id="u").results
        memory.add(second, user_id="u")
        assert known.text in {item.text for item in memory.get_all(user_id="u")}
        assert len(memory.get_all(user_id="u")) == 2


@each(
    ("text", "mark"),
    [
        ("Lives in Lyon", ":home"),
        ("Moved to Lyon", ":home"),
        ("Is a software engineer", ":job"),
        ("Works at Acme", ":employer"),
        ("Sister lives in Rome", ":home sister"),
        ("Has a dog named Rex", ":pet"),
        ("Rent is 900 euros", ":detail rent"),
        ("Favourite colour is blue", ":favorite color"),
        ("住在上海", ":home"),
        ("姐姐住在上海", ":home 姐姐"),
        ("对花生过敏", ":allergy"),
        ("Works at Target (the one by the highway)", ":employer"),
        ("Has a new number: 555-0164", ":phone"),
        ("换公司了，现在在格力", ":employer"),
    ],
)
def test_offline_statements_keep_the_marks_of_older_databases(text: str, mark: str) -> None:
    said = read(text)
    assert f":{said.attribute} {said.subject}".rstrip() == mark


def test_add_forget_deletes_an_equal_text_and_else_names_the_texts_with_those_words() -> None:
    with Memory(":memory:") as memory:
        for text in ("The spare key is under the blue pot.", "I live in Lyon.", "I think we should buy milk."):
            memory.add(text, user_id="u")
        for wish in ("Forget that I live in Lyon.", "Please forget that I think we should buy milk."):
            assert [change.event for change in memory.add(wish, user_id="u").results] == ["DELETE"]
        for wish in ("Forget that my key is blue.", "Delete what I said about the spare key."):
            assert "under the blue pot" in memory.add(wish, user_id="u").notes[0]
        assert [item.text for item in memory.get_all(user_id="u")] == ["The spare key is under the blue pot."]


def test_add_forget_names_the_texts_with_those_words_in_chinese() -> None:
    with Memory(":memory:") as memory:
        memory.add("我想我们该给那只鹦鹉买个新笼子。", user_id="u")
        assert "买个新笼子" in memory.add("请忘记我的鹦鹉。", user_id="u").notes[0]


FORGOTTEN: Final = [
    ("My email is a@b.org.", "Forget my email"),
    ("My phone number is 555-0123.", "please delete my phone number"),
    ("我的电话是13900001111", "忘记我的电话号码"),
    ("I'm a nurse.", "Forget my job."),
]


@each(("first", "wish"), FORGOTTEN)
def test_add_forget_deletes_the_value_of_the_attribute_that_is_named(first: str, wish: str) -> None:
    with Memory(":memory:") as memory:
        memory.add(first, user_id="u")
        assert [change.event for change in memory.add(wish, user_id="u").results] == ["DELETE"]
        assert memory.get_all(user_id="u").items == ()


def test_add_forget_everything_keeps_everything_and_names_what_erases() -> None:
    with Memory(":memory:") as memory:
        memory.add("I live in Lyon.", user_id="u")
        result = memory.add("Please forget everything about me", user_id="u")
        assert "Memory.purge" in result.notes[0]
        assert [item.text for item in memory.get_all(user_id="u")] == ["Lives in Lyon"]
