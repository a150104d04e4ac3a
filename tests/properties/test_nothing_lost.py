"""What a user states offline is never lost: each word stands in a memory, or a decision names it (law 3)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter.memory.memory import Memory
from langmem_adapter.reasoning.base import Comparison
from langmem_adapter.reasoning.rules import RuleReasoner
from langmem_adapter.text import STOPWORDS, TALK, words
from tests.cases import each
from tests.reasoning.reasoner_conformance import question, turn

REASONER: Final = RuleReasoner()
DATA: Final = Path(__file__).parents[1] / "benchmarks" / "data"
MESSAGES: Final = [
    text
    for file in sorted(DATA.glob("updates.*.jsonl"))
    for line in file.read_text(encoding="utf-8").splitlines()
    for text in (json.loads(line)["old"], json.loads(line)["new"])
]
REWORDED: Final = frozenset(
    "call name num cell phone email mail address chang switch updat new now current these day moment save reach text here "
    "make boss manag compani work for on use use from birthday born bday also again instead legal final happili "
    "im ive pleas quick way do not anymor ani more actual last this yesterday today month saturday "
    "year week two ago everyon mistak correct guess "
    "meet nice is have got not my our live whi thing wait "
    "gf bf mum sad lucki luck honest honestli anyway wow ugh fyi good news big record oop nowaday tell mention forgot".split()
)
"""Words that the wording of an attribute stands for ("call me" is "Name is"), that become a date, or that say nothing more."""
REWORDED_CJK: Final = frozenset(
    "我你您咱们的了吗呢吧啊哦啦哈呀在是有和就也都已经现目前今以后起请叫名字换改成为变新号码手机电话邮箱件子地址联系常用发到打存记下一个上"
    "周礼拜行月年去昨天刚终于正全家本人还又做出过之更说错"
)


def letters(text: str) -> set[str]:
    """The stems of a text and its Chinese letters."""
    whole = re.sub("can't|cannot", "can not", text)
    plain = re.sub("n't\\b", " not", re.sub("[\u4e00-\u9fff]", " ", whole))
    return {*words(plain), *re.findall("[\u4e00-\u9fff]", text)}


def lost(message: str) -> set[str]:
    """The words of a message that is kept which no memory of it holds and no decision names."""
    facts = REASONER.extract.invoke(question(turn(message))).facts
    decisions = REASONER.decide.invoke(Comparison(facts, ())).decisions
    kept = letters(" ".join(f"{each.text} {each.reason}" for each in decisions))
    return letters(message) - kept - STOPWORDS - TALK - REWORDED - REWORDED_CJK if decisions else set()


@each(
    "message",
    [
        *MESSAGES,
        "我刚在佛山买了房，已经住过来了。",
        "我和前妻离婚了，现在的太太是罗琳。",
        "I live in Rome and I live in Bonn in May.",
    ],
)
def test_add_loses_no_word_of_an_everyday_message(message: str) -> None:
    assert lost(message) == set()


CLAUSES: Final = [text.rstrip(".。!！") for text in MESSAGES if len(text) < 70 and not re.search("[?？]", text)]
ENGLISH, CHINESE = ([text for text in CLAUSES if text.isascii() is plain] for plain in (True, False))


@given(
    st.one_of(
        st.tuples(
            st.sampled_from(ENGLISH), st.sampled_from([", ", " and ", ". ", " - ", ", but "]), st.sampled_from(ENGLISH)
        ),
        st.tuples(st.sampled_from(CHINESE), st.sampled_from("，。；"), st.sampled_from(CHINESE)),
    ).map("".join)
)
@settings(max_examples=150, deadline=None)
def test_add_loses_no_word_where_two_statements_stand_in_one_message(message: str) -> None:
    assert lost(message) == set()


def test_add_replaces_a_home_with_a_clause_beside_it() -> None:
    with Memory(":memory:") as memory:
        for text in ("我现在住在广州天河。", "我刚在佛山买了房，已经住过来了。"):
            memory.add(text, user_id="u")
        assert [item.text for item in memory.get_all(user_id="u")] == ["在佛山买了房 (已经住过来了)"]
