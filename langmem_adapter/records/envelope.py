"""The MetaGPT fields of a LangChain message: cause, sender, receivers, a label for its speaker, a payload.

They are kept under one key of `additional_kwargs`, so they survive checkpoints and databases and are sent to no model API. The
values are lists, because LangChain concatenates the texts that the chunks of a stream carry, and appends lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_text, json_object, quoted

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

KEY: Final = "langmem_adapter"
"""The key of `additional_kwargs`."""

_LABELS: Final = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "HumanMessageChunk": "user"}
_CONTENT: Final = ("type", "content", "tool_calls", "invalid_tool_calls", "tool_call_id", "name")
_models: Final[dict[str, type[BaseModel]]] = {}

M = TypeVar("M", bound=type[BaseModel])
Message = TypeVar("Message", bound="BaseMessage")


@dataclass(frozen=True, slots=True)
class Carried:
    """What a message carries."""

    cause_by: str = ""  # what brought it about, as a name; empty where nothing is said
    sent_from: str = ""  # who sent it, as a name; empty where nothing is said
    send_to: frozenset[str] = frozenset()  # whom it is for; empty for everybody
    label: str = ""  # what the program calls its speaker; empty where it says nothing
    payload: Any = None  # what else it holds: an object of a model of `register`, or plain JSON; `None` for nothing


def stamp(
    message: Message,
    *,
    cause_by: object = None,
    sent_from: object = None,
    send_to: Iterable[object] = (),
    label: str | None = None,
    payload: object = None,
    schema: str = "",
) -> Message:
    """A copy of a message that carries what is given here, beside what it carries already.

    *cause_by* (what brought it about), *sent_from* and *send_to* are names, or classes or objects, which give the qualified
    name of their class; *label* is what the program calls its speaker. A *payload* is a pydantic object, or a mapping of JSON
    values that comes back as an object of *schema*, where that is registered (`register`).

    Example:
        >>> from langchain_core.messages import AIMessage
        >>> carried(stamp(AIMessage("Done."), cause_by="WritePRD", send_to=["Engineer"])).cause_by
        'WritePRD'
    """
    names = {"cause_by": cause_by, "sent_from": sent_from, "label": label}
    new: dict[str, list[Any]] = {
        field: [cause_name(value, field)] for field, value in names.items() if value is not None
    }
    if to := cause_names(send_to, "send_to"):
        new["send_to"] = sorted(to)
    if payload is not None:
        new["payload"] = [_plain(payload, schema)]
    kept = {**message.additional_kwargs, KEY: {**_fields(message), **new}}
    return message.model_copy(update={"additional_kwargs": kept})


def carried(message: BaseMessage) -> Carried:
    """What a message carries; a payload that is not of the registered model that it names is an `InvalidInputError`."""
    fields = _fields(message)
    payload = _values(fields, "payload")
    cause_by, sent_from = origin_of(message)
    return Carried(
        cause_by=cause_by,
        sent_from=sent_from,
        send_to=frozenset(map(str, _values(fields, "send_to"))),
        label=_text(fields, "label"),
        payload=_restored(payload[0]) if payload else None,
    )


def origin_of(message: BaseMessage) -> tuple[str, str]:
    """What brought a message about and who sent it, whatever its payload is; empty where nothing is said."""
    fields = _fields(message)
    return _text(fields, "cause_by"), _text(fields, "sent_from")


def register(model: M) -> M:
    """Let payloads of this pydantic model come back as its objects; nothing is ever imported because a database names it.

    Its qualified name must stay the same for what is stored.

    Example:
        >>> from langchain_core.messages import AIMessage
        >>> @register
        ... class Plan(BaseModel):
        ...     steps: list[str]
        >>> carried(stamp(AIMessage("Done."), payload=Plan(steps=["ask"]))).payload.steps
        ['ask']
    """
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise InvalidInputError(f"register takes a pydantic model, not {quoted(model)}")
    _models[_name(model)] = model
    return model


def cause_name(value: object, field: str = "cause_by") -> str:
    """A name as it is kept: the text, or the qualified name of the class, or of the object's class."""
    name = value if isinstance(value, str) else _name(value if isinstance(value, type) else type(value))
    if not check_text(name, field).strip():
        raise InvalidInputError(f"{field} is blank; leave it out")
    return name


def cause_names(values: Iterable[object], field: str) -> frozenset[str]:
    """Names as they are kept, each as `cause_name` has it."""
    if isinstance(values, str | type) or not isinstance(values, Iterable):
        raise InvalidInputError(f"{field} must be a list, not {quoted(values)}; write {field}=[...]")
    return frozenset(cause_name(value, field) for value in values)


def label_of(message: BaseMessage) -> str:
    """What the speaker is called: the label, the role of a `ChatMessage`, or "user", "assistant", "system", "tool"."""
    return _text(_fields(message), "label") or str(getattr(message, "role", speaker_label(message.type)))


def speaker_label(kind: str) -> str:
    """What a program calls the speaker of messages of a type: "user" for "human", and so on; any other name stays."""
    return _LABELS.get(kind, kind)


def fingerprint(message: BaseMessage) -> str:
    """Hash of what a message says and carries; its id, usage and other traces of the model do not matter."""
    content = {name: getattr(message, name, None) for name in _CONTENT}
    own = _fields(message)
    carried_fields = {name: _values(own, name) if isinstance(value, list) else value for name, value in own.items()}
    whole = json_object({"said": content, "carried": carried_fields}, "the message")
    return blake2b(json.dumps(json.loads(whole), sort_keys=True).encode(), digest_size=16).hexdigest()


def _fields(message: BaseMessage) -> dict[str, Any]:
    fields = message.additional_kwargs.get(KEY)
    return fields if isinstance(fields, dict) else {}


def _values(fields: dict[str, Any], field: str) -> list[Any]:
    """The distinct values of a field, in order."""
    values = fields.get(field)
    listed = values if isinstance(values, list) else []
    return [*{repr(value): value for value in listed}.values()]


def _text(fields: dict[str, Any], field: str) -> str:
    values = _values(fields, field)
    return str(values[0]) if values else ""


def _plain(payload: object, schema: str) -> dict[str, Any]:
    model = isinstance(payload, BaseModel)
    value = payload.model_dump(mode="json") if isinstance(payload, BaseModel) else payload
    plain = json.loads(json_object({"": value}, "payload"))[""]
    return {"schema": _name(type(payload)) if model else check_text(schema, "schema"), "value": plain}


def _restored(payload: Any) -> Any:
    if not isinstance(payload, dict) or payload.keys() != {"schema", "value"}:
        return payload  # another program wrote it
    model = _models.get(str(payload["schema"]))
    if model is None:
        return payload["value"]
    try:
        return model.model_validate(payload["value"])
    except ValidationError as error:
        raise InvalidInputError(f"the payload is no {payload['schema']} any more: {error}") from None


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
