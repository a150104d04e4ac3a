"""Cursors: where a page ends in its order, as a text that callers give back."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import quoted

__all__ = ["HIGHEST", "cursor", "no_cursor", "parse_cursor"]

HIGHEST: Final = 2**63 - 1
"""The highest number that both databases compare with."""


def cursor(*place: int | str) -> str:
    """The cursor of a page that ends at a place in the order."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def parse_cursor(after: object, *kinds: type) -> list[Any]:
    """The inverse of `cursor`, for a place of such kinds; numbers are those that a database can compare with."""
    place = _read(after) if isinstance(after, str) else None
    if not isinstance(place, list) or [type(part) for part in place] != [*kinds]:
        raise no_cursor(after)
    if any(abs(part) > HIGHEST for part in place if isinstance(part, int)):
        raise no_cursor(after)
    return place


def _read(after: str) -> object:
    try:
        place: object = json.loads(base64.urlsafe_b64decode(after.encode()))
        json.dumps(place, ensure_ascii=False).encode()  # a lone surrogate fails here
    except (ValueError, RecursionError):
        return None
    return place


def no_cursor(after: object) -> InvalidInputError:
    """The error for what is no cursor of ours."""
    return InvalidInputError(f"after={quoted(after)} is no cursor of ours; give the `next` of the page before")
