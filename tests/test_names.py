"""Names: which are equal, which never, and what the name of a relation implies."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.names import (
    candidate_keys,
    drops_name,
    entity_key,
    is_single,
    is_symmetric,
    mentions_name,
    mentions_whole_name,
    opposite_relation,
    owner_role,
    relation_name,
)
from tests.cases import each

EQUAL = [
    ("Eiffel Tower", "the  eiffel_tower."), ("Lyon", "Ｌｙｏｎ"), ("Dr. Chen", "chen"), ("Prof. Dr. Chen", "CHEN,"),
    ("my sister", "our sister"), ("Straße", "STRASSE"), ("Café", "Cafe\u0301"), ("我的妹妹", "妹妹"), ("北京。", "北京"),
    ("«x»", "«X»"), ("ann\u200b", "\u200fAnn"), ("(Ann)", "“Ann”"),
]  # fmt: skip
UNEQUAL = [
    ("Mr Smith", "Mrs Smith"), ("my sister", "her sister"), ("7", "007"), ("5", ".5"), ("1.5", "15"), ("1-2", "12"),
    ("<5", ">5"), ("C", "C++"), ("C#", "C"), (".NET", "net"),
    ("0e37df36-f698-11e6-8dd4-cb9ced3df976", "0e37df36-f698-11e6-8dd4-cb9ced3df977"), ("Ann", "Anna"),
    ("Ann Lee", "AnnLee"), ("Paris", "Paris Hilton"), ("👩‍👩‍👧", "👩‍👩‍👦"), ("an", "a"),
]  # fmt: skip


@each(("one", "other"), EQUAL)
def test_names_of_the_same_thing_have_one_key(one: str, other: str) -> None:
    assert entity_key(one) == entity_key(other) != ""


@each(("one", "other"), UNEQUAL)
def test_names_of_other_things_have_other_keys(one: str, other: str) -> None:
    assert entity_key(one) != entity_key(other)


@pytest.mark.parametrize("name", ["", " ", "...", "_", "？！", "\u200b"])
def test_a_name_of_nothing_has_no_key(name: str) -> None:
    assert entity_key(name) == ""


@pytest.mark.parametrize("name", ["the", "The", "my", "A", "Dr.", "我的"])
def test_an_article_alone_is_a_name(name: str) -> None:
    assert entity_key(name)


@given(name=st.text(max_size=200))
def test_a_key_is_the_key_of_itself_and_short(name: str) -> None:
    key = entity_key(name)
    assert len(key) <= 256
    assert entity_key(key) in {key, entity_key(unicodedata.normalize("NFKC", key))}
    assert entity_key(name.upper().lower()) == entity_key(name.upper()) or not name.isascii()


@given(
    one=st.from_regex(r"[0-9a-f]{4}-[0-9a-f]{4}", fullmatch=True),
    other=st.from_regex(r"[0-9a-f]{4}-[0-9a-f]{4}", fullmatch=True),
)
def test_ids_are_equal_only_to_themselves(one: str, other: str) -> None:
    assert (entity_key(one) == entity_key(other)) == (one == other)


@given(
    one=st.from_regex(r"-?[0-9]{0,3}(\.[0-9]{1,3})?", fullmatch=True),
    other=st.from_regex(r"-?[0-9]{0,3}(\.[0-9]{1,3})?", fullmatch=True),
)
def test_numbers_are_equal_only_to_themselves(one: str, other: str) -> None:
    assert (entity_key(one) == entity_key(other)) == (one == other)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("What does Anna's sister do?", "my sister"),
        ("Is he in New York, still?", "New_York"),
        ("Does she write .NET?", ".NET"),
        ("我妹妹小红很好", "小红"),
        ("Has Dr. Chen called", "Chen"),
        ("I met the Eiffel-Tower", "eiffel-tower"),
    ],
)
def test_the_keys_of_a_text_hold_its_names(text: str, name: str) -> None:
    assert entity_key(name) in candidate_keys(text)


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (["lives in", "Resides-In", "LIVE_IN", "ｌｉｖｅｓ　ｉｎ", "moved to"], "lives_in"),
        (["works for", "employed by", "Employer"], "works_at"),
        (["doesn't like", "hates"], "dislikes"),
        (["is married to", "wife of", "spouse"], "married_to"),
        (["居住在", "搬到了"], "住在"),
        (["plays chess with", "plays-chess--with"], "plays_chess_with"),
        (["!!!", " ", "_"], ""),
    ],
)
def test_relations_are_kept_in_one_form(names: list[str], kept: str) -> None:
    assert {relation_name(name) for name in names} == {kept}
    assert relation_name(kept) == kept


def test_what_relations_imply() -> None:
    assert is_single("lives_in") and is_single("住在") and not is_single("likes") and not is_single("visited")
    assert is_symmetric("married_to") and is_symmetric("knows") and not is_symmetric("lives_in")
    assert all(
        opposite_relation(str(opposite_relation(name))) == name for name in ("likes", "dislikes", "喜欢", "不喜欢")
    )
    assert opposite_relation("knows") is None


def test_who_is_meant_by_a_pronoun() -> None:
    assert {owner_role(name) for name in ("I", "me", "USER_ID", "the user", "我")} == {"user"}
    assert {owner_role(name) for name in ("Assistant", "AI assistant", "助手")} == {"assistant"}
    assert {owner_role(name) for name in ("Ann", "user2", "the user's dog", "")} == {None}


@pytest.mark.parametrize(
    ("before", "after", "name", "given_up"),
    [
        ("Likes green tea", "Likes black tea", "green tea", True),
        ("Likes tea", "Likes black teas", "tea", False),
        ("Lives in New York", "Lives in New Delhi", "New_York", True),
        ("Works at Acme", "Works at a firm", "Bell", False),
        ("住在北京", "住在上海", "北京", True),
        ("Plays for The Who", "Plays for them", "The Who", True),
        ("Uses it", "Uses it daily", "It", False),
        ("Likes C++ and C", "Likes C", "C++", True),
        ("Likes C++ and C", "Likes C++", "C", True),
    ],
)
def test_a_text_gives_up_a_name_with_any_word_of_it(before: str, after: str, name: str, *, given_up: bool) -> None:
    assert drops_name(before, after, name) == given_up


def test_saying_one_word_of_a_name_and_all_of_them() -> None:
    assert mentions_name("Moved to Delhi", "New Delhi") and not mentions_whole_name("Moved to Delhi", "New Delhi")
    assert mentions_whole_name("He moved to new_delhi!", "New Delhi")
    assert mentions_whole_name("It is what it is", "it") and not mentions_whole_name("Nothing", "it")
