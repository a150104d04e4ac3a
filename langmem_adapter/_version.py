"""The version, read by hatchling and by `langmem-adapter --version`."""

__version__ = "0.1.0"
