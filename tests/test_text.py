"""Words, hashes and what refers back."""

from __future__ import annotations

import string
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.text import cased_words, content_words, refers_back, signed_words, text_hash, words
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable

ANY = st.text(max_size=300)
SENTENCES = st.lists(st.text(string.ascii_letters, min_size=1, max_size=9), min_size=1, max_size=8).map(" ".join)
SPACE = st.text(" \t\n\r\u00a0\u3000", min_size=1, max_size=4)


@each(
    ("text", "terms"),
    [
        ("Running shoes, café!", ["run", "shoe", "cafe"]),
        ("It's Anna’s", ["it", "anna"]),
        ("3pm 2024-05-01", ["3pm", "2024", "05", "01"]),
        ("snake_case a.b", ["snake", "case", "a", "b"]),
        ("ﬁne Ｗｉｄｅ", ["fine", "wide"]),
        ("STRASSE straße", ["strass", "strass"]),
        ("Ждём ёлку", ["ждем", "елк"]),
        ("旧金山", ["旧", "金", "山", "旧金", "金山"]),
        ("我在SF工作", ["我", "在", "我在", "sf", "工", "作", "工作"]),
        ("東", ["東"]),
        ("カタカナ", ["カ", "タ", "カ", "ナ", "カタ", "タカ", "カナ"]),
        ("한글", ["한", "글", "한글"]),
        ("", []),
        ("  \n … !?", []),
        ("🎸🎸", []),
    ],
)
def test_a_text_falls_into_these_words(text: str, terms: list[str]) -> None:
    assert words(text) == terms


@given(SENTENCES, SENTENCES)
def test_words_of_two_texts_are_those_of_each(one: str, other: str) -> None:
    assert words(f"{one} {other}") == words(one) + words(other)


@pytest.mark.parametrize(
    ("text", "terms"),
    [("She has a dog", {"dog"}), ("I am who I am", set()), ("我的狗", {"狗", "我的", "的狗"}), ("Not a dog", {"dog"})],
)
def test_function_words_carry_no_content(text: str, terms: set[str]) -> None:
    assert content_words(text) == terms


def wide(text: str) -> str:
    return "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in text)


@given(
    st.lists(st.text("abcdefg漢é5+-", min_size=1, max_size=5), min_size=1, max_size=5),
    SPACE,
    st.sampled_from(["", ".", "!", "…", " .", "。", "!!"]),
    st.sampled_from([wide, str.strip, lambda text: unicodedata.normalize("NFD", text)]),
)
def test_a_hash_leaves_out_what_is_presentation(
    parts: list[str], space: str, end: str, written: Callable[[str], str]
) -> None:
    plain = " ".join(parts)
    capitals = " ".join(part.capitalize() if part.isalpha() and part.isascii() and part[1:] else part for part in parts)
    for other in (space.join(parts), f"{space}{plain}{end}{space}", written(plain), capitals):
        assert text_hash(other) == text_hash(plain)


@given(
    st.text("ab 漢5", max_size=8), st.sampled_from("+-*/#%°$€²½①_?'\"()👍👎\u200d,;:"), st.text("ab 漢5", max_size=8)
)
def test_a_hash_counts_every_sign(before: str, sign: str, after: str) -> None:
    assert text_hash(f"{before}{sign}{after}") != text_hash(f"{before}{after}")
    assert text_hash(f"{before}{sign}{after}") != text_hash(f"{before} {after}")


@given(st.text("abCD1é漢+. ", min_size=1, max_size=8), st.data())
def test_a_hash_counts_case_but_for_the_first_letter_of_a_word(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text) - 1))
    swapped = f"{text[:place]}{text[place].swapcase()}{text[place + 1 :]}"
    word_starts = place == 0 or not text[place - 1].isalnum() or text[place - 1] == "漢"
    if swapped != text and not word_starts:
        assert text_hash(swapped) != text_hash(text)
        assert cased_words(swapped) != cased_words(text)


@each(
    ("one", "other"),
    [
        *[("Blood type is A-.", "Blood type is A."), ("Score is +5", "Score is -5"), ("Likes C", "Likes C++")],
        *[
            ("Codes in C", "Codes in C#"),
            ("Codes for .NET", "Codes for NET"),
            ("8 am", "8 pm"),
            ("-", "!"),
            ("3.5", "35"),
        ],
        *[("Key is aB3x", "Key is Ab3X"), ("Key is ABC", "Key is abc"), ("Is in the US", "Is in the us"), ("x", "X")],
        *[("Has an iPhone", "Has an iphone"), ("Owns x.org/Ab", "Owns x.org/ab"), ("resume", "résumé")],
        *[("x²", "x2"), ("½", "1/2"), ("①", "1"), ("👍", "👎"), ("👍", "👍🏽"), ("Likes tea", "Likes tea?")],
        *[
            ("血型是A-", "血型是A"),
            ("喜欢C++", "喜欢C"),
            ("密码是aB3x", "密码是Ab3X"),
            ("喜欢👍", "喜欢👎"),
            ("喜欢茶", "喜欢茶？"),
        ],
    ],
)
def test_what_differs_in_meaning_differs_in_hash(one: str, other: str) -> None:
    assert text_hash(one) != text_hash(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *[("Ｌｉｋｅｓ　ｔｅａ", "likes tea"), ("Blood type is A－", "Blood type is A-."), ("Likes C++!", "Likes C++")],
        *[
            ("Anna's Tea (Green), please", "anna's tea (green), please"),
            ("血型是Ａ－。", "血型是A-"),
            ("喜欢Python", "喜欢python"),
        ],
    ],
)
def test_what_differs_only_in_form_has_one_hash(one: str, other: str) -> None:
    assert text_hash(one) == text_hash(other)


@given(ANY)
def test_signed_words_are_the_words_where_there_are_no_signs(text: str) -> None:
    plain = "".join(sign if sign.isalpha() or sign.isspace() else " " for sign in text)
    assert signed_words(plain) == words(plain)


@given(st.sampled_from([*"+-*#%°$²½👍"]), st.sampled_from(["a", "12", "c", "漢"]))
def test_signed_words_tell_signs_apart(sign: str, word: str) -> None:
    assert signed_words(f"likes {word}{sign}.") != signed_words(f"likes {word}.")


@each(
    ("text", "expected"),
    [
        ("She has a dog", True),
        ("And also his name is Tom", True),
        ("Well, they moved", True),
        ('"It broke', True),
        ("她有一条狗", True),
        ("而且，他住在里昂", True),
        ("Sheila has a dog", False),
        ("Has a dog; she is nice", False),
        ("Item one", False),
        ("Hershey is nice", False),
        ("我有一条狗", False),
        ("", False),
    ],
)
def test_a_statement_that_opens_with_a_pronoun_refers_back(text: str, *, expected: bool) -> None:
    assert refers_back(text) is expected


def test_threads_do_not_get_parts_of_each_others_words() -> None:
    # The stemmer keeps the word that it works on in itself; a wrong stem would also be remembered for ever.
    names = [f"q{number:05}".translate(str.maketrans("0123456789", "bcdfghjkmn")) + "ations" for number in range(6_000)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            stems = list(pool.map(words, names))
    finally:
        sys.setswitchinterval(before)
    assert [stem for stem, name in zip(stems, names, strict=True) if stem[0][:6] != name[:6]] == []
