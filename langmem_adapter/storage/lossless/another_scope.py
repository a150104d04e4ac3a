"""Another name for the scope of an import: its lines with the new name, and with ids that are their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.names import owner_id, owner_key
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.conversations import Conversation
from langmem_adapter.storage.lossless.writer import scope_of
from langmem_adapter.storage.scopes import id_within, key_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Names"]

_IDS: Final = {"winner", "loser", "relation_id", "source", "target", "history_id", "memory_id", "past_of", "links"}


class Names:
    """Gives lines of one scope another name; the ids are the same ones however often a file is imported."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields
        self._scope = Scope(**fields) if fields else None
        self._before: dict[str, Any] = {}
        self._conversations: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._fields)

    def apply(self, line: Mapping[str, Any]) -> dict[str, Any] | None:
        """A line under the other name; `None` for sources, whose digests are those of their thread."""
        kind, new, (group, slash, place) = line["kind"], dict(line), line["id"].partition("/")
        if kind == "item":
            raise InvalidInputError("items of the store belong to no scope")
        if kind == "source":
            return None
        if kind in {"message", "note"}:
            new["conversation"] = group = self._conversations.get(group, group)
        else:
            group = self._moved(new, group)
            self._rename_owners(line, new)
        for name in _IDS & new.keys() if kind != "note" else ():
            new[name] = self.new_id(new[name])
        for each in new["memories"] if kind == "relation" else ():
            each["memory_id"] = self.new_id(each.get("memory_id"))
        return {**new, "id": f"{group}{slash}{place}"}

    def _moved(self, new: dict[str, Any], group: str) -> str:
        """Name the other scope, and give what the id begins with then."""
        for name, value in self._fields.items():
            if new[name] is None or self._before.setdefault(name, new[name]) != new[name]:
                one = quoted(self._before.get(name))
                raise InvalidInputError(f"its {name} is not {one}; only one scope can get another name")
            new[name] = value
        if new["kind"] == "conversation":
            self._conversations[group] = Conversation(new["session"], scope_of(new)).key
            return self._conversations[group]
        return key_of(scope_of(new) or Scope()) if new["kind"] == "scope" else str(self.new_id(group))

    def new_id(self, value: Any) -> Any:
        """What stands for an id, or each of a list; the same where there is no other name."""
        if isinstance(value, list):
            return [self.new_id(part) for part in value]
        return id_within(self._scope, f"import {value}") if self._scope and value and isinstance(value, str) else value

    def _rename_owners(self, line: Mapping[str, Any], new: dict[str, Any]) -> None:
        """The scope's own user and agent are known by their ids."""
        ids = [[owner_id(who, scope_of(each) or Scope()) for who in (SELF, ASSISTANT)] for each in (line, new)]
        names = dict(zip(*ids, strict=True))
        keys = {
            owner_key(who, one): owner_key(who, names[one]) for who, one in zip((SELF, ASSISTANT), ids[0], strict=True)
        }
        if line.get("owner") is not None:
            new["name"] = names.get(line["name"], line["name"])
        for each in new.get("names", ()):
            if str(each.get("key")) in keys:
                each.update(key=keys[each["key"]], name=names.get(str(each.get("name")), each.get("name")))
        if isinstance(new.get("keys"), list):
            new["keys"] = [keys.get(key, key) if isinstance(key, str) else key for key in new["keys"]]
