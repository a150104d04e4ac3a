"""`Memory`, its parts wired together once, and each group of its methods in a module of its own."""
