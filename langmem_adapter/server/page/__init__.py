"""The page: look at memories, where they came from, what became of them, and mend them by hand."""
