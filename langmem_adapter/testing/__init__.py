"""Stand-ins for tests of programs that use this package: a chat model with a script, embeddings that count.

They are part of the package, so that a program with a memory can be tested without a key, without a network and with
every reply known beforehand. Nothing else in the package uses them.
"""

from __future__ import annotations

from langmem_adapter.testing.fakes import CountingEmbeddings, ScriptedChatModel

__all__ = ["CountingEmbeddings", "ScriptedChatModel"]
