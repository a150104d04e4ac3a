"""The module that Mem0's programs import `MemoryConfig` from."""

from langmem_adapter.adapters.mem0.configs import MemoryConfig

__all__ = ["MemoryConfig"]
