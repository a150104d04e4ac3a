"""How texts become vectors: any LangChain `Embeddings`, two that work offline (static, hash), and the cache of the run."""
