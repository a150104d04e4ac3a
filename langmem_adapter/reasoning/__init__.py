"""How we think: what is worth remembering, and what becomes of what is known."""
