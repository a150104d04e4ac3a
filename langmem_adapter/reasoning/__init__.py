"""Reasoners: they extract facts from messages and decide what becomes of memories."""
