"""Static embeddings: the vectors of WordLlama's wheel, without its code, a network or a file that is written."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter import Memory, MissingDependencyError, StaticEmbeddings
from langmem_adapter.embedding.models import embedding_limits, fingerprint, resolve_embeddings
from langmem_adapter.settings import Settings
from tests.cases import each
from tests.programs import python

if TYPE_CHECKING:
    from pathlib import Path

STATIC = StaticEmbeddings()


@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_every_text_has_a_unit_vector_that_is_always_the_same(text: str) -> None:
    vector = STATIC.vector(text)
    assert vector.dtype == np.float32 and vector.shape == (256,)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    assert np.array_equal(vector, STATIC.vector(text))


@each(
    ("question", "right", "wrong"),
    [
        ("Is my puppy ill?", "The dog is sick", "The car is new"),
        ("What does she do for a living?", "She works as a nurse", "She walked by the river"),
        ("我喜欢喝什么？", "我爱喝绿茶", "我在北京上班"),
        ("他的狗叫什么名字？", "他养了一只狗，名叫旺财", "他昨天去看了电影"),
    ],
)
def test_what_means_the_same_is_nearer_than_what_does_not(question: str, right: str, wrong: str) -> None:
    asked, near, far = (STATIC.vector(text) for text in (question, right, wrong))
    assert asked @ near > asked @ far


def test_english_has_the_very_vectors_of_wordllama() -> None:
    texts = ["Likes hiking in the Alps", "Ünïcode & 7 emoji 🙂", "x"]
    code = (
        "import json, pathlib, sys, wordllama; folder = pathlib.Path(wordllama.__file__).parent; "
        "model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True); "
        "print(json.dumps(model.embed(json.loads(sys.argv[1]), norm=True).tolist()))"
    )
    theirs = json.loads(python("-c", code, json.dumps(texts)).stdout)
    assert np.allclose(STATIC.embed_documents(texts), theirs, atol=1e-6)


def test_of_a_huge_text_the_beginning_counts() -> None:
    huge = "I walk by the sea. " * 100_000
    assert np.array_equal(STATIC.vector(huge), STATIC.vector(huge[:16_384]))


def test_a_memory_finds_what_is_said_in_other_words(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", embeddings="static") as memory:
        for text in ("The puppy had to see the vet", "The car had to see the garage", "Tea is served at five"):
            memory.add(text, user_id="ada", infer=False)
        assert memory.search("Is any of her animals ill?", user_id="ada")[0].text == "The puppy had to see the vet"
    with Memory(tmp_path / "m.db", embeddings="static") as again:
        assert len(again.search("dog", user_id="ada")) > 0


def test_it_asks_nobody_writes_nothing_and_leaves_the_log_alone() -> None:
    code = (
        "import logging, sys, safetensors.numpy, tokenizers\n"  # whose bytecode may have to be written
        "from langmem_adapter.embedding.models import StaticEmbeddings\n"
        "def refuse(event, args):\n"
        "    asked = event.startswith('socket.') or (event == 'open' and set(str(args[1])) & set('wax+'))\n"
        "    if asked: raise SystemExit(f'{event} {args}')\n"
        "before = logging.getLogger().handlers[:]\n"
        "sys.addaudithook(refuse)\n"
        "vector = StaticEmbeddings().embed_query('tea')\n"
        "print(len(vector), logging.getLogger().handlers == before, {'wordllama', 'torch'} & set(sys.modules))"
    )
    assert python("-c", code).stdout.strip() == "256 True set()"


def test_without_the_extra_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    sys.path_importer_cache.clear()
    with pytest.raises(MissingDependencyError, match=r"pip install 'langchain-langmem-adapter\[static\]'"):
        resolve_embeddings("static", Settings())


def test_the_name_gives_embeddings_that_ask_nobody_and_have_one_fingerprint() -> None:
    first, second = (resolve_embeddings("static", Settings()) for _ in range(2))
    assert isinstance(first, StaticEmbeddings)
    assert embedding_limits("static", first, Settings()) is None
    assert fingerprint(first) == fingerprint(second)
    assert fingerprint(first).startswith("static/")


def test_many_threads_and_a_forked_child_get_the_same_vectors() -> None:
    fresh, texts = StaticEmbeddings(), [f"Owns boat number {number}" for number in range(50)]
    expected = STATIC.embed_documents(texts)
    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(fresh.embed_documents, [texts] * 8))
        with get_context("fork").Pool(1) as children:
            assert children.apply_async(fresh.embed_documents, (texts,)).get(timeout=60) == expected
