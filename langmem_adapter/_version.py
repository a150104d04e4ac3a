"""The version, read by hatchling and by `langmem-adapter --version`, and the name that pip knows the package by."""

from typing import Final

__version__ = "0.1.0"
DISTRIBUTION: Final = "langchain-langmem-adapter"
