"""A lossless export: its lines, their reader, and the checked writer of an import."""
