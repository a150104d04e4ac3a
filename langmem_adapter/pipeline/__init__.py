"""The path of a message: parse, extract, retrieve, decide, apply; five nodes of a LangGraph graph."""
