"""The engine behind `Memory`: the parts wired together, and each group of its methods in a module of its own."""
