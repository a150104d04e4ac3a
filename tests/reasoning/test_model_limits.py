"""What bounds a reply, what a server does not take, and what does not fit into a model's context."""

from __future__ import annotations

import json
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from langmem_adapter.errors import InvalidInputError, ModelContextError, ModelTimeoutError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.reasoning.llm import named_model, resolve_model
from langmem_adapter.settings import Settings
from langmem_adapter.testing import ScriptedChatModel
from tests.cases import each
from tests.openai_server import Failure, OpenAIServer

if TYPE_CHECKING:
    from collections.abc import Iterator

FACTS = {"facts": [{"text": "Likes tea", "turn": 0, "date": None}]}


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


def remember(
    server: OpenAIServer, text: Any = "I like tea.", *, name: str = "openai:any", times: int = 1, **options: Any
) -> Any:
    settings = Settings(base_url=server.url)
    with Memory(":memory:", model=name, embeddings="hash:64", settings=settings, **options) as memory:
        for _ in range(times):
            result = memory.add(text, user_id="u")
    return result


def bounds(body: dict[str, Any]) -> tuple[Any, Any]:
    return body.get("temperature"), body.get("max_tokens")


NAMES: list[tuple[str, dict[str, Any], tuple[Any, Any]]] = [
    ("openai:any", {}, (0.0, 4_096)),
    ("openai:any", {"model_max_tokens": 500}, (0.0, 500)),
    ("openai:any", {"model_profile": "small"}, (0.0, 256)),
    ("openai:gpt-5-mini", {}, (None, 8_192)),
]


@each(("name", "options", "expected"), NAMES)
def test_a_model_made_from_a_name_is_sent_model_max_tokens_and_temperature_0(
    name: str, options: dict[str, Any], expected: tuple[Any, Any]
) -> None:
    with OpenAIServer(lambda _: FACTS) as server:
        remember(server, "Tea is what keeps me going.", name=name, **options)
        assert bounds(server.requests[0].body) == expected


def test_a_model_of_the_caller_is_sent_nothing_of_ours() -> None:
    with OpenAIServer(lambda _: FACTS) as server:
        model = named_model("openai:any", Settings(base_url=server.url))
        with Memory(":memory:", model=model, embeddings="hash:64") as memory:
            memory.add("I like tea.", user_id="u")
        assert bounds(server.requests[0].body) == (None, None)


def test_model_max_tokens_goes_under_the_providers_own_name() -> None:
    from langmem_adapter.providers import reply_bounds

    class Other(ScriptedChatModel):
        num_predict: int | None = None
        temperature: float | None = None

    assert reply_bounds(Other(), "other:x", Settings(model_max_tokens=77)) == {"temperature": 0.0, "num_predict": 77}
    assert reply_bounds(ScriptedChatModel(), "other:x", Settings()) == {}
    with pytest.raises(InvalidInputError, match="model_max_tokens"):
        Memory(":memory:", model_max_tokens=3)


REFUSED = {"temperature": "temperature", "max_tokens": "max_tokens"}


@pytest.mark.parametrize("name", REFUSED)
def test_model_a_parameter_that_a_400_names_is_not_sent_again(name: str) -> None:
    def serve(body: dict[str, Any]) -> Any:
        return (
            Failure(400, f"Unsupported parameter: '{name}' is not supported with this model.")
            if name in body
            else FACTS
        )

    with OpenAIServer(serve) as server:
        remember(server, times=2)
        assert [name in request.body for request in server.requests] == [True, False, False]
        assert all("response_format" in request.body for request in server.requests)


def test_max_items_that_a_400_names_is_left_out_of_schemas() -> None:
    def serve(body: dict[str, Any]) -> Any:
        return Failure(400, "Invalid schema: 'maxItems' is not permitted.") if "maxItems" in json.dumps(body) else FACTS

    with OpenAIServer(serve) as server:
        remember(server, times=2)
        assert ["maxItems" in json.dumps(request.body) for request in server.requests] == [True, False, False]


def test_where_a_json_schema_is_accepted_the_form_is_not_described() -> None:
    """A server that takes the schema and does not hold the model to it is told the form, from the repair on."""
    with OpenAIServer(lambda _: FACTS) as server:
        remember(server)
        assert "Reply with one JSON object" not in json.dumps(server.requests[0].body)
    replies: Iterator[Any] = iter([{"likes": "tea"}, FACTS, FACTS])
    with OpenAIServer(lambda _: next(replies)) as server:
        remember(server, times=2)
        assert ["Reply with one JSON object" in json.dumps(request.body) for request in server.requests] == [
            False,
            True,
            True,
        ]


def test_the_timeout_error_speaks_of_replies_without_an_end() -> None:
    stop = Event()
    model = ScriptedChatModel(replies=[lambda _: str(stop.wait(20))])
    settings = Settings(model_timeout=0.05, model_retries=0)
    with (
        Memory(":memory:", model=model, embeddings="hash:64", settings=settings) as memory,
        pytest.raises(ModelTimeoutError, match="a reply without an end is cut by model_max_tokens"),
    ):
        memory.add("I like tea.", user_id="u")
    stop.set()


# ── the context ──────────────────────────────────────────────────────────────────────────────────────────────────────────

EXCESSES = [
    (400, "the request exceeds the available context size: n_prompt_tokens 5034, n_ctx 4096", 5_034, 4_096),
    (400, "request (5034 tokens) exceeds the available context size (4096 tokens), try increasing it", 5_034, 4_096),
    (
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9,000 tokens.",
        9_000,
        8_192,
    ),
    (400, "prompt is too long: 215000 tokens > 200000 maximum", 215_000, 200_000),
    (
        400,
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        1_200_000,
        1_048_576,
    ),
]


@each(("status", "message", "prompt", "context"), EXCESSES)
def test_model_a_prompt_over_the_context_is_an_error_with_both_numbers(
    status: int, message: str, prompt: int, context: int
) -> None:
    with OpenAIServer(lambda _: Failure(status, message)) as server:
        with pytest.raises(ModelContextError, match=f"{prompt:,} tokens.*{context:,}") as caught:
            remember(server)
        assert (caught.value.prompt_tokens, caught.value.context_tokens) == (prompt, context)
        assert len(server.requests) == 1


def answer_short(messages: list[Any]) -> str:
    """Repeats what is said, where it fits into 130 words with what was said before."""
    data = json.loads(next(line for line in messages[1].text.splitlines() if line.startswith("{")))
    if "conversation" not in data:
        return json.dumps(
            {"memory": [{"fact": n, "event": "ADD", "text": f["text"]} for n, f in enumerate(data["facts"])]}
        )
    said = [(turn["turn"], turn["text"]) for turn in data["conversation"] if turn["role"] == "user"]
    earlier = [turn["text"] for turn in data.get("before", ())]
    if sum(len(text.split()) for text in [*earlier, *(text for _, text in said)]) > 130:
        raise ExcessError
    return json.dumps(
        {"facts": [{"text": f"Said {text.split()[0]}", "turn": turn, "date": None} for turn, text in said]}
    )


class ExcessError(Exception):
    status_code = 400

    def __str__(self) -> str:
        return "This model's maximum context length is 512 tokens, your messages have 900 tokens"


def test_model_a_conversation_over_the_context_is_read_in_parts() -> None:
    names = ["Anna", "Ben", "Cem", "Dora", "Emil"]
    talk = [HumanMessage(f"{name} " + "walks far " * 30, name=name) for name in names]
    with Memory(":memory:", model=ScriptedChatModel(replies=[answer_short] * 20), embeddings="hash:64") as memory:
        result = memory.add(talk, user_id="u")
        assert "read in parts" in " ".join(result.notes)
        assert {(item.text, item.actor_id) for item in memory.get_all(user_id="u")} == {
            (f"Said {name}", name) for name in names
        }
        long = memory.add("Fay " + "walks far. " * 200, user_id="u")
        assert "Said Fay" in {change.text for change in long.results}


# ── images ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


@pytest.mark.parametrize("status", [400, 500])
def test_vision_with_a_model_that_takes_no_images_keeps_the_text_with_a_note(status: int) -> None:
    def serve(body: dict[str, Any]) -> Any:
        has_image = "image_url" in json.dumps(body["messages"])
        return (
            Failure(status, "image input is not supported - hint: you may need to provide the mmproj")
            if has_image
            else FACTS
        )

    with OpenAIServer(serve) as server:
        message = [{"role": "user", "content": [{"type": "text", "text": "I like tea."}, PICTURE]}]
        result = remember(server, message, times=2, vision=True)
        assert "an image in message 1 was not looked at; the chat model takes no images" in result.notes
        assert sum("image_url" in json.dumps(request.body) for request in server.requests) == 1


def test_resolve_model_of_a_caller_has_no_bounds() -> None:
    assert resolve_model(ScriptedChatModel(replies=[]), Settings()).mode == "scripted"
