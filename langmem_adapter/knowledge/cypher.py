"""Cypher: statements that build the knowledge graph in Neo4j 5, once or again, with the properties that a mirror has there.

Names come from conversations, so from anybody. A text gets into a statement in one way, `_text`, and the name of a relation in
one, `identifier`, as in a mirror.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from langmem_adapter.mirror.dialects import identifier
from langmem_adapter.records.plain import as_iso

__all__ = ["BEGIN", "edge", "node"]

Value: TypeAlias = str | int | float | bool | datetime | Sequence[str] | None

BEGIN: Final = "CREATE CONSTRAINT memory_entity_id IF NOT EXISTS FOR (n:Entity) REQUIRE n.id IS UNIQUE;\n"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def node(id_: str, values: Mapping[str, Value]) -> str:
    """A statement that makes an entity, or brings it up to date."""
    return f"MERGE (n:Entity {{id: {_text(id_)}}}) SET {_set('n', values)};\n"


def edge(pk: int, source: str, target: str, name: str, values: Mapping[str, Value]) -> str:
    """A statement that makes a relation between two entities that are there, or brings it up to date."""
    ends = f"MATCH (a:Entity {{id: {_text(source)}}}), (b:Entity {{id: {_text(target)}}})"
    return f"{ends} MERGE (a)-[r:{identifier(name)} {{pk: {pk}}}]->(b) SET {_set('r', values)};\n"


def _set(variable: str, values: Mapping[str, Value]) -> str:
    return ", ".join(f"{variable}.{name} = {_literal(value)}" for name, value in values.items())


def _literal(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, datetime):
        return f"datetime('{as_iso(value)}')"
    return f"[{', '.join(map(_text, value))}]"


def _text(text: str) -> str:
    r"""A text as a literal.

    Neo4j reads `\uXXXX` anywhere in a statement, before it looks for the ends of literals, and versions differ in whether a
    backslash before it counts. So no such sequence is ever written: a text that holds one is put together of two.

    Example:
        >>> print(_text("O'Neil"), _text(r"\u0027"))
        'O\'Neil' ('\\' + 'u0027')
    """
    literals = [f"'{part.translate(_ESCAPES)}'" for part in re.split(r"(?<=\\)(?=[uU])", text)]
    return literals[0] if len(literals) == 1 else f"({' + '.join(literals)})"
