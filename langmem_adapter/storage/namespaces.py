"""Namespaces as text: tuples of labels that sort, and begin with each other, as their texts do.

A label may hold any character but NUL, so no character is free to stand between two labels. U+0001 ends a label, and where
it is part of one it is written as U+0002 U+0001 (and U+0002 twice). That keeps the order of code points, hence everything
under a prefix is one range of an index, whatever stands in the labels: no LIKE, no pattern, no other case.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import blake2b
from typing import Final, TypeAlias

from langmem_adapter.caches import remembered
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_text

__all__ = ["Namespace", "decode", "encode", "end_of", "item_id"]

Namespace: TypeAlias = tuple[str, ...]

_END: Final = "\x01"
_ESCAPE: Final = "\x02"
_LONGEST: Final = 2_000  # bytes; a row in an index of Postgres may have some more
_KEPT: Final = 65_536


@remembered(_KEPT)
def encode(namespace: Namespace) -> str:
    """The text of a namespace.

    Raises:
        InvalidInputError: A label is no text that databases can keep, or all of them are too long.
    """
    labels = (check_text(label, "a namespace label") for label in namespace)
    text = "".join(label.replace(_ESCAPE, _ESCAPE * 2).replace(_END, _ESCAPE + _END) + _END for label in labels)
    if (size := len(text.encode())) > _LONGEST:
        raise InvalidInputError(f"this namespace has {size:,} bytes; {_LONGEST:,} are allowed, use a hash of it")
    return text


def item_id(namespace: Namespace, key: str) -> str:
    """The name of an item in the whole store, 20 letters long: a hash of its namespace and its key."""
    digest = blake2b(f"{encode(namespace)}\x00{key}".encode(), digest_size=15).digest()
    return urlsafe_b64encode(digest).decode()


@remembered(_KEPT)
def decode(text: str) -> Namespace:
    """The namespace of a text, the inverse of `encode`."""
    labels, label, signs = [], "", iter(text)
    for sign in signs:
        if sign == _END:
            labels.append(label)
            label = ""
        else:
            label += next(signs) if sign == _ESCAPE else sign
    return tuple(labels)


def end_of(prefix: str) -> str:
    """The first text after everything that begins with the text of a namespace, which must have labels."""
    return prefix.removesuffix(_END) + _ESCAPE
