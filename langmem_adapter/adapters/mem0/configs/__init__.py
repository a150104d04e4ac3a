"""Mem0's configuration classes: `MemoryConfig`, the classes of its sections, and those of a section's options.

All but `MemoryConfig` are dicts with the keys that the dicts of a configuration have.

Example:
    >>> LlmConfig(config=OpenAIConfig(model="gpt-5-mini"))
    {'provider': 'openai', 'config': {'model': 'gpt-5-mini'}}
"""

from functools import partial
from typing import Any

from langmem_adapter.adapters.mem0.configs.base import MemoryConfig

__all__ = ["EmbedderConfig", "LlmConfig", "MemoryConfig", "RerankerConfig", "VectorStoreConfig"]


def _section(provider: str, config: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    return {"provider": provider, "config": config or {}, **others}


LlmConfig = EmbedderConfig = partial(_section, provider="openai")
VectorStoreConfig = partial(_section, provider="qdrant")
GraphStoreConfig = partial(_section, provider="neo4j")
RerankerConfig = partial(_section, provider="cohere")
BaseLlmConfig = OpenAIConfig = AzureOpenAIConfig = OllamaConfig = BaseEmbedderConfig = AzureConfig = dict
