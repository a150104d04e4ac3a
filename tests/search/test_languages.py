"""Memories in many languages are found by other forms of their words, in every kind of database."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from langmem_adapter.errors import InvalidInputError, StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.ranking import Ranking
from langmem_adapter.settings import Settings
from langmem_adapter.storage import lexical
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.meta import LANGUAGE, get, language_of, put
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.tables import memories, scopes, words
from langmem_adapter.text import TOKENIZER
from tests.programs import Program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USER: dict[str, Any] = {"user_id": "ana"}


def tuned(language: str | None = None) -> Settings:
    """Settings under which words alone decide: a hit without a word of the question has no score."""
    return Settings(language=language, ranking=Ranking.plain(1), trace_days=0)


def told(memory: Memory, *texts: str) -> None:
    for text in texts:
        memory.add(text, **USER, infer=False)


def found(memory: Memory, question: str, **options: Any) -> list[str]:
    """The texts that share a word with the question, best first."""
    hits = memory.search(question, **USER, k=50, explain=True, **options)
    return [hit.text for hit in hits if hit.explanation is not None and hit.explanation.words > 0]


def kept_words(memory: Memory) -> set[tuple[Any, ...]]:
    with memory.parts.database.read() as connection:
        return {tuple(row) for row in connection.execute(select(words))}


def right_words(memory: Memory, language: str) -> set[tuple[Any, ...]]:
    """What the word rows have to be."""
    names = [column.name for column in words.c]
    with memory.parts.database.read() as connection:
        return {
            tuple(posting[name] for name in names)
            for row in connection.execute(select(memories))
            for posting in lexical.postings(row._asdict(), language)
        }


# ── what people say ─────────────────────────────────────────────────────────────────────────────────────────────────────

WORLD = {
    "Моя собака боится грозы": ("собакой", "СОБАКИ", "гроза"),
    "Η αδελφή μου έχει δύο σκύλους": ("σκύλος", "ΣΚΥΛΟΣ", "σκυλοι"),
    "أحب قراءة الكتاب في المكتبة": ("كتاب", "كِتَابٌ", "مكتبة"),
    "मुझे किताबें पढ़ना पसंद है": ("किताब", "किताबों"),
    "எனக்கு புத்தகங்கள் பிடிக்கும்": ("புத்தகம்",),
    "我在旧金山养了一只猫": ("猫", "旧金山"),
    "毎朝コーヒーを飲みます": ("コーヒー", "ｺｰﾋｰ", "毎朝"),
    "저는 김치찌개를 좋아해요": ("김치", "김치찌개"),
    "ฉันเลี้ยงแมวสองตัว": ("แมว",),
    "אני אוהב שוקולד": ("שוקולד", "שׁוקולד"),
    "Я їм м’ясо щодня": ("м'ясо",),
    "I met José at the café in São Paulo": ("jose", "CAFÉ", "sao paulo", "cafe\u0301"),
    "J'ai pris l'avion avec d'Artagnan": ("avion", "Artagnan", "d’artagnan"),
    "My iPhoneを東京で買った in Łódź": ("iphone", "東京", "lodz"),
}


@pytest.fixture
def world(database_url: str) -> Iterator[Memory]:
    """A memory of no language in particular that was told all of it."""
    with Memory(database_url, settings=tuned()) as memory:
        told(memory, *WORLD)
        yield memory


def test_facts_in_many_scripts_are_found_by_other_forms_of_their_words(world: Memory) -> None:
    missed = {
        question: hits
        for fact, asked in WORLD.items()
        for question in asked
        if (hits := found(world, question)) != [fact]
    }
    assert missed == {}


LATIN: dict[str, dict[str, tuple[str, ...]]] = {
    "german": {"Die alten Häuser an der Straße": ("Haus", "STRASSE", "haeuser", "strassen")},
    "french": {"Elle étudiait les chevaux préférés": ("étudier", "cheval", "preferer", "etudie")},
    "spanish": {"Cantó dos canciones a los niños": ("canción", "CANCION", "niña", "ninos")},
    "portuguese": {"Os médicos portugueses trabalhavam": ("médica", "medico", "português", "trabalhar")},
    "italian": {"Nell'anno della felicità abitò a Roma": ("anno", "felicita", "abitare")},
    "polish": {"Siostry czytają książki": ("siostrę", "książka", "ksiazka")},
    "turkish": {"İstanbul'da ışıklar ve kitaplar": ("istanbul", "ışık", "isiklar", "KİTAP")},
    "hungarian": {"A kutyák könyveket esznek": ("kutya", "könyv", "konyvek")},
}


@pytest.mark.parametrize("language", LATIN)
def test_a_database_of_a_language_finds_by_its_rules(language: str) -> None:
    with Memory(":memory:", settings=tuned(language)) as memory:
        told(memory, "Моя собака спит", "我喜欢茶", *LATIN[language])
        for fact, asked in LATIN[language].items():
            assert {question: found(memory, question) for question in asked} == {question: [fact] for question in asked}
        assert found(memory, "собакой") == ["Моя собака спит"]
        assert found(memory, "茶") == ["我喜欢茶"]


@settings(max_examples=25)
@given(st.text(max_size=80), st.sampled_from([None, "turkish", "arabic", "none"]))
def test_any_text_can_be_told_and_found(text: str, language: str | None) -> None:
    text = f"zebra {text}".replace("\x00", "")
    with Memory(":memory:", settings=tuned(language)) as memory:
        told(memory, text)
        assert len(found(memory, text)) == len(found(memory, "ZEBRA")) == 1


def test_a_search_known_at_a_moment_uses_the_language() -> None:
    with Memory(":memory:", settings=tuned("german")) as memory:
        told(memory, "Alte Häuser")
        then = datetime.now(UTC) + timedelta(seconds=1)
        assert found(memory, "HAUS", known_at=then) == ["Alte Häuser"]


# ── the language of a database ──────────────────────────────────────────────────────────────────────────────────────────

FACTS = ("Die Häuser sind alt", "Sie mag Bücher", "She was running")


def kept(memory: Memory) -> str:
    with memory.parts.database.read() as connection:
        return language_of(connection)


def counted(memory: Memory) -> list[int]:
    with memory.parts.database.read() as connection:
        return [int(count) for count in connection.execute(select(scopes.c.word_count)).scalars()]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that outlives the memory, of each kind in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "memory.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


def test_a_database_reopened_in_another_language_finds_by_its_rules(lasting: str) -> None:
    with Memory(lasting, settings=tuned()) as memory:
        told(memory, *FACTS)
        assert kept(memory) == "english"
        assert (found(memory, "Haus"), found(memory, "runs")) == ([], [FACTS[2]])
    with Memory(lasting, settings=tuned("german")) as memory:
        assert (found(memory, "Haus"), found(memory, "Buch"), found(memory, "runs")) == ([FACTS[0]], [FACTS[1]], [])
        assert kept_words(memory) == right_words(memory, "german")
        lengths = counted(memory)
    with Memory(lasting, settings=tuned()) as memory:  # who names none keeps it
        assert kept(memory) == "german"
        assert found(memory, "Haus") == [FACTS[0]]
    with Memory(lasting, settings=tuned("english")) as memory:
        assert found(memory, "runs") == [FACTS[2]]
        assert kept_words(memory) == right_words(memory, "english")
        assert lengths == counted(memory)


def test_who_has_it_open_follows_with_the_next_search_and_the_next_write(lasting: str) -> None:
    with Memory(lasting, settings=tuned("english")) as old:
        told(old, *FACTS)
        assert (found(old, "Haus"), found(old, "runs")) == ([], [FACTS[2]])
        with Memory(lasting, settings=tuned("german")) as new:
            assert (found(old, "Haus"), found(old, "runs")) == ([FACTS[0]], [])
            told(old, "Viele Straßen")
            assert found(new, "STRASSE") == found(old, "strassen") == ["Viele Straßen"]
            assert kept_words(old) == right_words(old, "german")


def test_opening_it_again_in_its_language_writes_nothing(lasting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory(lasting, settings=tuned("german")) as memory:
        told(memory, *FACTS)

    def never(*_: object) -> int:
        raise AssertionError("the words were written anew")

    monkeypatch.setattr(lexical, "rebuild", never)
    for language in ("german", "GERMAN", None):
        with Memory(lasting, settings=tuned(language)) as memory:
            assert found(memory, "Haus") == [FACTS[0]]


def test_processes_that_disagree_leave_the_words_of_one_of_them(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    program = """
        import sys
        from langmem_adapter.memory.memory import Memory
        from langmem_adapter.settings import Settings
        for number in range(3):
            with Memory(sys.argv[1], settings=Settings(language=sys.argv[2])) as memory:
                memory.add(f"Die Häuser {number} were running", user_id="ana", infer=False)
    """
    with Memory(path, settings=tuned()) as memory:
        told(memory, *FACTS)
        running = [Program("-c", textwrap.dedent(program), path, language) for language in ("german", "french", "none")]
        assert [program.end().returncode for program in running] == [0, 0, 0]
        assert kept(memory) in {"german", "french", "none"}
        assert len(memory.get_all(**USER)) == len(FACTS) + 9
        assert kept_words(memory) == right_words(memory, kept(memory))


def test_a_language_that_is_not_installed_is_named(lasting: str) -> None:
    with Memory(lasting, settings=tuned()) as memory:
        memory.parts.database.write(lambda connection: put(connection, LANGUAGE, "klingon"))
    with pytest.raises(StorageError, match=r"klingon.*upgrade"):
        Memory(lasting, settings=tuned())
    with Memory(lasting, settings=tuned("german")) as memory:
        assert kept(memory) == "german"


def test_an_unknown_language_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"'language'.*did you mean 'german'"):
        Settings(language="germn")
    with pytest.raises(InvalidInputError, match="known are"):
        prepare(Database(tmp_path / "m.db"), "klingon")
    assert not (tmp_path / "m.db").exists()


def test_a_new_tokenizer_keeps_the_language(database: Database) -> None:
    prepare(database, "german")
    database.write(lambda connection: put(connection, "tokenizer", "0"))
    prepare(database)
    with database.read() as connection:
        assert (get(connection, "tokenizer"), language_of(connection)) == (TOKENIZER, "german")
