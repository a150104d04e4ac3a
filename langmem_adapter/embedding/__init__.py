"""How texts become vectors: offline hash embeddings, any LangChain `Embeddings`, and the cache of the run."""
