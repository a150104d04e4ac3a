"""Addresses of servers and databases, and what of them may be shown: never a password, a token or a key.

Whatever shows an address (a `repr`, an error, a log line, the command line) shows it through here. A password that was not
percent-encoded ends nobody knows where, so in doubt more is hidden than need be.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_plus, urlsplit

from langmem_adapter.errors import InvalidInputError

__all__ = ["ENCODED", "check_server", "cleaned", "shown"]

ENCODED: Final = "and in names and passwords @ : / ? # [ ] % as %40 %3A %2F %3F %23 %5B %5D %25"
"""The fix for an address that cannot be read."""

_HIDDEN: Final = "***"
_WEB: Final = ("http", "https")
_SECRETS: Final = tuple(
    "pass password passwd passphrase pwd pw key token secret credential credentials auth authorization sig signature".split()
)
_SCHEME: Final = re.compile(r"[A-Za-z][\w+.-]*")
_USER: Final = re.compile(r"[^:/?#@]*")
_PARAMETER: Final = re.compile(r"[?&;#]([^?&;#=]*)=")
_ADDRESS: Final = re.compile(rf"{_SCHEME.pattern}://.*", re.DOTALL)


def shown(address: str) -> str:
    """An address without its secrets; a text without `://`, such as a path, is left alone.

    Hidden are the password before the host (at `http` the user name, too, since that is where tokens stand), and the query
    from the first parameter on whose name ends like that of a secret (`password`, `sslpassword`, `api_key`, `token`, …).

    Args:
        address: Any text; it need not be a right address.

    Example:
        >>> shown("postgresql://ada:s3cret@db.example/app?application_name=bot&sslpassword=x")
        'postgresql://ada:***@db.example/app?application_name=bot&sslpassword=***'
        >>> shown("https://token@models.example/v1")
        'https://***@models.example/v1'
    """
    scheme, sign, rest = address.partition("://")
    if not sign:
        return address
    owner, at, place = rest.rpartition("@")
    if not _SCHEME.fullmatch(scheme) or _without_secrets(owner) != owner:
        return _HIDDEN
    return f"{scheme}://{_user(owner, scheme) if at else ''}{at}{_without_secrets(place)}"


def cleaned(text: str) -> str:
    """A text of somebody else's, such as a driver's error, with the first address in it, and all behind it, as `shown` has it.

    Nobody knows where an address ends whose password has a space.

    Example:
        >>> cleaned("404 for url 'http://ada:s3cret@models.example/v1'")
        "404 for url 'http://***@models.example/v1'"
    """
    return _ADDRESS.sub(lambda found: shown(found[0]), text)


def check_server(address: object, whose: str = "") -> str:
    """Return the address of a web server if every client reads it alike; the clients' own errors quote pieces of it.

    Args:
        address: As in `"http://localhost:11434/v1"`.
        whose: Where it was given, to begin the error with.

    Raises:
        InvalidInputError: It is no such address; the message does not repeat it.
    """
    if not isinstance(address, str) or not _readable(address):
        raise InvalidInputError(f"{whose}no address of a server; write it like http://localhost:11434/v1, {ENCODED}")
    return address


def _readable(address: str) -> bool:
    try:
        parts = urlsplit(address)
        whole = parts.scheme in _WEB and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, brackets that do not match
        return False
    return whole and address.isprintable() and " " not in address


def _user(owner: str, scheme: str) -> str:
    user, colon, _ = owner.partition(":")
    told = _HIDDEN if scheme.lower() in _WEB or not _USER.fullmatch(user) else user
    return told if told == _HIDDEN or not colon else f"{told}:{_HIDDEN}"


def _without_secrets(text: str) -> str:
    for found in _PARAMETER.finditer(text):
        if unquote_plus(found[1]).lower().endswith(_SECRETS):
            return text[: found.end()] + _HIDDEN
    return text
