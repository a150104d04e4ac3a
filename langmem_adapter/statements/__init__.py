"""Short statements taken apart by one table: of whom, which attribute, which value, yes or no, and the relations stated."""
