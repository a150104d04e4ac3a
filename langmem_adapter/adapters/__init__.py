"""Integrations with LangChain, LangGraph, Mem0 and MetaGPT, one module each. They call `Memory`; it imports none of them."""
