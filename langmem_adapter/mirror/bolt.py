"""A graph server that speaks Bolt: how it is reached, and what its driver's errors mean to users."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from langmem_adapter.addresses import cleaned, shown
from langmem_adapter.errors import GraphServerError, InvalidInputError, MissingDependencyError
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.settings import neo4j_login

try:
    import neo4j
    from neo4j import exceptions
except ImportError:
    _MISSING = True
    COLLISIONS: tuple[type[Exception], ...] = ()
else:
    _MISSING = False
    COLLISIONS = (exceptions.ConstraintError,)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neo4j import Driver

__all__ = ["COLLISIONS", "already_there", "manner", "opened", "place_of", "translated"]

_SCHEMES: Final = frozenset(f"{name}{kind}" for name in ("bolt", "neo4j") for kind in ("", "+s", "+ssc"))
_CONNECT: Final = 10.0  # seconds
_RETRY: Final = 15.0
_TELLING_LESS: Final = (5, 2)  # the version of Bolt from which a client says what it wants to be told
_LOGIN: Final = "give username and password, or set NEO4J_USERNAME and NEO4J_PASSWORD"
_RUNNING: Final = "is it running, and does it speak Bolt there?"


def opened(driver: Driver | str, username: str | None = None, password: str | None = None) -> tuple[Driver, bool]:
    """A driver, and whether it is ours to close: one of the `neo4j` package's, or one for an address, not yet connected.

    The login goes with an address; where it is not given, the environment's is taken (`settings.neo4j_login`).

    Raises:
        InvalidInputError: It is neither.
        MissingDependencyError: The package `neo4j` is not installed.
    """
    if _MISSING:
        raise MissingDependencyError("neo4j", extra="neo4j")
    if isinstance(driver, neo4j.Driver):
        if username is not None or password is not None:
            raise InvalidInputError("a driver has its own login; give username and password with an address")
        return driver, False
    if isinstance(driver, neo4j.AsyncDriver):
        raise InvalidInputError(
            "give a neo4j.Driver, made by GraphDatabase.driver(…); the mirror has a thread of its own"
        )
    address, login = _checked(driver), neo4j_login(username, password)
    how: dict[str, Any] = {"connection_timeout": _CONNECT, "max_transaction_retry_time": _RETRY}
    with translated(address):
        return neo4j.GraphDatabase.driver(address, auth=login, **how), True


def place_of(driver: Driver | str) -> str:
    """The server, for people."""
    return shown(driver) if isinstance(driver, str) else "of that driver"


def _checked(address: object) -> str:
    if not isinstance(address, str):
        raise InvalidInputError(
            f"give a neo4j.Driver or an address like 'bolt://localhost:7687', not {quoted(address)}"
        )
    try:
        parts = urlsplit(check_text(address, "the address"))
        whole = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        whole = False
    if not whole:
        raise InvalidInputError("no address of a graph server; write it like bolt://localhost:7687 or neo4j+s://host")
    if parts.username is not None or parts.password is not None:
        raise InvalidInputError(f"a login does not belong in the address {shown(address)}; {_LOGIN}")
    return address


def manner(driver: Driver) -> dict[str, Any]:
    """How a session is opened so that no notice comes of a label or name that nobody has used yet.

    A server that speaks Bolt before 5.2 (Neo4j before 5.7, older Memgraph) cannot be told so, and the driver refuses to try.
    """
    speaks: tuple[int, int] = driver.get_server_info().protocol_version
    return {"notifications_min_severity": "OFF"} if speaks >= _TELLING_LESS else {}


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn what the driver raises into our errors, which name the server as *where*."""
    try:
        yield
    except exceptions.AuthError as error:
        raise GraphServerError(f"the graph server {where} refused the login: {_told(error)}; {_LOGIN}") from error
    except exceptions.ConfigurationError as error:
        raise InvalidInputError(f"the graph server {where} cannot be used so: {_told(error)}") from error
    except (exceptions.ServiceUnavailable, exceptions.SessionExpired) as error:
        told = f"the graph server {where} cannot be reached: {_told(error)}; {_RUNNING}"
        raise GraphServerError(told, transient=True) from error
    except (exceptions.Neo4jError, exceptions.DriverError) as error:
        # Neo4j calls an error so where it is the server's own, as when it meets what a client that died was doing.
        passing = error.is_retryable() or isinstance(error, exceptions.DatabaseError)
        told = f"the graph server {where} refused or failed: {_told(error)}"
        raise GraphServerError(told, transient=passing) from error


@contextmanager
def already_there() -> Iterator[None]:
    """Make a constraint or index that may be there: Memgraph has no `IF NOT EXISTS`."""
    try:
        yield
    except exceptions.ClientError as error:
        if "already exists" not in str(error):
            raise


def _told(error: Exception) -> str:
    # What the driver raises by itself bears its reason as its text, and none, or only the beginning, as its `message`.
    text = _reason(error) or (error.message if isinstance(error, exceptions.Neo4jError) else str(error))
    return cleaned(" ".join(str(text or type(error).__name__).split()))[:500]


def _reason(error: BaseException | None) -> str | None:
    """What the operating system says, which the driver wraps in several errors of its own."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return None if error is None else error.strerror
