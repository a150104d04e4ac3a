"""Migration from Mem0, LangGraph, LangMem and chat exports: each source yields dated rows, and one writer takes them."""

from __future__ import annotations
