"""Words of many languages: the same word is the same term, however it is inflected, typed or encoded."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.text import (
    ENGLISH,
    LANGUAGES,
    NO_STEMS,
    check_language,
    content_words,
    folded,
    groups_of,
    marks,
    stemmer,
    topics,
    unaccented,
    words,
)
from tests.cases import each

EVERY = st.sampled_from((*LANGUAGES, NO_STEMS))
ANY = st.text(max_size=60)
# Letters of many scripts with what makes them hard: accents, signs, joiners, apostrophes.
HARD = st.text("aIıİßłñé漢がカ\u3099\u0301ก่าсйё'’\u0345ςΣاى\u0640क\u093f\u094d\u093c\u200d\u00ad·l٣½ﬁ", max_size=30)

SAME = {
    "german": "Haus Häuser HÄUSERN haeuser; Straße STRASSE Straßen; Buch Bücher; Mädchen MAEDCHEN madchen; Hund Hunde",
    "french": "étudier étudiait ETUDIER etudie; cheval chevaux; avion l'avion l’avions; préférée préférer preferee",
    "spanish": "canción canciones CANCION; niño niña ninos; médico medicas; trabajó trabajar trabajando",
    "portuguese": "médico médica MEDICOS; trabalhou trabalhar; português portugueses portugues",
    "italian": "città CITTA; abitò abitare abito; anno dell'anno un'anno",
    "catalan": "germans germana GERMANS; aigua d'aigua; col·legi col·legis co\u0140legi",
    "polish": "książka książki książkę ksiazka; siostra siostrę siostrą",
    "turkish": "kitap kitaplar kitabı'nı; ışık ışıklar IŞIK; istanbul İstanbul'da ISTANBUL",
    "swedish": "hund hundar hunden; bil bilarna BILAR",
    "finnish": "talo talossa talot; järvi järvet JARVET",
    "hungarian": "kutya kutyák KUTYÁT kutyak; könyv könyvek",
    "czech": "kniha knihy knihou; škola školu SKOLA",
    "dutch": "boek boeken; café cafés CAFE",
    "persian": "کتاب کتاب‌ها کتابها كتابها",
    "nepali": "किताब किताबहरू",
    "serbian": "књига књиге knjige; škola школе",
    "english": "run Running; café CAFE cafe\u0301; Anna Anna's ANNA’S; brien O'Brien; naïve naive",
}
BY_SCRIPT = {
    "russian": "собака собакой собаки СОБАК; ёлка елки ЁЛКУ; йогурт йогурта",
    "ukrainian": "м'ясо М’ЯСО",
    "greek": "σκύλος σκύλους ΣΚΥΛΟΣ σκυλοι; σπίτι σπίτια",
    "arabic": "كتاب الكتاب كِتَابٌ كـتاب; مدرسة المدرسة",
    "hindi": "किताब किताबें किताबों; फ़िल्म फिल्म फ़िल्मों; लड़का लड़के",
    "tamil": "புத்தகம் புத்தகங்கள்",
    "japanese": "カフェ ｶﾌｪ",
    "hebrew": "שלום שָׁלוֹם",
    "digits": "2024 ٢٠٢٤ २०२४ ２０２４",
}


def alike(groups: dict[str, str]) -> list[tuple[str, str]]:
    """Each group of forms, with its language."""
    return [(language, group) for language, listed in groups.items() for group in listed.split("; ")]


def agree(group: str, language: str) -> None:
    """Every form of a group finds the first one, and the other way."""
    first, *forms = [set(words(form, language)) for form in group.split()]
    assert [form for form in forms if not form & first] == []


@each(("language", "group"), alike(SAME))
def test_forms_of_one_word_share_a_term_in_its_language(language: str, group: str) -> None:
    agree(group, language)


@each("language", [ENGLISH, "german", "russian"])
@each(("script", "group"), alike(BY_SCRIPT))
def test_a_script_tells_its_language_whatever_that_of_the_database(script: str, group: str, language: str) -> None:
    agree(group, language)


@each(
    ("text", "terms"),
    [
        ("l'avion d'une amie", ["avion", "une", "ami"]),
        ("Qu'aujourd'hui", ["aujourd", "hui"]),
        ("it's Anna’s, don't we'll", ["it", "anna", "don", "we"]),
        ("rock'n'roll at five o'clock", ["rock", "roll", "at", "five", "o", "clock"]),
        ("Я люблю Python и 猫", ["я", "любл", "python", "и", "猫"]),
        (
            "佐々木 アンナ・カレーニナ",
            "佐 々 木 佐々 々木 ア ン ナ アン ンナ カ レ ー ニ ナ カレ レー ーニ ニナ".split(),
        ),
        ("かき かぎ", ["か", "き", "かき", "か", "ぎ", "かぎ"]),
        ("𠮷野", ["𠮷", "野", "𠮷野"]),
        ("แมว", ["แม", "มว", "แมว"]),
        ("มี", ["มี"]),
        ("ខ្ញុំ", ["ខ្ញុំ"]),
        ("มี 2 แมว ๓", ["มี", "2", "แม", "มว", "แมว", "3"]),
        ("मुझे किताबें। पसंद", ["मुझ", "किताब", "पसंद"]),
        ("Häu\u00adser Häu\u200bser", ["hauser", "hau", "ser"]),
        ('"exact phrase" -not (a OR b) AND c:d* ~2 NEAR/3', "exact phrase not a or b and c d 2 near 3".split()),
    ],
)
def test_a_text_falls_into_words_in_every_script(text: str, terms: list[str]) -> None:
    assert words(text) == terms


def test_rules_are_those_of_the_language_and_of_nothing_else() -> None:
    assert words("Gift gifts hat", "german") == ["gift", "gift", "hat"]
    assert words("running Häuser собакой", NO_STEMS) == ["running", "hauser", "собакои"]
    assert words("running", "russian") == words("running") == ["run"]
    assert words("kitap'lar", "turkish") == ["kitap"]


def test_english_word_lists_do_not_touch_other_languages() -> None:
    assert content_words("was war das so", "german") == {"was", "war", "das", "so"}
    assert content_words("what was it") == set()
    assert groups_of(["art"]) and not groups_of(["art"], "german")
    assert groups_of(["猫"], "german") == groups_of(["猫"])
    assert topics(["flat"]) == {"~home"} and not topics(["flat"], "german") and topics(["猫"], "german") == {"~pet"}
    assert marks("last summer") and not marks("summer", "german") and marks("im Jahr 2019", "german")


# ── for any text at all ─────────────────────────────────────────────────────────────────────────────────────────────────


@given(ANY | HARD, EVERY)
def test_words_never_fail_in_any_language(text: str, language: str) -> None:
    assert all(0 < len(term) <= 64 for term in words(text, language))


@given(ANY | HARD, st.sampled_from((ENGLISH, NO_STEMS)))
def test_words_ignore_case_width_and_encoding(text: str, language: str) -> None:
    told = words(text, language)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert words(unicodedata.normalize(form, text), language) == told
    text = unicodedata.normalize("NFC", text)  # Python's own `upper` expects its marks in order
    assert words(text.upper(), language) == words(text.casefold(), language) == told


@given(ANY | HARD, EVERY)
def test_words_ignore_encoding_in_every_language(text: str, language: str) -> None:
    assert words(unicodedata.normalize("NFD", text), language) == words(unicodedata.normalize("NFC", text), language)


@given(HARD, EVERY)
def test_a_word_typed_without_its_accents_is_among_the_terms_of_the_word(text: str, language: str) -> None:
    stems = stemmer(language)
    for piece in folded(text).replace("'", " ").split():
        if piece.isalpha():
            assert set(stems(unaccented(piece))) <= set(stems(piece))


@given(ANY)
def test_a_folded_text_stays_as_it_is(text: str) -> None:
    assert folded(folded(text)) == folded(text)
    assert unaccented(unaccented(folded(text))) == unaccented(folded(text))


@given(st.sampled_from("ab9éсक漢ก'"), st.integers(65, 3_000), EVERY)
def test_blobs_are_cut_to_a_row_in_every_language(letter: str, count: int, language: str) -> None:
    assert all(len(term) <= 64 for term in words(letter * count, language))


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_names_of_languages_are_read_in_any_case() -> None:
    assert [check_language(name) for name in (" German ", "FRENCH", "none")] == ["german", "french", "none"]


@pytest.mark.parametrize(
    ("name", "said"), [("germn", "did you mean 'german'?"), ("klingon", "english"), ("", "'none'")]
)
def test_an_unknown_language_is_refused_with_those_there_are(name: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match="known are arabic") as caught:
        check_language(name)
    assert said in str(caught.value)
    with pytest.raises(InvalidInputError):
        words("a text", name or "?")
