"""GraphML: the knowledge graph as XML, for Gephi, yEd, networkx and others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["END", "begin", "edge", "node"]

GraphmlValue: TypeAlias = str | int | float | bool | None
_Part: TypeAlias = Literal["node", "edge"]

_KEYS: Final[Mapping[_Part, Mapping[str, str]]] = {
    "node": {
        **dict.fromkeys(("name", "type", "aliases", "user_id", "agent_id", "run_id"), "string"),
        "mentions": "long",
        **dict.fromkeys(("created_at", "updated_at"), "string"),
    },
    "edge": {
        **dict.fromkeys(("id", "relation", "valid_from", "valid_to"), "string"),
        "holds": "boolean",
        "mentions": "long",
        "confidence": "double",
        **dict.fromkeys(("recorded_at", "retired_at", "memory_ids", "user_id", "agent_id", "run_id"), "string"),
    },
}
_IMPOSSIBLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
END: Final = "  </graph>\n</graphml>\n"
"""The lines after the last node and edge."""


def begin(comment: str | None = None) -> Iterator[str]:
    """The lines before the first node and edge, with a comment at the top."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    if comment is not None:
        yield f"<!-- {comment} -->\n"
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    for part, names in _KEYS.items():
        for name, kind in names.items():
            yield f'  <key id="{part}_{name}" for="{part}" attr.name="{name}" attr.type="{kind}"/>\n'
    yield '  <graph id="memory" edgedefault="directed">\n'


def node(id_: str, values: Mapping[str, GraphmlValue]) -> str:
    """A node, with those of its values that are there."""
    return f"    <node id={quoteattr(id_)}>{_data('node', values)}</node>\n"


def edge(id_: str, source: str, target: str, values: Mapping[str, GraphmlValue]) -> str:
    """An edge from one node to another."""
    ends = f"id={quoteattr(id_)} source={quoteattr(source)} target={quoteattr(target)}"
    return f"    <edge {ends}>{_data('edge', values)}</edge>\n"


def _data(part: _Part, values: Mapping[str, GraphmlValue]) -> str:
    told = ((name, values[name]) for name in _KEYS[part] if values.get(name) not in {None, ""})
    return "".join(f'<data key="{part}_{name}">{_text(value)}</data>' for name, value in told)


def _text(value: GraphmlValue) -> str:
    """A value as XML text; a control character that XML cannot hold becomes U+FFFD."""
    plain = str(value).lower() if isinstance(value, bool) else str(value)
    return escape(_IMPOSSIBLE.sub("\ufffd", plain), {"\r": "&#13;"})
