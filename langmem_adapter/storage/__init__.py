"""What we keep: the SQL database, the one truth from which every index is derived."""
