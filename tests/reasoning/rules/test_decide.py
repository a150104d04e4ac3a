"""What the rules make of a new fact beside what is known."""

from __future__ import annotations

from langmem_adapter.reasoning.base import Comparison, KnownMemory
from langmem_adapter.reasoning.rules.reasoner import RuleReasoner
from langmem_adapter.records.work import Fact
from tests.cases import each
from tests.reasoning.reasoner_conformance import check_answer, comparison

REASONER = RuleReasoner()

# what is known (parted by semicolons), the new fact, what becomes of it
DECIDED = [
    ("Name is John", "Name is John", "NONE:0"),
    ("Name is John", "name is john.", "NONE:0"),
    ("User is a software engineer", "Is a software engineer", "NONE:0"),
    ("I really like cheese pizza", "Loves cheese pizza", "NONE:0"),
    ("Likes cheese pizza", "Loves cheese pizza", "NONE:0"),
    ("Loves hiking", "Enjoys hiking", "NONE:0"),
    ("Likes hiking", "Likes to hike", "NONE:0"),
    ("Likes apples and bananas", "Likes apples", "NONE:0"),
    ("Has a sister named Jesica", "Has a sister", "NONE:0"),
    ("Is a vegetarian", "Is vegetarian", "NONE:0"),
    ("Name is John Smith", "Name is John", "NONE:0"),
    ("Lives in Paris, France", "Lives in Paris", "NONE:0"),
    ("Lives in New York", "Lives in York", "UPDATE:0"),
    ("Is a software engineer", "Is an engineer", "NONE:0"),
    ("Favourite movies are Inception and Interstellar", "Favorite movie is Inception", "NONE:0"),
    (
        "Really likes cheese pizza; Is a software engineer; Likes to play cricket",
        "Likes to play cricket with friends",
        "UPDATE:2",
    ),
    ("Likes cricket", "Likes to play cricket with friends", "UPDATE:0"),
    ("Name is John", "Name is John Smith", "UPDATE:0"),
    ("Name is John", "Name is Will", "UPDATE:0"),
    ("Lives in Paris", "Lives in Rome", "UPDATE:0"),
    ("Lives in Paris", "Moved to Berlin", "UPDATE:0"),
    ("Works at Acme", "Works for Globex", "UPDATE:0"),
    ("Is a software engineer", "Is a teacher", "UPDATE:0"),
    ("Favorite color is blue", "Favourite color is green", "UPDATE:0"),
    ("Is 30 years old", "Is 31 years old", "UPDATE:0"),
    ("Birthday is May 5", "Birthday is June 6", "UPDATE:0"),
    ("Email is a@b.com", "Email is c@d.com", "UPDATE:0"),
    ("Is single", "Got married", "UPDATE:0"),
    ("Is vegetarian", "Is vegan", "UPDATE:0"),
    ("Has 2 cats", "Has three cats", "UPDATE:0"),
    ("Prefers tea over coffee", "Prefers coffee over tea", "UPDATE:0"),
    ("Has a sister", "Sister's name is Ann", "UPDATE:0"),
    ("Quit smoking", "Started smoking again", "DELETE:0 ADD"),
    ("Stopped drinking", "Is back to drinking", "DELETE:0 ADD"),
    ("Switched from Android to iPhone", "Switched from iPhone to Pixel", "DELETE:0 ADD"),
    ("Switched from coffee to tea", "Gave up tea", "DELETE:0 ADD"),
    ("Is engaged", "Broke up with Anna", "DELETE:0 ADD"),
    ("Is in a relationship", "Broke up with Anna", "DELETE:0 ADD"),
    ("Is engaged", "Called off the engagement", "DELETE:0 ADD"),
    ("Is married", "Called off the engagement", "ADD"),
    ("已婚", "取消了订婚", "ADD"),
    ("Sister lives in Rome", "Sister lives in Oslo", "UPDATE:0"),
    ("Name is John; Loves cheese pizza", "Dislikes cheese pizza", "DELETE:1 ADD"),
    ("Loves cheese pizza", "Doesn't like cheese pizza", "DELETE:0 ADD"),
    ("Loves cheese pizza; Likes pepperoni pizza", "Doesn't like pizza", "DELETE:1 DELETE:0 ADD"),
    ("Doesn't like olives", "Likes olives", "DELETE:0 ADD"),
    ("Eats meat", "Doesn't eat meat", "DELETE:0 ADD"),
    ("Works at Acme", "No longer works at Acme", "DELETE:0"),
    ("Has a dog", "No longer has a dog", "DELETE:0"),
    ("Has a dog named Rex", "No longer has a dog", "DELETE:0"),
    ("Is vegetarian", "Is no longer vegetarian", "DELETE:0"),
    ("Smokes", "Quit smoking", "DELETE:0 ADD"),
    ("Smokes a pack a day", "Quit smoking", "DELETE:0 ADD"),
    ("Works at Acme", "Left Acme", "DELETE:0 ADD"),
    ("Lives in Rome", "Used to live in Rome", "DELETE:0 ADD"),
    ("Is married", "Is not married", "DELETE:0 ADD"),
    ("Is a software engineer", "Name is John", "ADD"),
    ("Has a brother", "Has a sister", "ADD"),
    ("Likes apples", "Likes bananas", "ADD"),
    ("Likes cheese", "Likes cheese pizza", "ADD"),
    ("Has a dog", "Has a dog allergy", "ADD"),
    ("Likes pizza", "Doesn't like cheese pizza", "ADD"),
    ("Name is John", "Sister's name is Ann", "ADD"),
    ("Lives in Paris", "Jesica lives in Rome", "ADD"),
    ("Brother lives in Rome", "Sister lives in Oslo", "ADD"),
    ("Flew from Rome to Oslo", "Flew from Oslo to Rome", "ADD"),
    ("Was born in Rome", "Was born on May 5, 1990", "ADD"),
    ("Has a dog", "No longer works at Acme", "ADD"),
    ("Has a dog", "No longer has anything", "ADD"),
    ("Has a dog allergy", "No longer has a dog", "ADD"),
    ("Likes running water", "Doesn't like running", "ADD"),
    ("Has a dog named Rex", "Has a dog named Fido", "ADD"),
    ("Has a dog; Has a car", "It is called Rex", "ADD"),
    ("喜欢狗粮", "不喜欢狗", "ADD"),
    ("Has a sister; Has a wife", "She lives in Rome", "ADD"),
    ("Loves tea", "喜欢茶", "ADD"),
    ("Likes C", "Likes C++", "ADD"),
    ("Likes C++", "Doesn't like C", "ADD"),
    ("Likes C++", "Likes C++ templates", "ADD"),
    ("Likes C", "Likes C++ books", "ADD"),
    ("Scored 5", "Scored -5", "ADD"),
    ("Scored 2.5", "Scored 5.2", "ADD"),
    ("Is allergic to A+", "Is allergic to A-", "ADD"),
    ("Uses 👍", "Uses 👎", "ADD"),
    ("Username is aB3x", "Username is Ab3X", "UPDATE:0"),
    ("Code of the gate is aB3x", "Code of the gate is Ab3X", "ADD"),
    ("Birthday is 2001-02-03", "Birthday is 2001-03-02", "UPDATE:0"),
    ("Has -5 euros", "Has 5 euros", "UPDATE:0"),
    ("Has 2 cats", "Has 2.5 cats", "UPDATE:0"),
    ("Loves NYC", "Doesn't like nyc", "DELETE:0 ADD"),
    ("Lives in York", "Lives in york!", "NONE:0"),
    ("Likes pizza", "Likes pizza 🍕", "UPDATE:0"),
    ("血型是A-", "血型是A", "UPDATE:0"),
    ("喜欢C", "喜欢C++", "ADD"),
    ("喜欢C++", "不喜欢C", "ADD"),
    ("成绩是优", "成绩是优-", "ADD"),
    ("有5只猫", "有-5只猫", "UPDATE:0"),
    ("名字是John", "名字是John", "NONE:0"),
    ("喜欢奶酪披萨", "爱奶酪披萨", "NONE:0"),
    ("喜欢苹果和香蕉", "喜欢苹果", "NONE:0"),
    ("用户是一名软件工程师", "名字是John", "ADD"),
    ("我真的很喜欢奶酪披萨; 用户是一名软件工程师; 用户喜欢打板球", "喜欢和朋友一起打板球", "UPDATE:2"),
    ("住在上海", "搬到北京", "UPDATE:0"),
    ("单身", "结婚了", "UPDATE:0"),
    ("今年30岁", "今年31岁", "UPDATE:0"),
    ("最喜欢的电影是《盗梦空间》", "最喜欢的电影是《星际穿越》", "UPDATE:0"),
    ("有一个姐姐", "姐姐叫Ann", "UPDATE:0"),
    ("名字是John; 爱吃奶酪披萨", "不喜欢奶酪披萨", "DELETE:1 ADD"),
    ("在Acme工作", "不再在Acme工作", "DELETE:0"),
    ("有车", "不再有车", "DELETE:0"),
    ("吃素", "不再吃素", "DELETE:0"),
    ("抽烟", "戒烟了", "DELETE:0 ADD"),
    ("喜欢狗", "喜欢狗粮", "ADD"),
    ("有一个哥哥", "有一个姐姐", "ADD"),
    ("住在上海", "妈妈住在北京", "ADD"),
    ("有三只猫", "一只猫去世了", "ADD"),
    ("住在上海; 租房住", "买房了", "UPDATE:1"),
    ("要去桂林", "不去桂林了", "UPDATE:0"),
]


def decided(known: tuple[str, ...], facts: tuple[str, ...]) -> list[tuple[str, str, str]]:
    asked = comparison(facts, known)
    answer = REASONER.decide.invoke(asked)
    check_answer(answer, asked)
    return [(f"{v.event}:{v.number}" if v.number is not None else v.event, v.text, v.reason) for v in answer.verdicts]


@each(("known", "fact", "events"), DECIDED)
def test_a_fact_meets_what_is_known(known: str, fact: str, events: str) -> None:
    memories = tuple(text.strip() for text in known.split(";"))
    assert " ".join(event for event, _, _ in decided(memories, (fact,))) == events


def test_an_update_names_the_old_value_and_the_new() -> None:
    ((event, text, reason),) = decided(("Lives in Paris",), ("Lives in Rome",))
    assert (event, text) == ("UPDATE:0", "Lives in Rome")
    assert "Lives in Paris" in reason
    assert "Lives in Rome" in reason


def test_the_seeds_pizza_is_not_lost() -> None:
    known = ("Really likes cheese pizza", "Is a software engineer", "Likes to play cricket")
    verdicts = decided(known, ("Loves chicken pizza", "Likes to play cricket with friends"))
    assert [(event, text) for event, text, _ in verdicts] == [
        ("ADD", "Loves chicken pizza"),
        ("UPDATE:2", "Likes to play cricket with friends"),
    ]


def test_facts_of_one_comparison_that_repeat_each_other_are_added_once() -> None:
    events = [(event, reason) for event, _, reason in decided((), ("Likes tea", "Likes tea"))]
    assert events[0][0] == "ADD"
    assert events[1] == ("NONE", "already said in this conversation: “Likes tea”")


def test_facts_of_one_comparison_that_refine_each_other_are_merged() -> None:
    verdicts = decided((), ("Has a sister", "Her name is Jesica", "She has a dog"))
    assert [(event, text) for event, text, _ in verdicts] == [
        ("ADD", "Has a sister named Jesica"),
        ("NONE", "Sister's name is Jesica"),
        ("ADD", "Jesica has a dog"),
    ]
    assert verdicts[1][2].startswith("merged into")


def test_two_changes_of_one_memory_end_in_one_update() -> None:
    verdicts = decided(("Lives in Oslo",), ("Lives in Rome", "Lives in Paris"))
    assert [(event, text) for event, text, _ in verdicts] == [
        ("UPDATE:0", "Lives in Paris"),
        ("NONE:0", "Lives in Paris"),
    ]


def test_a_change_that_is_taken_back_changes_nothing() -> None:
    assert [event for event, _, _ in decided(("Lives in Oslo",), ("Lives in Rome", "Lives in Oslo"))] == [
        "NONE:0",
        "NONE:0",
    ]


def test_what_is_taken_back_in_the_same_breath_is_not_added() -> None:
    assert [event for event, _, _ in decided((), ("Has a dog", "No longer has a dog"))] == ["NONE", "NONE"]


def test_an_unclear_pronoun_is_kept_as_it_was_said_and_the_reason_says_so() -> None:
    ((event, text, reason),) = decided(("Has a sister", "Has a wife"), ("She lives in Rome",))
    assert (event, text) == ("ADD", "She lives in Rome")
    assert "whom" in reason


def test_the_one_named_last_is_meant() -> None:
    verdicts = decided(("Has a sister", "Has a wife"), ("Sister lives in Rome", "She is a nurse"))
    assert verdicts[1][1] == "Sister is a nurse"


def test_of_two_values_the_latest_is_the_one_that_is_changed() -> None:
    known = (KnownMemory(0, "Lives in Oslo"), KnownMemory(1, "Lives in Rome"))
    (verdict,) = REASONER.decide.invoke(Comparison((Fact("Lives in Paris", 0),), known)).verdicts
    assert (verdict.event, verdict.number) == ("UPDATE", 1)
