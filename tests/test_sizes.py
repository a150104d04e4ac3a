"""How long texts may be: each door refuses a longer one before anything is done, and names the setting."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.testing import CountingEmbeddings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SMALL = Settings(max_text=40, max_message=60)
ANN: Any = {"user_id": "ann"}
TEXT, MESSAGE = "x" * 41, "y" * 61
OF_TEXT, OF_MESSAGE = "41 letters, and at most 40 .* max_text", "61 letters, and at most 60 .* max_message"


@pytest.fixture
def embeddings() -> CountingEmbeddings:
    return CountingEmbeddings(HashEmbeddings(512))


@pytest.fixture
def memory(embeddings: CountingEmbeddings) -> Iterator[Memory]:
    with Memory(":memory:", embeddings=embeddings, settings=SMALL) as opened:
        yield opened


DOORS: dict[str, tuple[Callable[[Memory, str], object], str]] = {
    "add": (lambda memory, _: memory.add(["Hi.", MESSAGE], **ANN), OF_MESSAGE),
    "aadd": (lambda memory, _: asyncio.run(memory.aadd(MESSAGE, **ANN)), OF_MESSAGE),
    "infer=False": (lambda memory, _: memory.add(TEXT, infer=False, **ANN), OF_TEXT),
    "a fact": (lambda memory, _: memory.add(f"I like {TEXT}.", **ANN), "max_text"),
    "the pipeline": (lambda memory, _: memory.pipeline.invoke({"messages": MESSAGE, "scope": ANN}), OF_MESSAGE),
    "update": (lambda memory, id_: memory.update(id_, TEXT), OF_TEXT),
    "aupdate": (lambda memory, id_: asyncio.run(memory.aupdate(id_, TEXT)), OF_TEXT),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_text_that_is_too_long_is_refused_with_nothing_written(memory: Memory, door: str) -> None:
    kept = memory.add("I like tea.", **ANN).results[0].id
    call, message = DOORS[door]
    with pytest.raises(InvalidInputError, match=message):
        call(memory, str(kept))
    assert [item.text for item in memory.get_all(**ANN)] == ["Likes tea"]


def test_of_many_only_the_long_ones_are_refused_and_none_of_them_is_embedded(
    memory: Memory, embeddings: CountingEmbeddings
) -> None:
    items = [{"messages": text, "infer": False, **ANN} for text in ("a", TEXT, "b" * 40)]
    kept, refused, longest = memory.add_many(items)
    assert isinstance(refused, InvalidInputError)
    ids = [str(result.results[0].id) for result in (kept, longest) if not isinstance(result, Exception)]
    one, other = memory.update_many([{"memory_id": ids[0], "text": TEXT}, {"memory_id": ids[1], "text": "c"}])
    assert isinstance(one, InvalidInputError) and not isinstance(other, Exception)
    assert {item.text for item in memory.get_all(**ANN)} == {"a", "c"}
    assert not [texts for texts in embeddings.documents if TEXT in texts]


def test_what_was_said_by_the_system_is_kept_nowhere_and_may_be_as_long_as_any_message(memory: Memory) -> None:
    said = [{"role": "system", "content": TEXT}, "short"]
    assert [change.text for change in memory.add(said, infer=False, **ANN).results] == ["short"]


def test_a_long_query_is_searched_for_by_its_beginning(memory: Memory) -> None:
    memory.add("I like tea.", **ANN)
    question = "tea " * 2_500
    short, long = (memory.search(text, **ANN)[0].score for text in (question, question + "no " * 200_000))
    assert short == long
