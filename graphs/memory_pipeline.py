"""The memory pipeline as a deployable graph: parse, extract, retrieve, decide, apply.

Run it with any input of `PipelineInput`, for example `{"messages": "I moved to Lyon.", "scope": {"user_id": "alice"}}`. Without
a scope the context of the run says whose memory it is; on a server with authentication nobody can name anybody else's.
Database, model and embeddings come from the settings (environment `LANGMEM_ADAPTER_*`, or the user's own
`langmem_adapter.toml`); without any, it works offline.
"""

from __future__ import annotations

from langmem_adapter.adapters.serving import shared_memory

graph = shared_memory().build_pipeline()
