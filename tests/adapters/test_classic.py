"""Memory in the chains of langchain-classic: what they are given, what is kept, and whose it is."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from langchain_classic.chains import ConversationChain, LLMChain, SequentialChain
from langchain_classic.memory import CombinedMemory
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import RunnablePassthrough

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.adapters.classic import ConversationMemory
from langmem_adapter.conversation.summaries import about_tokens
from langmem_adapter.errors import InvalidInputError, ScopeError, StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.escapes import DATA_ONLY
from langmem_adapter.testing import ScriptedChatModel
from tests.cases import undated

ALICE = "alice@example.com"
# LangChain deprecates these classes, in their constructors; they work until 2.0, and this is their guest.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:The class `{name}` was deprecated")
    for name in ("ConversationChain", "LLMChain", "ConversationBufferMemory", "InMemoryChatMessageHistory")
]


def model(*replies: Any) -> ScriptedChatModel:
    return ScriptedChatModel(replies=replies or ["Noted."] * 9)


def told(scripted: ScriptedChatModel) -> str:
    """The prompt of the last call."""
    return undated("\n".join(message.text for message in scripted.calls[-1]))


def conversation(memory: Memory, scripted: ScriptedChatModel, **how: Any) -> ConversationChain:
    return ConversationChain(llm=scripted, memory=ConversationMemory(memory=memory, **how))


def as_user(user: str, **more: str) -> Any:
    return {"configurable": {"user_id": user, **more}}


def facts(memory: Memory, user: str) -> list[str]:
    return sorted(item.text for item in memory.get_all(user_id=user))


# ── ConversationChain ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_save_context_and_load_memory_variables_work_in_a_conversation_chain(memory: Memory) -> None:
    scripted = model("Nice to meet you.", "Lentils.")
    chain = conversation(memory, scripted, user_id=ALICE)
    chain.predict(input="I am vegetarian.")
    assert chain.predict(input="What shall I cook?") == "Lentils."
    assert "- Is vegetarian\n\nHuman: I am vegetarian.\nAI: Nice to meet you.\nHuman: What shall I cook?" in told(
        scripted
    )
    assert facts(memory, ALICE) == ["Is vegetarian"]


@pytest.mark.parametrize("last", [20, 0])
def test_an_exchange_is_understood_with_those_before_it(last: int) -> None:
    thinks = model(*['{"facts": []}'] * 2)
    with Memory(":memory:", model=thinks) as memory:
        chain = conversation(memory, model(), user_id=ALICE, last=last)
        for said in ("I have a sister.", "Her name is J."):
            chain.predict(input=said)
    sent = thinks.calls[1][-1].text
    assert ('"before"' in sent, "I have a sister." in sent) == (bool(last), bool(last))


def test_what_memory_gave_is_not_remembered_as_said(memory: Memory) -> None:
    memory.add("I play chess.", user_id=ALICE)
    chain = conversation(memory, model(), user_id=ALICE)
    for _ in range(3):
        assert chain.invoke("What game do I play?")["response"] == "Noted."
    assert facts(memory, ALICE) == ["Plays chess"]


def test_clear_removes_the_conversation_and_no_fact(memory: Memory) -> None:
    chain = conversation(memory, model(), user_id=ALICE)
    other = conversation(memory, model(), user_id=ALICE, session_id="other")
    for each in (chain, other):
        each.predict(input="I am vegetarian.")
    chain.memory.clear()
    assert "Human" not in chain.memory.load_memory_variables({"input": "cook?"})["history"]
    assert "Human" in other.memory.load_memory_variables({"input": "cook?"})["history"]
    assert facts(memory, ALICE) == ["Is vegetarian"]


# ── whose memory ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_may_come_from_the_sequence_that_the_chain_is_part_of(memory: Memory) -> None:
    sequence = RunnablePassthrough() | conversation(memory, model(), user_id="guest")
    sequence.invoke({"input": "I am vegetarian."}, as_user(ALICE))
    assert (facts(memory, ALICE), facts(memory, "guest")) == (["Is vegetarian"], [])


async def test_a_combined_memory_works_in_a_thread_and_knows_the_sequence(memory: Memory) -> None:
    own = ConversationMemory(memory=memory, input_key="input")
    chain = ConversationChain(llm=model(), memory=CombinedMemory(memories=[own]))
    await (RunnablePassthrough() | chain).ainvoke({"input": "I am vegetarian."}, as_user(ALICE))
    assert facts(memory, ALICE) == ["Is vegetarian"]
    with pytest.raises(ScopeError):
        await chain.ainvoke({"input": "I am vegetarian."}, as_user(ALICE))


def test_the_nearest_config_counts(memory: Memory) -> None:
    inner = LLMChain(llm=model(), prompt=PromptTemplate.from_template("{history}{input}"), memory=remembering(memory))
    outer = SequentialChain(chains=[inner], input_variables=["input"])
    around: Any = RunnablePassthrough() | (lambda given: outer.invoke(given, as_user(ALICE)))
    around.invoke({"input": "I am vegetarian."}, as_user("bob"))
    assert (facts(memory, ALICE), facts(memory, "bob")) == (["Is vegetarian"], [])


def remembering(memory: Memory, **how: Any) -> ConversationMemory:
    return ConversationMemory(memory=memory, **how)


def test_session_id_of_a_call_names_its_conversation(memory: Memory) -> None:
    scripted = model()
    chain = conversation(memory, scripted, k=0)
    chain.invoke("One.", as_user(ALICE, session_id="monday"))
    chain.invoke("Two.", as_user(ALICE, session_id="tuesday"))
    assert "One." not in told(scripted)
    chain.invoke("Three.", as_user(ALICE, session_id="monday"))
    assert "One." in told(scripted)


# ── the guests' own compositions ──────────────────────────────────────────────────────────────────────────────────────


def test_facts_key_is_a_variable_for_the_facts_alone(memory: Memory) -> None:
    scripted = model("Lentils.")
    prompt = PromptTemplate.from_template("Known:\n{facts}\n{history}\nQ: {question}")
    memory.add("I am vegetarian.", user_id=ALICE)
    chain = LLMChain(llm=scripted, prompt=prompt, memory=remembering(memory, user_id=ALICE, facts_key="facts"))
    assert chain.invoke({"question": "What shall I cook?"})["text"] == "Lentils."
    assert told(scripted) == f"Known:\n{DATA_ONLY}\n- Is vegetarian\n\nQ: What shall I cook?"


def test_facts_alone_and_turns_alone(memory: Memory) -> None:
    memory.add("I am vegetarian.", user_id=ALICE)
    only_facts = remembering(memory, user_id=ALICE, facts_key="facts", last=0)
    only_turns = remembering(memory, user_id=ALICE, k=0)
    for each in (only_facts, only_turns):
        each.save_context({"input": "I like tea."}, {"output": "Ah."})
    assert only_facts.memory_variables == ["facts"]
    assert only_turns.load_memory_variables({"input": "?"}) == {"history": "Human: I like tea.\nAI: Ah."}
    listed = undated(only_facts.load_memory_variables({"input": "What do you know about me?"})["facts"])
    assert set(listed.splitlines()) == {
        DATA_ONLY,
        "- Is vegetarian",
        "- Likes tea",
    }


# ── what comes in ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_human_prefix_and_ai_prefix_name_the_speakers(memory: Memory) -> None:
    chat = ConversationMemory(memory=memory, user_id="alice", k=0, human_prefix="Ann", ai_prefix="Bot")
    chat.save_context({"input": "Hi"}, {"output": "Hello"})
    assert chat.load_memory_variables({"input": "?"})["history"] == "Ann: Hi\nBot: Hello"


@pytest.mark.parametrize(
    ("inputs", "outputs", "reason"),
    [
        ({"a": "x", "b": "y"}, {"output": "z"}, r"which of the inputs \['a', 'b'\] is the question\? set input_key"),
        ({"input": "x"}, {"a": "y", "b": "z"}, "no 'output' among.*set output_key"),
        ({"input": {"deep": 1}}, {"output": "z"}, "'input' is a dict; only text and messages"),
        ({"input": ["x", 1]}, {"output": "z"}, "'input' is a list; only text and messages"),
    ],
)
def test_input_key_and_output_key_are_named_where_inputs_or_outputs_are_several(
    memory: Memory, inputs: Any, outputs: Any, reason: str
) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        remembering(memory, user_id=ALICE).save_context(inputs, outputs)


@pytest.mark.parametrize(
    "wrong", [{"k": -1}, {"last": 10_001}, {"max_tokens": 199}, {"on_error": "ignore"}, {"userid": "x"}]
)
def test_a_wrong_argument_is_refused(memory: Memory, wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        remembering(memory, **wrong)


# ── when memory fails ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_failure_is_raised_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    memory = Memory(":memory:")
    strict, lenient = (conversation(memory, model(), user_id=ALICE, on_error=policy) for policy in ("raise", "log"))
    memory.close()
    with pytest.raises(StorageError, match="closed"):
        strict.invoke("Hello!")
    assert lenient.invoke("Hello!")["response"] == "Noted."
    doings = ["recall facts", "recall the conversation", "remember facts", "keep the conversation"]
    assert [record.args for record in caplog.records] == [(doing,) for doing in doings]


# ── one budget ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("budget", "messages"), [(200, True), (400, False)])
async def test_facts_summary_and_messages_fit_into_one_budget_at_every_turn(
    memory: Memory, *, budget: int, messages: bool
) -> None:
    remembering_all = remembering(memory, user_id=ALICE, max_tokens=budget, return_messages=messages)
    await remembering_all.asave_context({"input": "I am vegetarian."}, {"output": "Noted."})
    for number in range(20):
        said = f"第{number}天，我在杭州走了{number}条街，天气很好，路上吃了两碗面，又喝了一壶茶。"
        shown = (await remembering_all.aload_memory_variables({"input": "What shall a vegetarian eat?"}))["history"]
        given = shown if messages else [HumanMessage(shown)]
        assert about_tokens(given) <= budget
        assert "- Is vegetarian" in given[0].text
        await remembering_all.asave_context({"input": said}, {"output": f"Street {number}."})
    assert "Summary of the conversation so far:" in given[0].text
    assert "Street 18." in given[-1].text
    assert [isinstance(message, SystemMessage) for message in given] == [messages, *([False] * (len(given) - 1))]
    kept = SQLChatMessageHistory("default", memory, user_id=ALICE).messages
    assert len(kept) == 42


def test_last_bounds_the_messages_beside_the_summary(memory: Memory) -> None:
    chat = remembering(memory, user_id=ALICE, max_tokens=200, k=0, last=1, return_messages=True)
    for number in range(30):
        chat.save_context({"input": f"Lily has {number} apples."}, {"output": f"Noted {number}."})
    summary, latest = chat.load_memory_variables({})["history"]
    assert (type(summary), latest.text) == (SystemMessage, "Noted 29.")


@pytest.mark.parametrize("on_error", ["raise", "log"])
def test_a_summary_that_cannot_be_had_costs_no_fact_and_no_message(on_error: str) -> None:
    replies = ['{"facts": [{"text": "Has apples", "turn": 0}]}', OSError("no such host")]
    with Memory(":memory:", model=ScriptedChatModel(replies=replies), embeddings="hash:64") as memory:
        remembering(memory, user_id=ALICE).save_context({"input": "I have apples. " * 100}, {"output": "Noted."})
        chat = remembering(memory, user_id=ALICE, max_tokens=200, on_error=on_error)
        if on_error == "raise":
            with pytest.raises(OSError, match="no such host"):
                chat.load_memory_variables({"input": "What have I?"})
        else:
            assert "- Has apples" in chat.load_memory_variables({"input": "What have I?"})["history"]
        assert len(SQLChatMessageHistory("default", memory, user_id=ALICE).messages) == 2


def test_without_langchain_classic_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['langchain_classic'] = None\n"
        "from langmem_adapter.errors import MissingDependencyError\n"
        "try:\n    import langmem_adapter.adapters.classic\n"
        "except MissingDependencyError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert (
        done.stdout.strip()
        == "langchain-classic is not installed; run: pip install 'langchain-langmem-adapter[classic]'"
    )
