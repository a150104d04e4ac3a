"""What a query asks for: small talk gets nothing, a question about oneself whatever is known, the rest what answers it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter import Memory
from langmem_adapter.search.query import asks_for, read_question
from langmem_adapter.text import PHRASE, STOPWORDS, TALK

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTHING = """
hi|hello there|hey, how are you?|thanks!|thank you so much|okay, got it|sounds good|great, thanks|see you tomorrow
good morning!|have a nice weekend|haha that's funny|no problem|you're welcome|bye bye|yes please|let me think
I agree|that makes sense|what's up?|how's it going?|👍|...|ok 👍|are you there?|sooo good|hahahaha|heyyy|me too
can you help me?|你好|谢谢|好的|嗯嗯|哈哈哈|好的谢谢|早上好|晚安|再见|知道了|在吗|你好吗？|我很好|最近怎么样？|太好了
Can you repeat that?|How come?|go on|stop|just kidding|that sounds like fun
没关系|我知道了|明天见|那先这样|👌|好吧那就这样|我也是|你能帮我吗？
"""
ONESELF = """
What do you know about me?|Who am I?|Tell me about myself|What have I told you so far?|Do you remember me?|Describe me
Summarize what you know about me|what kind of person am I?|What's your impression of me so far?
How well do you know me?|what's in my profile?|你知道我什么？|我是谁？|你还记得我吗？|介绍一下我自己|你对我了解多少？
我跟你说过什么？|你记得关于我的哪些事？|在你眼里我是什么样的人
List everything you remember|What's in your memory?|what are my preferences?|What have we talked about?|你都记住了什么？
show me all you know|what have you stored in your memory?|Tell me my preferences|What did we discuss?|what have we discussed?
你记得什么？|你的记忆里有什么？|我的偏好是什么？|我们聊过什么？|列出你记得的一切|你都知道些什么
"""
SOMETHING = """
Where do I live?|morning|last week|the weekend|my birthday|Where do I work?|Who is Anna?|What did I say about work?
note|tea|when is the next meeting?|What do you know about my dog?|Do you remember my name?|what should I do tomorrow?
problem with the car|Did she call?|What time should we meet?|我住在哪里？|我喜欢什么？|茶|我老家在哪里
What are my preferences for tea?|What's in my fridge?|What's in your bag?|List everything you remember about the trip
List everything I have to buy|What did we talk about yesterday?|What have we said about Paris?|What's in memory of Anna?
你记住密码了吗？|你都记住了什么歌？|我们聊过什么电影|你知道什么是围棋吗|我的偏好设置在哪里|你记得的那家店叫什么
你记得我的生日吗|你了解我的工作吗|你还记得我喜欢什么吗|周末几点上班|你知道我的名字吗|上周我看了什么电影
"""


DATA = Path(__file__).with_name("data")


def lines(text: str) -> Iterator[str]:
    return (line for row in text.strip().splitlines() for line in row.split("|"))


def test_what_a_query_asks_for() -> None:
    wanted = {"nothing": NOTHING, "oneself": ONESELF, "something": SOMETHING}
    told = [(line, asked) for asked, text in wanted.items() for line in lines(text)]
    wrong = [(line, asked, asks_for(line)) for line, asked in told if asks_for(line) != asked]
    assert not wrong


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    ("kind", "wanted", "least"),
    [("smalltalk", "nothing", 1), ("selfquestions", "oneself", 0.95), ("personal", "something", 1)],
)
def test_small_talk_is_silent_and_questions_about_oneself_are_answered(
    kind: str, wanted: str, least: float, language: str
) -> None:
    told = (DATA / f"{kind}.{language}.txt").read_text(encoding="utf-8").splitlines()
    wrong = [(line, asks_for(line)) for line in told if asks_for(line) != wanted]
    assert len(wrong) <= (1 - least) * len(told) + 1e-9, wrong


def test_who_knows_the_terms_of_a_question_is_told_the_same() -> None:
    luck = random.Random(1)
    words = [*sorted(TALK | PHRASE | STOPWORDS), "?", "Anna", "tea", "NASA", "soooo", "go on", "don’t", "你好", "茶"]
    made = [" ".join(luck.choices(words, k=luck.randint(1, 6))) for _ in range(2_000)]
    told = [*made, *(line for text in (NOTHING, ONESELF, SOMETHING) for line in lines(text))]
    known = [
        (line, asks_for(line, terms=read_question(line, names).terms)) for line in told for names in ([], ["anna"])
    ]
    assert [(line, asked) for line, asked in known if asked != asks_for(line)] == []


@pytest.mark.parametrize("name", ["locomo-dev", "memorybank-en", "memorybank-zh", "beam-dev"])
def test_no_question_of_a_benchmark_is_taken_for_anything_else(name: str) -> None:
    path = Path(__file__).parents[3] / "shared" / "data" / f"{name}.json"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    users = json.loads(path.read_text(encoding="utf-8"))
    asked = [each["question"] for user in users for each in user.get("questions", user.get("qa"))]
    assert asked and [text for text in asked if asks_for(text) != "something"] == []


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as memory:
        for year, said in enumerate(("I live in Lyon.", "I like tea.", "我养了两只猫。"), 2020):
            memory.add(said, user_id="alice", timestamp=f"{year}-05-01", infer=False)
        yield memory


@pytest.mark.parametrize("moment", [{}, {"as_of": "2022-01-01"}])
async def test_small_talk_is_answered_by_silence(memory: Memory, moment: dict[str, Any]) -> None:
    for found in (
        memory.search("thanks!", user_id="alice", **moment),
        await memory.asearch("好的", user_id="alice", **moment),
    ):
        assert found == [] and found.abstained is not None and str(found.abstained) == "the query asks for nothing"
    assert memory.recall(user_id="alice").invoke("hello :)")["memories"] == ""


async def test_who_asks_about_themselves_gets_what_is_known_the_newest_first(memory: Memory) -> None:
    newest = ["我养了两只猫。", "I like tea.", "I live in Lyon."]
    for question in ("What do you know about me?", "我是谁？"):
        found = memory.search(question, user_id="alice", threshold=0.9)
        assert [hit.text for hit in found] == newest and found == await memory.asearch(question, user_id="alice")
        assert [hit.text for hit in memory.search(question, user_id="alice", as_of="2021-06-01")] == newest[1:]
        assert [hit.text for hit in memory.search(question, user_id="alice", k=1)] == newest[:1]
    assert memory.search("Who am I?", user_id="bob").abstained is not None


def test_who_asks_about_themselves_sees_first_what_shares_their_words_and_is_told_why() -> None:
    with Memory(":memory:") as memory:
        for year, said in enumerate(("I remember the war.", "I live in Lyon.", "I like tea."), 2020):
            memory.add(said, user_id="alice", timestamp=f"{year}-05-01", infer=False)
        found = memory.search("What do you remember about me?", user_id="alice", explain=True)
    assert [hit.text for hit in found] == ["I remember the war.", "I like tea.", "I live in Lyon."]
    told = [hit.explanation for hit in found if hit.explanation is not None]
    assert [each.ranks for each in told] == [{"words": 1}, {}, {}] and {each.strategy for each in told} == {"newest"}
    assert [sum(each.parts.values()) for each in told] == pytest.approx([hit.score for hit in found])
