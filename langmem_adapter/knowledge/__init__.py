"""The knowledge graph: reads, walks, drawings, import and export."""
