"""Guests: other programs' shapes of a memory, one module for each; each is a customer of `Memory`, never the other way."""
