"""LangChain's own tests of embeddings, on ours."""

from __future__ import annotations

from typing import Any

from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from langmem_adapter.embedding.models import HashEmbeddings, StaticEmbeddings


class TestHashEmbeddingsUnit(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[HashEmbeddings]:
        return HashEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"dimensions": 64}


class TestHashEmbeddingsIntegration(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[HashEmbeddings]:
        return HashEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"dimensions": 64}


class TestStaticEmbeddingsUnit(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[StaticEmbeddings]:
        return StaticEmbeddings


class TestStaticEmbeddingsIntegration(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[StaticEmbeddings]:
        return StaticEmbeddings
