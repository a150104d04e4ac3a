"""What a first add and a first search make ready, done once in the server that forks the programs of the tests.

A child would otherwise spend half a second of its own on what is imported, compiled and read late.
"""

from __future__ import annotations

import gc
import threading

from langsmith.utils import get_env_var

from langmem_adapter.memory.memory import Memory

with Memory(
    ":memory:", index="exact", graph=True
) as memory:  # FAISS would leave threads behind, which no fork takes along
    memory.add("I like tea. 我喜欢茶。", user_id="ann")
    memory.search("tea", user_id="ann")
assert threading.active_count() == 1, threading.enumerate()
get_env_var.cache_clear()  # type: ignore[attr-defined]  # a child has variables of its own
gc.freeze()  # or each child looks through all of it as it ends
