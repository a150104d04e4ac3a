"""Conversations: what was said, what it comes to, and what is kept of it."""
