"""Replies that are one list under one key, with further lists beside it or without, in whatever disguise a model sends them.

Weak models send the list under another key, wrapped, bare, as a string, or entry by entry; all of that says the same
and is read. What would have to be guessed is refused with words that the model can act on.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from langmem_adapter.reasoning.salvage import UnusableReplyError, json_values, listed_problems

if TYPE_CHECKING:
    from langmem_adapter.reasoning.salvage import Found

__all__ = ["ReplyModel", "inner_or_self", "inner_value", "members_of"]

_MOST_WRAPPERS: Final = 4
_BARE: Final = "\x00bare"  # marks a reply that came without its key
_WRAPPERS: Final = frozenset(
    "arguments args parameters properties input output response result data json function content text".split()
)


class ReplyModel(BaseModel):
    """A reply that is one list under one key.

    Attributes:
        name: What the tool or schema is called when the model is asked.
        root: The key.
        aliases: Other keys under which models send the same list.
        further: Keys of the lists that may stand beside it, each with its other names.
        wire: The JSON schema that models are asked for: every field required, as strict modes want it.
    """

    model_config = ConfigDict(frozen=True)

    name: ClassVar[str]
    root: ClassVar[str]
    aliases: ClassVar[frozenset[str]]
    further: ClassVar[Mapping[str, frozenset[str]]] = MappingProxyType({})
    wire: ClassVar[dict[str, Any]]

    @classmethod
    def is_entry(cls, value: Any) -> bool:
        """Whether this is one entry of the list, without any list around it."""
        raise NotImplementedError

    @classmethod
    def of(cls, found: Found, *, joined: bool = False) -> Self:
        """Read the reply out of JSON values.

        Args:
            found: The values, in the order sent.
            joined: All of them belong to the reply (parallel tool calls), instead of one being the reply.

        Raises:
            UnusableReplyError: None of them is such a reply, several are, or its content is not acceptable.
        """
        told = [shape for value in found.values if (shape := cls._shape(value)) is not None]
        shapes = [shape for shape in told if cls.root in shape]
        beside = [shape for shape in told if cls.root not in shape]
        if joined and 0 < len(shapes) < len(found.values) - len(beside):
            raise UnusableReplyError(f'one of the calls has no "{cls.root}"; make one call with everything in it')
        several = joined and len(shapes) > 1
        picked = cls._joined(shapes) if several else cls._pick(shapes, found.damage)
        try:
            return cls.model_validate(cls._joined([picked, *beside]) if beside else picked)
        except ValidationError as error:
            raise UnusableReplyError(_explain(error)) from None

    @classmethod
    def _pick(cls, shapes: list[dict[str, Any]], damage: str) -> dict[str, Any]:
        named = [shape for shape in shapes if _BARE not in shape]
        bare = [] if named or damage else [shape for shape in shapes if _BARE in shape]
        if len(bare) > 1 and all(shape[_BARE] == "entry" for shape in bare):
            bare = [cls._joined(bare)]  # one entry per line
        candidates = named or bare
        if not candidates:
            why = f" ({damage})" if damage else ""
            raise UnusableReplyError(f'there is no readable JSON object with the key "{cls.root}" in the reply{why}')
        if any(other != candidates[0] for other in candidates[1:]):
            raise UnusableReplyError(
                f'there are several different JSON objects with "{cls.root}"; send only the final one'
            )
        return candidates[0]

    @classmethod
    def _shape(cls, value: Any, depth: int = 0) -> dict[str, Any] | None:
        """The value as `{root: …}`, if it is a reply in any of its disguises; `_BARE` marks one without a key.

        An object that holds further lists alone is those, without the root.
        """
        if depth > _MOST_WRAPPERS:
            return None
        if isinstance(value, str):
            inner = inner_value(value)
            return None if inner is None else cls._shape(inner, depth + 1)
        if isinstance(value, list):
            return cls._shape_of_list(value, depth)
        return cls._shape_of_object(value, depth) if isinstance(value, dict) else None

    @classmethod
    def _shape_of_list(cls, value: list[Any], depth: int) -> dict[str, Any] | None:
        if all(cls.is_entry(item) for item in value):
            return {cls.root: value, _BARE: "list"}
        shapes = [shape for item in value if (shape := cls._shape(item, depth + 1)) is not None and _BARE not in shape]
        named = any(cls.root in shape for shape in shapes)
        return cls._joined(shapes) if named and len(shapes) == len(value) else None

    @classmethod
    def _shape_of_object(cls, value: dict[str, Any], depth: int) -> dict[str, Any] | None:
        if cls.is_entry(value):
            return {cls.root: [value], _BARE: "entry"}
        members = members_of(value)
        lists = cls._further(members)
        if cls.root in members:
            return {**members, **lists}
        for names in (cls.aliases, _WRAPPERS | {cls.name}):
            present = [member for name, member in members.items() if name in names]
            if len(present) == 1 and names is cls.aliases and isinstance(present[0], list):
                return {cls.root: present[0], **lists}
            shapes = [shape for member in present if cls.root in (shape := cls._shape(member, depth + 1) or {})]
            if len(shapes) == 1:
                inner = {key: member for key, member in shapes[0].items() if key != _BARE}
                return cls._joined([inner, lists]) if lists else inner
        return lists or None

    @classmethod
    def _further(cls, members: dict[str, Any]) -> dict[str, Any]:
        """The further lists among the members of an object, by their proper keys; what stands under two keys is joined."""
        found: dict[str, Any] = {}
        for key, names in cls.further.items():
            present = [
                member for name, member in members.items() if name == key or (name in names and _is_list(member))
            ]
            if present:
                found[key] = present[0] if len(present) == 1 else [item for part in present for item in _listed(part)]
        return found

    @classmethod
    def _joined(cls, shapes: list[dict[str, Any]]) -> dict[str, Any]:
        joined: dict[str, Any] = {
            cls.root: [item for shape in shapes for item in _listed(inner_or_self(shape.get(cls.root)))]
        }
        for key in cls.further:
            if any(key in shape for shape in shapes):
                joined[key] = [item for shape in shapes for item in _listed(shape.get(key))]
        return joined


def members_of(value: dict[str, Any]) -> dict[str, Any]:
    """The members of an object by their names in lower case."""
    members = {str(key).strip().casefold(): member for key, member in value.items()}
    if len(members) < len(value):
        raise UnusableReplyError(f"some keys differ only in their case: {', '.join(map(str, value))[:200]}")
    return members


def inner_value(text: str) -> Any:
    """The one JSON value that a string consists of, or `None`."""
    if not text.lstrip().startswith(("[", "{", '"[', '"{')):
        return None
    values = json_values(text).values
    return values[0] if len(values) == 1 and isinstance(values[0], list | dict) else None


def inner_or_self(value: Any) -> Any:
    """The JSON value that a string consists of, or what was given."""
    inner = inner_value(value) if isinstance(value, str) else None
    return value if inner is None else inner


def _listed(part: Any) -> list[Any]:
    return part if isinstance(part, list) else [] if part is None else [part]


def _is_list(value: Any) -> bool:
    return isinstance(value, list | dict) or (isinstance(value, str) and value.lstrip().startswith(("[", "{")))


def _explain(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return listed_problems(
        [f"{_path(problem['loc'])}: {problem['msg'].removeprefix('Value error, ')}" for problem in problems]
    )


def _path(place: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
