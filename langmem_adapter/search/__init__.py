"""How we find: meaning and words, fused into one ranking."""
