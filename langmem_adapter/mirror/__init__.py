"""The mirror: the knowledge graph in a graph database, kept in step with the SQL database, from which it is derived."""
