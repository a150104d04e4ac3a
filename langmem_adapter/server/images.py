"""Images that a request names by an address: whoever looks at them would send a request of the caller's choice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline.images import address, is_image

__all__ = ["refuse_addresses"]

_WITHIN = "data:"


def refuse_addresses(messages: Any) -> None:
    """Refuse messages with an image that would have to be fetched, however deep it lies in lists and objects.

    Args:
        messages: What `Memory.add` takes, as JSON.

    Raises:
        InvalidInputError: There is one.

    Example:
        >>> refuse_addresses(
        ...     [{"role": "user", "content": {"type": "image_url", "image_url": "data:image/png;base64,AA=="}}]
        ... )
        >>> refuse_addresses([{"role": "user", "content": [{"type": "image", "url": "http://10.0.0.1/"}]}])
        Traceback (most recent call last):
        langmem_adapter.errors.InvalidInputError: images are not fetched from addresses here; send them as data: URLs
    """
    for part in _objects(messages):
        named = address(part) if is_image(part) else None
        if named is not None and not named.lower().startswith(_WITHIN):
            raise InvalidInputError("images are not fetched from addresses here; send them as data: URLs")


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in a JSON value; a body with too many levels to walk is no JSON that the parser lets through."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            yield each
        waiting += each.values() if isinstance(each, Mapping) else each if isinstance(each, list | tuple) else ()
