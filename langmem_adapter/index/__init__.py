"""Where we look things up: vector indexes, always derivable from the database."""
