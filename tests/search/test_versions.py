"""The newer version of a statement goes before the older one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.ranking import Ranking
from langmem_adapter.records.results import MemoryItem
from langmem_adapter.records.scope import Scope
from langmem_adapter.search.versions import newest_first
from langmem_adapter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

DATA = Path(__file__).parent / "data"
DAY = datetime(2025, 1, 6, 9, tzinfo=UTC)

FILLERS = (
    "It rained for three hours this afternoon.",
    "I roasted chestnuts with my grandparents.",
    "The lift in our building was stuck again.",
    "We saw a heron down by the river.",
    "I lost at cards to the twins.",
    "There was a long queue at the post office.",
    "I sewed a button back onto the grey coat.",
    "The moon looked enormous tonight.",
    "We laughed a lot at the puppet theatre.",
    "I found an old postcard inside a dictionary.",
    "The bread came out a little burnt.",
    "A storm knocked over the neighbours' fence.",
    "I whistled the same tune for hours.",
    "The candles smelled of cinnamon.",
)
CHINESE_FILLERS = (
    "今天下午下了三个小时的雨。",
    "我和爷爷奶奶一起烤了栗子。",
    "楼里的电梯又坏了。",
    "我们在河边看见一只白鹭。",
    "昨晚的月亮特别圆。",
    "邮局门口排了很长的队。",
    "我给灰色大衣缝了一颗扣子。",
    "木偶戏让大家笑个不停。",
    "我在旧字典里翻到一张明信片。",
    "面包烤得有点焦。",
    "大风把隔壁的篱笆吹倒了。",
    "蜡烛闻起来有桂皮的味道。",
    "我打牌输给了双胞胎。",
    "院子里的梅花开了。",
)


def rows(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def updates() -> list[dict[str, str]]:
    return rows("updates")


def life(row: dict[str, str]) -> list[str]:
    """What one user said, in order: fillers before, between and after the two versions."""
    fillers = CHINESE_FILLERS if row["kind"] == "chinese" else FILLERS
    return [*fillers[:6], row["older"], *fillers[6:10], row["newer"], *fillers[10:]]


def opened(lives: Iterable[list[str]]) -> Memory:
    """A memory of users 0, 1, …, and what each of them said, nine days between two statements."""
    memory = Memory(":memory:", settings=Settings(trace_days=0))
    memory.add_many(
        [
            {
                "messages": text,
                "user_id": f"user {number}",
                "infer": False,
                "timestamp": DAY + timedelta(days=9 * place),
            }
            for number, told in enumerate(lives)
            for place, text in enumerate(told)
        ]
    )
    return memory


def failures(listed: list[dict[str, str]], lives: list[list[str]], first: str, second: str) -> list[str]:
    """The rows of which *second*, or neither, came before *first*."""
    failed = []
    with opened(lives) as memory:
        for number, row in enumerate(listed):
            found = [hit.text for hit in memory.search(row["question"], user_id=f"user {number}")]
            if row[first] not in found or row[second] in found[: found.index(row[first])]:
                failed.append("{question} | {older} | {newer}".format(**row))
    return failed


def test_the_newer_of_two_versions_outranks_the_older_in_97_percent_of_updates() -> None:
    failed = failures(updates(), [life(row) for row in updates()], "newer", "older")
    assert len(failed) <= 0.03 * len(updates()), failed


@pytest.mark.parametrize(
    ("name", "first", "second"), [("told_anew", "newer", "older"), ("unrelated", "older", "newer")]
)
def test_messages_of_chats_and_tasks_are_versions_where_they_tell_the_same_thing_anew(
    name: str, first: str, second: str
) -> None:
    listed = rows(name)
    lives = [[FILLERS[0], row["older"], *CHINESE_FILLERS[:2], row["newer"], FILLERS[1]] for row in listed]
    failed = failures(listed, lives, first, second)
    assert len(failed) <= 0.1 * len(listed), failed


def test_the_updates_cover_every_kind() -> None:
    rows = updates()
    kinds = [row["kind"] for row in rows]
    assert {kind: kinds.count(kind) >= 10 for kind in set(kinds)} == dict.fromkeys(
        ("number", "place", "job", "negation", "paraphrase", "chinese"), True
    )
    assert len({row["older"] for row in rows} | {row["newer"] for row in rows}) == 2 * len(rows)


# ── corners ───────────────────────────────────────────────────────────────────────────────────────────────────────────

OLDER, NEWER = "I live in Paris.", "I live in Berlin."
WHERE = "Where do I live?"


def item(
    text: str, *, days: float = 0, actor: str | None = "user", agent: str | None = None, user: str = "ada"
) -> MemoryItem:
    when = DAY + timedelta(days=days)
    return MemoryItem(
        id=text,
        text=text,
        scope=Scope(user, agent),
        metadata={},
        memory_type=None,
        actor_id=actor,
        role="user",
        created_at=when,
        updated_at=when,
        expires_at=None,
        revision=1,
        hash="",
    )


def order(*items: MemoryItem, question: str = WHERE) -> list[str]:
    return [items[place].text for place in newest_first(items, question)]


def test_the_newer_version_goes_right_before_the_older_one() -> None:
    tea = item("I like tea.", days=5)
    assert order(tea, item(OLDER), item("I own a dog.", days=1), item(NEWER, days=2)) == [
        "I like tea.", NEWER, OLDER, "I own a dog.",
    ]  # fmt: skip


def test_what_is_in_order_already_stays() -> None:
    assert order(item(NEWER, days=2), item(OLDER)) == [NEWER, OLDER]
    assert order(item(OLDER)) == [OLDER]


@pytest.mark.parametrize(
    ("case", "later"),
    [
        ("said at the same time", item(NEWER)),
        ("said before", item(NEWER, days=-1)),
        ("said by another speaker", item(NEWER, days=2, actor="Ben")),
        ("said by an agent", item(NEWER, days=2, agent="guide")),
        ("said by another user", item(NEWER, days=2, user="ben")),
        ("a question", item("Do I live in Berlin?", days=2)),
        ("about something else", item("I saw a heron by the river.", days=2)),
        ("about somebody else", item("My sister moved to Berlin, she lives by the river now.", days=2)),
        ("asked for, not said", item("I like Berlin. Can I live there now?", days=2)),
        ("in code, not said", item("I like Berlin.\n```python\nprint('I live in Berlin now')\n```", days=2)),
    ],
)
def test_what_is_no_newer_version_stays_behind(case: str, later: MemoryItem) -> None:
    assert order(item(OLDER), later) == [OLDER, later.text], case


RENT = item("My rent is 900 euros.")


@pytest.mark.parametrize(
    ("question", "newer", "first"),
    [
        ("How much is my rent?", "Ben's rent is now 700 euros.", "older"),
        ("How much is my rent?", "The landlord came, and the rent is now 980 euros, is that fair?", "newer"),
        ("Can you tell me how much my rent is?", "My rent is 980 euros now.", "newer"),
        ("How much was my rent?", "My rent is 980 euros now.", "older"),
        ("How much is my rent?", "My rent went up, which annoys me.", "older"),
        ("Is my rent high?", "My rent went up, which annoys me.", "newer"),
    ],
)
def test_an_amount_is_given_anew_of_the_same_thing_where_the_question_is_of_now(
    question: str, newer: str, first: str
) -> None:
    assert order(RENT, item(newer, days=9), question=question)[0] == {"newer": newer, "older": RENT.text}[first]


@pytest.mark.parametrize(
    ("newer", "first"),
    [
        ("the 5th of December", "older"),
        ("Dec. 5th", "older"),
        ("12月5日", "older"),
        ("Dec 9", "newer"),
        ("5 Jan.", "newer"),
    ],
)
def test_a_date_that_is_only_restated_is_not_given_anew(newer: str, first: str) -> None:
    told = [item("We hand in the grant on December 5."), item(f"So we hand in that grant {newer}, I believe.", days=9)]
    assert order(*told, question="When do we hand in the grant?")[0] == told[first == "newer"].text
    assert order(*told, question="When do we hand in the grant in Dec?")[0] == told[0].text


def test_of_a_long_message_the_clauses_about_what_is_asked_count() -> None:
    older = item("I'm at 61 % coverage with the parser, which has 14 modules, what should I test next?")
    aside = "We have 20 modules in the linter now, and 3 people in the team. "
    anew = item(f"{aside * 9}I raised the coverage of the parser to 82 %, should I go on?", days=3)
    other = item(f"{aside * 9}The parser is fast, is its coverage high?", days=3)
    question = "What is the coverage of the parser?"
    assert order(older, anew, question=question)[0] == anew.text
    assert order(older, other, question=question)[0] == older.text


PAGES = "The rulebook of my board game has 34 pages, how do I structure the setup chapter?"
HOW_MANY_PAGES = "How many pages does the rulebook of my board game have?"


@pytest.mark.parametrize(
    ("question", "older", "newer", "first"),
    [
        (
            HOW_MANY_PAGES,
            PAGES,
            "I'd like to cut examples, as the rulebook has grown to 52 pages for the game.",
            "newer",
        ),
        (
            HOW_MANY_PAGES,
            PAGES,
            "I'd like to cut examples, as the rulebook needs 52 pictures for the game.",
            "older",
        ),
        (
            "How long does the sales report run?",
            "The sales report runs 14 minutes.",
            "Our sales report runs 90 seconds.",
            "newer",
        ),
        (
            "How long does the sales report run?",
            "The sales report runs 14 minutes.",
            "Our stock report runs 9 minutes.",
            "older",
        ),
        (
            "How many visitors does my blog get a day?",
            "My blog gets 400 visitors a day.",
            "My shop gets 90 visitors a day.",
            "older",
        ),
        (
            "When does the first stage end?",
            "The first stage ends on May 2.",
            "The third stage ends on June 9.",
            "older",
        ),
        (
            "What is the lock timeout of my game?",
            "I set the lock timeout of my game to 15 s.",
            "A lock timeout of 45 s suits my game.",
            "newer",
        ),
        ("What time do I swim?", "I swim at six o'clock.", "I swim at nine in the evening.", "newer"),
        (
            "What is the longest walk I do in my Alps training?",
            "I train for the Alps and my longest walk so far is 9 km.",
            "I was out on Sunday for my Alps training, I walked 15 km and slept well.",
            "newer",
        ),
        (
            "How much does the lemon tart cost at my cafe?",
            "At my cafe the lemon tart is $4.50.",
            "I rewrote the menu of the cafe, the tart is at $5.20.",
            "newer",
        ),
        (
            "How much does the lemon tart cost at my cafe?",
            "At my cafe the lemon tart is $4.50.",
            "I rewrote the menu of the cafe, hot soup is at $5.20.",
            "older",
        ),
        (
            "How many letters have I sorted for the archive?",
            "I've sorted 80 letters for the archive.",
            "I counted again for the archive, the number of letters is 140 after this weekend.",
            "newer",
        ),
        ("How much do I weigh?", "I weigh 90 kilos.", "I stood on the scale, it said 84 kilos.", "newer"),
        ("我的报告写了多少字？", "我的报告写了三千字。", "报告终于写到八千字了。", "newer"),
        ("茶馆预算是多少？", "茶馆预算是三万元。", "婚宴预算是五万元。", "older"),
        ("What does my friend Mona do?", "My friend Mona is a baker.", "I met Mona, she quit as a baker.", "newer"),
        ("我养了几只鸟？", "我养了一只鸟。", "家里现在有两只小鸟了。", "newer"),
        ("我住在哪里？", "我住在苏州。", "我爸妈搬到西安去住了。", "older"),
    ],
)
def test_an_amount_of_the_same_unit_is_given_anew_and_one_of_another_thing_is_not(
    question: str, older: str, newer: str, first: str
) -> None:
    told = [item(older), item(newer, days=9)]
    assert order(*told, question=question)[0] == {"older": older, "newer": newer}[first]


SORTS = ("wool", "silk", "linen", "felt")


@settings(max_examples=30)
@given(
    st.sampled_from(SORTS),
    st.sampled_from(SORTS),
    st.integers(2, 99),
    st.integers(100, 999),
    st.sampled_from(("{} hats", "hats of {}")),
)
def test_only_an_amount_of_the_sort_that_is_asked_is_a_newer_version(
    asked: str, other: str, was: int, now: int, hats: str
) -> None:
    told = [
        item(f"I've sewn {was} {hats.format(asked)} for the fair."),
        item(f"I've sewn {now} {hats.format(other)} now.", days=3),
    ]
    question = f"How many {hats.format(asked)} have I sewn?"
    assert order(*told, question=question)[0] == told[asked == other].text


@pytest.mark.parametrize(("change", "first"), [("", 0), (" now", 1)])
def test_of_a_message_on_many_things_a_clause_counts_that_says_that_something_changed(change: str, first: int) -> None:
    aside = "We have plenty of tests in the linter. " * 40
    told = [item("The parser has 14 rules."), item(f"{aside}The parser{change} has 20 rules. {aside}", days=3)]
    assert order(*told, question="How many rules does the parser have?")[0] == told[first].text


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.text(max_size=60), st.integers(0, 3)), max_size=6),
    st.sampled_from([WHERE, "", "?", "我住在哪里？", "How much is my rent?"]) | st.text(max_size=40),
)
def test_whatever_was_said_each_hit_is_shown_once(told: list[tuple[str, int]], question: str) -> None:
    items = [item(f"I live in {text}", days=days) for text, days in told]
    assert sorted(newest_first(items, question)) == list(range(len(items)))


def test_a_chain_of_versions_ends_with_the_newest_first() -> None:
    chain = [item(f"I live in {city}.", days=days) for days, city in enumerate(("Paris", "Berlin", "Lisbon"))]
    for ranked in permutations(chain):
        found = order(*ranked)
        assert found[0] == "I live in Lisbon."
        assert sorted(found) == sorted(one.text for one in chain)


def _told(memory: Memory, text: str, days: float, **more: Any) -> str:
    result = memory.add(text, user_id="eve", infer=False, timestamp=DAY + timedelta(days=days), **more)
    return str(result.results[0].id)


def test_a_deleted_version_lifts_nothing_and_the_older_one_counts_again() -> None:
    with Memory(":memory:") as memory:
        _told(memory, OLDER, 0)
        newer = _told(memory, NEWER, 9)
        assert [hit.text for hit in memory.search(WHERE, user_id="eve")] == [NEWER, OLDER]
        memory.delete(newer)
        assert [hit.text for hit in memory.search(WHERE, user_id="eve")] == [OLDER]


def test_the_order_of_versions_can_be_switched_off() -> None:
    stale, current = "I live in a flat in Leeds.", "I moved to York."
    for newest, first in ((True, current), (False, stale)):
        with Memory(":memory:", settings=Settings(ranking=Ranking(newest_first=newest))) as memory:
            _told(memory, stale, 0)
            _told(memory, current, 9)
            assert memory.search("Do I live in a flat?", user_id="eve", k=1)[0].text == first
