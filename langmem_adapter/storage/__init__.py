"""Storage: the SQL database, the one source of truth from which every index is derived."""
