"""Addresses of servers and databases, and what of them may be shown: never a password, a token or a key.

Whatever shows an address (a `repr`, an error, a log line, the command line) shows it through here. A password that was not
percent-encoded ends nobody knows where, so in doubt more is hidden than need be.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from langmem_adapter.errors import InvalidInputError

ENCODED: Final = "and in names and passwords @ : / ? # [ ] % as %40 %3A %2F %3F %23 %5B %5D %25"
"""The fix for an address that cannot be read."""

SCHEMES: Final = r"(?i:postgres(?:ql)?|mysql|mariadb|sqlite|file|https?)(?:\+\w+)?:(?!//)"
"""What an address begins with that lacks the slashes, as a pattern."""

HIDDEN: Final = "***"
"""What is shown in place of a secret."""
_WEB: Final = ("http", "https")
_HARMLESS: Final = frozenset(
    ("api-version", "application_name", "client_encoding", "connect_timeout", "host", "port", "sslmode", "version")
)
_SCHEME: Final = re.compile(r"[A-Za-z][\w+.-]*")
_USER: Final = re.compile(r"[^:/?#@&;=]*")
_HOST: Final = re.compile(r"(?:\[[\da-fA-F:.]+\]|[^][:/?#\s]|:\d*(?=[,/?#&;]|\Z))*(?=[/?#]|\Z)")  # a port is a number
_PARAMETER: Final = re.compile(r"(?:[?#&;]|%23)([^?#&;=]*)")
_QUERY: Final = re.compile(r"[?#]|[&;][^&;=]*=")
_BEGUN: Final = re.compile(SCHEMES)
_VALUE: Final = r"[?#&;][^?#&;=\s]*+=|\b(?=\w*pass)\w++\s*+="
_GIVEN: Final = re.compile(rf"{_VALUE}|\b(?:host\w*+|dbname)\s*+=")  # in a query, or in libpq's own form
_START: Final = rf"(?<![\w+.-])[\w+.-]*+://|\b{SCHEMES}(?=\S)"
_WITHIN: Final = re.compile(rf"{_START}|{_VALUE}|(?<!\S)(?!\S*://)\S*@")
_OPEN: Final = re.compile(r"[@?#&;=]")
_WORD: Final = re.compile(rf"(?:{_START})\S*")


def shown(address: str) -> str:
    """An address without its secrets; a text that is none, such as a path, is left alone.

    Hidden are the password before the host (at `http` the user name, too, since that is where tokens stand), the query from the
    first parameter on that is not known to be harmless, and the fragment. Nothing is shown of what looks like an address but
    cannot be read: `host=db password=…`, `//ada:…@db`, `postgresql:ada:…@db`.

    Args:
        address: Any text; it need not be a right address.

    Example:
        >>> shown("postgresql://ada:s3cret@db.example/app?application_name=bot&sslpassword=x")
        'postgresql://ada:***@db.example/app?application_name=bot&***'
        >>> shown("https://token@models.example/v1")
        'https://***@models.example/v1'
    """
    scheme, sign, rest = address.partition("://")
    owner, at, place = rest.rpartition("@")
    if not sign:
        return HIDDEN if _is_doubtful(address) else address
    if not _SCHEME.fullmatch(scheme) or _QUERY.search(owner) or not _HOST.match(place):
        return HIDDEN
    return f"{scheme}://{_user(owner, scheme) if at else ''}{at}{_without_values(place)}"


def cleaned(text: str) -> str:
    """A text of somebody else's, such as a driver's error, with the first address in it, and all behind it, as `shown` has it.

    Nobody knows where an address ends whose password or query has a space.

    Example:
        >>> cleaned("404 for url 'http://ada:s3cret@models.example/v1'")
        "404 for url 'http://***@models.example/v1'"
    """
    found = _WITHIN.search(text)
    if found is None:
        return text
    before, rest = text[: found.start()], text[found.start() :]
    return before + (shown(rest) if _OPEN.search(rest) else _WORD.sub(_without_signs, rest))


def check_server(address: object, whose: str = "") -> str:
    """Return the address of a web server if every client reads it alike; *whose* it is begins the error."""
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
    told = HIDDEN if scheme.lower() in _WEB or not _USER.fullmatch(user) else user
    return told if told == HIDDEN or not colon else f"{told}:{HIDDEN}"


def _is_doubtful(text: str) -> bool:
    before, _, after = text.rpartition("@")
    has_owner = "//" in before or (":" in before and "/" in after)
    return has_owner or _BEGUN.match(text.lstrip()) is not None or _GIVEN.search(text) is not None


def _without_signs(word: re.Match[str]) -> str:
    address = word[0].rstrip("'\")]},.:;")
    return shown(address) + word[0][len(address) :]


def _without_values(text: str) -> str:
    for found in _PARAMETER.finditer(text):
        if found[1] not in _HARMLESS:
            return text[: found.start() + 1] + HIDDEN
    return text
