"""Reasoning without a model: rules for English and Chinese."""
