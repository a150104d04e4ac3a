"""The graph database of a mirror: Bolt connection, Cypher dialects, rows, transactions.

Values are always parameters. What cannot be one, a label or the type of a relation, is quoted here.

The progress of a mirror is kept in the target itself, on one node, and moves in the same transaction as the rows. So the two
agree whenever a process dies, a target that was emptied or restored shows it, and the memory's own database is only read.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from sqlalchemy import func, select, true

from langmem_adapter.errors import GraphServerError, InvalidInputError, MissingDependencyError
from langmem_adapter.records.checks import check_text, quoted, redact_url, redact_urls
from langmem_adapter.records.scope import SCOPE_FIELDS, shallow
from langmem_adapter.settings import neo4j_login
from langmem_adapter.storage.feed import Cursor
from langmem_adapter.storage.graph import reads
from langmem_adapter.storage.graph.rows import NAMES_OF
from langmem_adapter.storage.scopes import reach
from langmem_adapter.storage.tables import EDGE, ENTITIES, ENTITIES_OF, RELATIONS, entities, relations, scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from neo4j import Driver, ManagedTransaction, Session
    from sqlalchemy import ColumnElement, Connection, Table

    from langmem_adapter.records.scope import Scope

Dialect: TypeAlias = Literal["neo4j", "memgraph"]
MARK: Final = "LangmemMirror"
"""Label of the one node that says how far a mirror has come."""

_NEO4J: Final = (
    "CREATE CONSTRAINT {prefix}_row IF NOT EXISTS FOR (n:{label}) REQUIRE (n.lineage, n.pk) IS UNIQUE",
    "CREATE CONSTRAINT {prefix}_mark IF NOT EXISTS FOR (n:{mark}) REQUIRE n.key IS UNIQUE",
    "CREATE INDEX {prefix}_name IF NOT EXISTS FOR (n:{label}) ON (n.name)",
    "CREATE INDEX {prefix}_user IF NOT EXISTS FOR (n:{label}) ON (n.user_id)",
)
_MEMGRAPH: Final = (
    "CREATE CONSTRAINT ON (n:{label}) ASSERT n.lineage, n.pk IS UNIQUE",
    "CREATE CONSTRAINT ON (n:{mark}) ASSERT n.key IS UNIQUE",
    "CREATE INDEX ON :{label}(pk)",
    "CREATE INDEX ON :{mark}(key)",
    "CREATE INDEX ON :{label}(name)",
    "CREATE INDEX ON :{label}(user_id)",
)


def dialect_of(driver: Driver) -> Dialect:
    return "memgraph" if "memgraph" in driver.get_server_info().agent.casefold() else "neo4j"


def schema(dialect: Dialect, label: str) -> list[str]:
    # Where a name is taken Neo4j makes no constraint, and does not say so: every label has its own names.
    names = {"label": identifier(label), "mark": MARK, "prefix": f"langmem_{label}"}
    return [statement.format(**names) for statement in (_MEMGRAPH if dialect == "memgraph" else _NEO4J)]


def identifier(name: str) -> str:
    r"""A label or type, quoted for Cypher.

    Neo4j reads `\u0060` as a backtick before it reads anything else, so a backslash is itself written as an escape.

    Example:
        >>> identifier("a`b"), identifier("\\u0060 DELETE n")
        ('`a``b`', '`\\u005Cu0060 DELETE n`')
    """
    return "`{}`".format(name.replace("\\", "\\u005C").replace("`", "``"))


class Statements:
    """The statements of a mirror, for nodes with a label; *within* narrows it to a scope's properties."""

    def __init__(self, label: str, within: tuple[str, ...]) -> None:
        node = identifier(label)
        ours = " AND ".join(["n.lineage = $lineage", *(f"n.{name} = ${name}" for name in within)])
        self._row = f"{node} {{lineage: $lineage, pk: row."
        self.claim = f"MERGE (m:{MARK} {{key: $key}}) SET m.claimed = $turn RETURN properties(m) AS mark"
        self.keep = f"MATCH (m:{MARK} {{key: $key}}) SET m += $mark"
        self.read = f"MATCH (m:{MARK} {{key: $key}}) RETURN properties(m) AS mark"
        self.nodes = f"UNWIND $rows AS row MERGE (n:{self._row}pk}}) SET n += row.properties"
        self.gone = f"UNWIND $pks AS pk MATCH (n:{node} {{lineage: $lineage, pk: pk}}) DETACH DELETE n"
        self.loosen = (
            f"UNWIND $pks AS pk MATCH (n:{node} {{lineage: $lineage, pk: pk}})-[r]-() "
            "WITH DISTINCT r LIMIT $most DELETE r RETURN count(*) AS gone"
        )
        self.clear = (
            f"MATCH (n:{node})-[r]->() WHERE {ours} WITH r LIMIT $most DELETE r RETURN count(*) AS gone",
            f"MATCH (n:{node}) WHERE {ours} WITH n LIMIT $most DETACH DELETE n RETURN count(*) AS gone",
        )

    def relations(self, name: str) -> str:
        """Relations of one type, between nodes that are there.

        They are looked for at their targets: the user is the source of most, and a server that begins at the end that is named
        first would go through all of these for each one.
        """
        return (
            f"UNWIND $rows AS row MATCH (s:{self._row}source}}) MATCH (t:{self._row}target}}) "
            f"MERGE (t)<-[r:{identifier(name)} {{lineage: $lineage, pk: row.pk}}]-(s) SET r += row.properties"
        )


try:
    import neo4j
    from neo4j import exceptions
except ImportError:
    _MISSING = True
    COLLISIONS: tuple[type[Exception], ...] = ()
else:
    _MISSING = False
    COLLISIONS = (exceptions.ConstraintError,)


_SCHEMES: Final = frozenset(f"{name}{kind}" for name in ("bolt", "neo4j") for kind in ("", "+s", "+ssc"))
_CONNECT: Final = 10.0  # seconds
_RETRY: Final = 15.0
_CHOOSING_NOTICES: Final = (5, 2)  # the version of Bolt from which a client chooses its notices
_LOGIN: Final = "give username and password, or set NEO4J_USERNAME and NEO4J_PASSWORD"
_RUNNING: Final = "is it running, and does it speak Bolt there?"


def open_driver(driver: Driver | str, username: str | None = None, password: str | None = None) -> tuple[Driver, bool]:
    """A driver, and whether it is ours to close: one of the `neo4j` package's, or one for an address, not yet connected."""
    if _MISSING:
        raise MissingDependencyError("neo4j", extra="neo4j")
    if isinstance(driver, neo4j.Driver):
        if username is not None or password is not None:
            raise InvalidInputError("a driver has its own login; give username and password with an address")
        return driver, False
    if isinstance(driver, neo4j.AsyncDriver):
        raise InvalidInputError("give a neo4j.Driver, made by GraphDatabase.driver(…); the mirror has its own thread")
    address, login = _check_address(driver), neo4j_login(username, password)
    how: dict[str, Any] = {"connection_timeout": _CONNECT, "max_transaction_retry_time": _RETRY}
    with translate_errors(address):
        return neo4j.GraphDatabase.driver(address, auth=login, **how), True


def server_name(driver: Driver | str) -> str:
    return redact_url(driver) if isinstance(driver, str) else "of that driver"


def _check_address(address: object) -> str:
    if not isinstance(address, str):
        raise InvalidInputError(
            f"give a neo4j.Driver or an address like 'bolt://localhost:7687', not {quoted(address)}"
        )
    try:
        parts = urlsplit(check_text(address, "the address"))
        is_whole = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        is_whole = False
    if not is_whole:
        raise InvalidInputError("no address of a graph server; write it like bolt://localhost:7687 or neo4j+s://host")
    if parts.username is not None or parts.password is not None:
        raise InvalidInputError(f"a login does not belong in the address {redact_url(address)}; {_LOGIN}")
    return address


def session_options(driver: Driver) -> dict[str, Any]:
    """Options of a session that gives no notices of a label or name that is not in use yet.

    A server that speaks Bolt before 5.2 (Neo4j before 5.7, older Memgraph) has no such option, and the driver refuses to try.
    """
    version: tuple[int, int] = driver.get_server_info().protocol_version
    return {"notifications_min_severity": "OFF"} if version >= _CHOOSING_NOTICES else {}


@contextmanager
def translate_errors(where: str) -> Iterator[None]:
    """Turn what the driver raises into our errors, which name the server as *where*."""
    try:
        yield
    except exceptions.AuthError as error:
        raise GraphServerError(f"the graph server {where} refused the login: {_reason(error)}; {_LOGIN}") from error
    except exceptions.ConfigurationError as error:
        raise InvalidInputError(f"the graph server {where} cannot be used so: {_reason(error)}") from error
    except (exceptions.ServiceUnavailable, exceptions.SessionExpired) as error:
        message = f"the graph server {where} cannot be reached: {_reason(error)}; {_RUNNING}"
        raise GraphServerError(message, transient=True) from error
    except (exceptions.Neo4jError, exceptions.DriverError) as error:
        # Neo4j calls an error so where it is the server's own, as when it meets what a client that died was doing.
        passing = error.is_retryable() or isinstance(error, exceptions.DatabaseError)
        message = f"the graph server {where} refused or failed: {_reason(error)}"
        raise GraphServerError(message, transient=passing) from error


def _reason(error: Exception) -> str:
    """The operating system's error, which the driver wraps in several others; else the driver's text."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    # What the driver raises by itself has its reason as its text, and none, or only the beginning, as its `message`.
    text = (cause and cause.strerror) or (error.message if isinstance(error, exceptions.Neo4jError) else str(error))
    return redact_urls(" ".join(str(text or type(error).__name__).split()))[:500]


Properties: TypeAlias = dict[str, Any]
_EVER: Final = reads.GraphTime(history=True)
_TABLES: Final = {ENTITIES: entities, RELATIONS: relations}
_COLUMNS: Final = tuple("id valid_from valid_to recorded_at retired_at mentions confidence".split())


@dataclass(frozen=True, slots=True)
class MirrorBatch:
    """What one transaction of the target writes; relations go only together with their ends."""

    nodes: Sequence[Properties] = ()  # entities: `pk` and `properties`
    relations: dict[str, list[Properties]] = field(default_factory=dict)  # by name; with `source` and `target`
    gone: Sequence[int] = ()  # pks of entities that are no more

    @property
    def ties(self) -> int:
        return sum(map(len, self.relations.values()))


def batch_of(connection: Connection, scope: Scope | None, named: Mapping[str, Sequence[int]]) -> MirrorBatch:
    """The current rows within a scope, or of all scopes, that some changes name.

    Every row of a relation is given anew with the one that is named: all of them have the memories that state it.
    """
    pks, relation_pks = named.get(ENTITIES, ()), named.get(RELATIONS, ())
    present = set(connection.execute(select(entities.c.pk).where(entities.c.pk.in_(pks))).scalars())
    of_ids = relations.c.id.in_(select(relations.c.id).where(relations.c.pk.in_(relation_pks)))
    nodes = _nodes(connection, entities.c.pk.in_(pks), reach(scope))
    return MirrorBatch(nodes, _ties(connection, of_ids, reach(scope)), [pk for pk in pks if pk not in present])


def after(
    connection: Connection, scope: Scope | None, space: str, pk: int, most: int
) -> tuple[MirrorBatch, int | None]:
    """The next rows of a space, by pk, and the last of these pks; `None` where there are no more."""
    table = _TABLES[space]
    query = select(table.c.pk).join(scopes, table.c.scope_id == scopes.c.id).where(table.c.pk > pk, reach(scope))
    pks = connection.execute(query.order_by(table.c.pk).limit(most)).scalars().all()
    of_them, last = table.c.pk.in_(pks), pks[-1] if pks else None
    if space == ENTITIES:
        return MirrorBatch(nodes=_nodes(connection, of_them, true())), last
    return MirrorBatch(relations=_ties(connection, of_them, true())), last


def progress(connection: Connection, scope: Scope | None, space: str, pk: int) -> tuple[int, int]:
    """How many rows come up to one of a space, those of the space before it among them, and how many there are in all."""
    sizes = [_size(connection, table, scope) for table in _TABLES.values()]
    done = _size(connection, _TABLES[space], scope, pk) + (sizes[0] if space == RELATIONS else 0)
    return done, sum(sizes)


def _size(connection: Connection, table: Table, scope: Scope | None, until: int | None = None) -> int:
    query = select(func.count()).select_from(table).join(scopes, table.c.scope_id == scopes.c.id)
    first = true() if until is None else table.c.pk <= until
    return int(connection.execute(query.where(reach(scope), first)).scalar_one())


def _nodes(connection: Connection, chosen: ColumnElement[bool], inside: ColumnElement[bool]) -> list[Properties]:
    rows = connection.execute(ENTITIES_OF.where(chosen, inside).order_by(entities.c.pk)).all()
    names: defaultdict[int, list[str]] = defaultdict(list)
    for named in NAMES_OF.rows(connection, {"pks": [row.pk for row in rows]}):
        names[named.entity_pk].append(named.name)
    nodes = []
    for row in rows:
        columns = ("id", "name", "type", "mentions", "merged_into", *SCOPE_FIELDS)
        properties = {name: getattr(row, name) for name in columns}
        properties |= {"aliases": [name for name in names[row.pk] if name != row.name]}
        properties |= {"created": row.created_at, "updated": row.updated_at}
        nodes.append({"pk": row.pk, "properties": properties})
    return nodes


def _ties(
    connection: Connection, chosen: ColumnElement[bool], inside: ColumnElement[bool]
) -> dict[str, list[Properties]]:
    query = select(*EDGE).join(scopes, relations.c.scope_id == scopes.c.id).where(chosen, inside)
    rows = connection.execute(query.order_by(relations.c.pk)).all()
    loaded = reads.by_pks(connection, [row.pk for row in rows], _EVER)
    ties: defaultdict[str, list[Properties]] = defaultdict(list)
    for row in rows:
        relation = loaded[row.pk]
        properties = {name: getattr(relation, name) for name in _COLUMNS}
        properties |= {**shallow(relation.scope), "memory_ids": list(relation.memory_ids)}
        ends = {"pk": row.pk, "source": row.source_pk, "target": row.target_pk}
        ties[relation.relation].append({**ends, "properties": properties})
    return dict(ties)


T = TypeVar("T")

Phase: TypeAlias = Literal["clear", "entities", "relations", "follow"]
_MOST: Final = 1_000  # rows of one statement
_FREED: Final = 10_000  # relations that one transaction removes


class Overtaken(Exception):  # noqa: N818 - no error: another process did it
    """Another mirror of the same target came first."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a mirror has come: it removes what is there, fills in entities, then relations, then follows the feed."""

    applied: int  # number of the last change of the feed that it has followed
    nonce: str  # of that change, in hexadecimal digits
    phase: Phase = "follow"
    place: int = 0  # while it fills, the last pk that is in
    turn: str = field(default_factory=lambda: secrets.token_hex(8))  # names the transaction that wrote it

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.applied, bytes.fromhex(self.nonce))

    def moved(self, phase: Phase, place: int) -> Mark:
        """The next one of a target that is being filled."""
        return Mark(self.applied, self.nonce, phase, place)


@dataclass(slots=True)
class Target:
    """What a graph database holds of one memory's database."""

    driver: Driver
    where: str  # the server, for people
    database: str | None  # the database's name there; `None` for the server's default
    dialect: Dialect | None  # `None` asks the server
    label: str  # of the nodes
    within: dict[str, str]  # the properties that narrow the mirror to a scope
    key: str = ""  # of the mark
    lineage: str = ""  # which memory's database, as every node and relation bears it
    _options: dict[str, Any] = field(default_factory=dict)  # of its sessions; `mark` comes first, and learns them
    _statements: Statements = field(init=False)

    def __post_init__(self) -> None:
        self._statements = Statements(self.label, tuple(self.within))

    def prepare(self) -> None:
        """Make constraints and indexes, where they are missing."""
        with self._session() as session:
            for statement in schema(self.dialect or dialect_of(self.driver), self.label):
                try:
                    session.run(statement).consume()
                except exceptions.ClientError as error:  # Memgraph has no `IF NOT EXISTS`
                    if "already exists" not in str(error):
                        raise

    def mark(self) -> Mark | None:
        """How far the mirror has come; `None` where the target knows nothing of it."""
        with translate_errors(self.where):
            self._options = session_options(
                self.driver
            )  # connects: a transaction would be tried again for half a minute
        with self._session() as session:
            row = session.execute_read(lambda work: work.run(self._statements.read, key=self.key).single())
        return None if row is None else _mark_of(row["mark"])

    def write(self, was: Mark | None, now: Mark, batch: MirrorBatch) -> None:
        """Write a batch and move the mark from what it was read as, in one transaction."""
        if batch.gone:  # their relations go bit by bit: one transaction could not hold those of a hub
            values = {"lineage": self.lineage, "pks": list(batch.gone), "most": _FREED}
            with self._session() as session:
                while session.execute_write(_gone, self._statements.loosen, values):
                    pass
        self._carry_out(was, now, lambda work: self._put(work, batch))

    def clear(self, was: Mark | None, now: Mark) -> int:
        """Remove some of what the mirror has written, and move the mark, or raise `Overtaken`; of nothing, all is gone."""
        values = {"lineage": self.lineage, "most": _FREED, **self.within}
        return self._carry_out(was, now, lambda work: sum(_gone(work, one, values) for one in self._statements.clear))

    def _carry_out(self, was: Mark | None, now: Mark, do: Callable[[ManagedTransaction], T]) -> T:
        # Contract: of two mirrors that read the same mark one alone writes. The first statement writes to the mark, which locks
        # it until the end of the transaction, and only then reads it.
        # tests/mirror/test_mirror.py::test_run_once_that_was_overtaken_writes_nothing_old.
        def carry_out(work: ManagedTransaction) -> T:
            mark = work.run(self._statements.claim, key=self.key, turn=now.turn).single(strict=True)["mark"]
            if _mark_of(mark) != was:
                raise Overtaken
            result = do(work)
            work.run(self._statements.keep, key=self.key, mark=asdict(now)).consume()
            return result

        with self._session() as session:
            try:
                return session.execute_write(carry_out)
            except COLLISIONS as error:  # a server that locks late lets both write, until one of them cannot commit
                if self.mark() != was:
                    raise Overtaken from error
                raise

    @contextmanager
    def _session(self) -> Iterator[Session]:
        options = {"database": self.database, **self._options}
        with translate_errors(self.where), self.driver.session(**options) as session:
            yield session

    def _put(self, work: ManagedTransaction, batch: MirrorBatch) -> None:
        for pks in _chunks(batch.gone):
            work.run(self._statements.gone, lineage=self.lineage, pks=pks).consume()
        for rows in _chunks(batch.nodes):
            work.run(self._statements.nodes, lineage=self.lineage, rows=rows).consume()
        for name, ties in batch.relations.items():
            for rows in _chunks(ties):
                work.run(self._statements.relations(name), lineage=self.lineage, rows=rows).consume()


def _gone(work: ManagedTransaction, statement: str, values: dict[str, Any]) -> int:
    return int(work.run(statement, values).single(strict=True)["gone"])


def _mark_of(properties: dict[str, Any]) -> Mark | None:
    """`None` where the node was made by this very transaction, or by another program."""
    try:
        return Mark(**{name: properties[name] for name in Mark.__slots__})
    except KeyError:
        return None


def _chunks(rows: Sequence[T]) -> Iterator[list[T]]:
    for start in range(0, len(rows), _MOST):
        yield list(rows[start : start + _MOST])
