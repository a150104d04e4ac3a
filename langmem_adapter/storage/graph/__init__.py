"""The tables of the knowledge graph: what is written to them, read from them, erased."""
