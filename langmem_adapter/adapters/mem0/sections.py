"""Sections of Mem0's configuration, each `{"provider": …, "config": {…}}`, read so that no key of them is without effect."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypeAlias

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import quoted

__all__ = ["Section", "only", "section"]

Section: TypeAlias = "tuple[str, dict[str, Any]]"
"""A provider and its options."""


def section(
    given: object, name: str, elsewhere: Mapping[str, str] | None = None, *, beside: tuple[str, ...] = ()
) -> Section:
    """Provider and options of one section of the configuration.

    Args:
        given: The section.
        name: Its key.
        elsewhere: What to do instead of certain other keys of it.
        beside: Keys that it may have beside the two; the caller reads them.

    Raises:
        InvalidInputError: It is no such section.
    """
    shape = f"config.{name} must be {{'provider': '…', 'config': {{…}}}}"
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"{shape}, not {type(given).__name__}")
    only(given, ("provider", "config", *beside), f"config.{name}", elsewhere)
    provider, options = given.get("provider"), given.get("config")
    if not isinstance(provider, str):
        raise InvalidInputError(
            f"{shape}; the provider is {'missing' if provider is None else f'a {type(provider).__name__}'}"
        )
    if not isinstance(options, Mapping | None):
        raise InvalidInputError(f"{shape}; its config is a {type(options).__name__}")
    return provider, dict(options or {})


def only(
    given: Mapping[str, Any],
    known: tuple[str, ...],
    where: str,
    elsewhere: Mapping[str, str] | None = None,
    otherwise: str | None = None,
) -> None:
    """Refuse the first key that is not known, and say what to do instead.

    Args:
        given: A part of a configuration.
        known: The keys it may have.
        where: What to call it.
        elsewhere: What to do instead of certain keys.
        otherwise: What to do instead of the rest; by default to take a known key.

    Raises:
        InvalidInputError: There is such a key.
    """
    for key in (key if isinstance(key, str) else quoted(key) for key in given if key not in known):
        near = difflib.get_close_matches(key, known, n=1)
        guess = f"did you mean {near[0]!r}?" if near else otherwise or f"known are {', '.join(known)}"
        raise InvalidInputError(f"{where} has no {key!r} here: {(elsewhere or {}).get(key, guess)}")
