"""How Mem0's configuration keys map to the arguments of LangChain's classes, as `tables.toml` has them."""

from __future__ import annotations

import importlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from operator import attrgetter
from typing import Any

from langmem_adapter.adapters.calls import only
from langmem_adapter.errors import InvalidInputError, MissingDependencyError
from langmem_adapter.records.checks import quoted

__all__ = ["Provider", "chosen", "imported", "providers"]


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider of a section of Mem0's configuration; `tables.toml` says what its fields mean."""

    target: str = ""
    keys: str = ""
    package: str = ""
    values: Mapping[str, list[Any]] = field(default_factory=dict)
    idle: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    otherwise: str | None = None
    collection: str = ""
    embedding: str = "embedding"
    templates: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """The argument for each key."""
        pairs = (word.partition(">") for word in self.keys.split())
        return {key: argument or key for key, _, argument in pairs}

    def arguments(self, options: Mapping[str, Any], where: str, *, complete: bool = True) -> dict[str, Any]:
        """The arguments of the target for the `config` of a section; an option of `None` or `""` counts as left out.

        Raises:
            InvalidInputError: A key cannot be honoured, or, if they must be *complete*, is missing; *where* is the section.
        """
        names = self.names
        given = {key: value for key, value in _flat(options, names).items() if value not in (None, "", {})}
        only(given, tuple(dict.fromkeys((*names, *self.values, *self.idle))), where, self.reasons, self.otherwise)
        arguments: dict[str, Any] = {}
        for key, value in given.items():
            if key in self.values and value not in self.values[key]:
                reason = self.reasons.get(key, f"possible are {', '.join(map(repr, self.values[key]))}")
                raise InvalidInputError(f"{where}.{key}={quoted(value)} cannot be honoured: {reason}")
            if key in names:
                _put(arguments, names[key], value, f"{where}.{key}")
        for key in self.needed:
            if complete and key not in given:
                raise InvalidInputError(f"{where}.{key} is missing")
        variables = {name: os.environ[variable] for name, variable in self.env.items() if os.environ.get(variable)}
        return {**self.defaults, **variables, **arguments}


@cache
def providers(section: str) -> Mapping[str, Provider]:
    """The table of a section: `"llm"`, `"embedder"`, `"reranker"` or `"vector_store"`."""
    table = tomllib.loads(files(__package__).joinpath("tables.toml").read_text(encoding="utf-8"))[section]
    first = table.pop("*")
    return {name: Provider(**_joined(first, _row(table, row))) for name, row in table.items()}


def chosen(provider: str, section: str) -> Provider:
    """The row for a provider.

    Raises:
        InvalidInputError: There is none; the message says what to do.
    """
    table = providers(section)
    if provider not in table:
        key = "client" if section == "vector_store" else "model"
        raise InvalidInputError(
            f"config.{section}.provider {quoted(provider)} is not here: make the LangChain object and give that as "
            f"{{'provider': 'langchain', 'config': {{'{key}': …}}}}, or use one of {', '.join(sorted(table))}"
        )
    return table[provider]


def imported(target: str, package: str) -> Any:
    """The class that `module:Class` names.

    Raises:
        MissingDependencyError: A package is not installed.
    """
    module, _, path = target.partition(":")
    try:
        return attrgetter(path)(importlib.import_module(module))
    except ImportError as error:
        raise MissingDependencyError(package) from error


def _row(table: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    own = {key: value for key, value in row.items() if key != "like"}
    return _joined(table[row["like"]], own) if "like" in row else own


def _joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two rows in one: keys stand one after the other, tables are merged, else the second goes before the first."""
    joined = {**first, **second}
    for key in first.keys() & second.keys():
        if isinstance(first[key], Mapping):
            joined[key] = {**first[key], **second[key]}
        elif key == "keys":
            joined[key] = f"{first[key]} {second[key]}"
    return joined


def _flat(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Options with the keys of mappings within them written as paths, where the table has such paths."""
    nested = {name.partition(".")[0] for name in names if "." in name}
    flat: dict[str, Any] = {}
    for key, value in options.items():
        within = key in nested and isinstance(value, Mapping)
        flat |= {f"{key}.{inner}": each for inner, each in value.items()} if within else {key: value}
    return flat


def _put(arguments: dict[str, Any], path: str, value: Any, where: str) -> None:
    outer, _, inner = path.partition(".")
    if inner:
        arguments, outer = arguments.setdefault(outer, {}), inner
    if arguments.setdefault(outer, value) != value:
        raise InvalidInputError(f"{where} says {outer} twice, and differently; give one of them")
