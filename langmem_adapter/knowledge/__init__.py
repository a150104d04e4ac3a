"""The knowledge graph: what users do with it, walks through it, drawings of it. Storage writes it, beside the memories."""
