"""The graph that Mem0 kept in Neo4j or Memgraph, read into ours.

What Mem0 wrote there, up to its version 1.0.11: nodes with `name`, `user_id`, and `agent_id` and `run_id` where these were
given; as their label the entity's type, `__User__` where it knew none, and `__Entity__` (Memgraph: `Entity`) beside it;
relations whose type is their name, with `mentions`, `created` or `created_at`, and of the last versions `valid` and
`invalidated_at`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.adapters.mem0 import memory as doors
from langmem_adapter.arguments import parse_time, scope_if_given
from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.knowledge.imports import (
    GraphImportReport,
    PastRelation,
    RefusedRow,
    StatedRelation,
    import_relations,
    parse_name,
    parse_relation,
    parse_type,
)
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.graph import ASSISTANT, SELF, Triple
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from neo4j import Driver

    from langmem_adapter.knowledge.imports import ImportRow
    from langmem_adapter.memory.memory import Memory

_FETCHED: Final = 1_000  # relations that lie in memory at a time
_SHOWN: Final = 80
_NO_TYPES: Final = frozenset({"__user__", "__entity__", "entity"})
_MICROSECONDS: Final = 10**14
"""`timestamp()` counts them in Memgraph, and milliseconds in Neo4j, of which so many are the year 5138."""

_SIDES: Final = ("s_", "t_")
_WHOSE: Final = " OR ".join(f"s.{name} IS NOT NULL" for name in SCOPE_FIELDS)
_ENDS: Final = ", ".join(f"{end[0]}.{name} AS {end}{name}" for end in _SIDES for name in ("name", *SCOPE_FIELDS))
# A mirror of ours may lie in the same database: its nodes carry the lineage of the memory that they are derived from.
_RELATIONS: Final = (
    f"MATCH (s)-[r]->(t) WHERE s.name IS NOT NULL AND ({_WHOSE}) AND s.lineage IS NULL AND t.lineage IS NULL{{narrowed}} "
    f"RETURN {_ENDS}, labels(s) AS s_labels, labels(t) AS t_labels, type(r) AS relation, properties(r) AS told"
)


@planned
def import_graph(  # noqa: PLR0913 - whose, where it lies, and who is told
    memory: Memory | doors.Memory | doors.AsyncMemory,
    source: Driver | str,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    username: str | None = None,
    password: str | None = None,
    database: str | None = None,
    refused: Callable[[RefusedRow], object] | None = None,
    progress: Callable[[int], object] | None = None,
) -> Plan[GraphImportReport]:
    """Take the relations that Mem0 kept in Neo4j or Memgraph into a memory's graph; done twice, it takes nothing new.

    Each comes with the scope that its two ends carry, its mentions, and the time for which Mem0 believed it; nothing that is
    known here is ended for it. The node that Mem0 called by the `user_id` (or `agent_id`) is the user (or agent) here.
    Embeddings stay unread, and so do nodes that nothing is related to, which Mem0 shows to nobody either. Everything else that
    is not taken is counted and reported. The graph server is only read.

    Args:
        memory: Whose graph they come into, ours or one in Mem0's shape.
        source: A `neo4j.Driver`, or an address: `"bolt://localhost:7687"`.
        user_id: Where given, only relations of this scope; likewise the next two.
        agent_id: The agent.
        run_id: The run or session.
        username: For an address, with *password*; without them `NEO4J_USERNAME` and `NEO4J_PASSWORD` are taken.
        password: The same.
        database: The database's name there; `None` for the server's default.
        refused: Gets each relation that is refused, as it comes.
        progress: Gets the number of those that were read, after each transaction.

    Raises:
        InvalidInputError: *source* is neither, or an argument cannot be used.
        MissingDependencyError: The package `neo4j` is not installed.
        StorageError: The database failed, or the server with a `GraphServerError`; what was taken in until then stays, and
            is known the next time.
    """
    from langmem_adapter.mirror.target import manner, opened, place_of, translated  # noqa: PLC0415 - its driver takes a while to import

    ours = memory.engine if isinstance(memory, doors.Memory | doors.AsyncMemory) else memory
    engine, within = parts_of(ours, "import_graph"), scope_if_given(user_id, agent_id, run_id)
    driver, made = opened(source, username, password)

    def run() -> GraphImportReport:
        try:
            with translated(place_of(source)):
                told = _told(driver, database, within, manner(driver))
                return import_relations(engine.ledger, told, refused=refused, progress=progress)
        finally:
            if made:
                driver.close()

    return Plan.apart(run)


aimport_graph = awaited(import_graph)


def _told(driver: Driver, database: str | None, within: Scope | None, how: Mapping[str, Any]) -> Iterator[ImportRow]:
    named = {} if within is None else within.named
    narrowed = "".join(f" AND (s.{name} = ${name} OR t.{name} = ${name})" for name in named)
    with driver.session(database=database, default_access_mode="READ", fetch_size=_FETCHED, **how) as session:
        rows = session.run(_RELATIONS.format(narrowed=narrowed), named)
        yield from (_read(number, row.data(), within) for number, row in enumerate(rows, 1))


def _read(number: int, row: Mapping[str, Any], within: Scope | None) -> ImportRow:
    where, begins = f"relation {number}", f"({row['s_name']})-[{row['relation']}]->({row['t_name']})"[:_SHOWN]
    try:
        if _is_undated_past(row["told"]):
            return PastRelation(where)
        scope = _scope(row, within)
        return StatedRelation(where, begins, scope, _triple(row, scope))
    except (InvalidInputError, ScopeError) as error:
        return RefusedRow(where, begins, str(error))


def _scope(row: Mapping[str, Any], within: Scope | None) -> Scope:
    """The scope of a relation: all that its ends carry, so that nobody sees it who would see neither of them in Mem0."""
    told = {name: {str(row[end + name]) for end in _SIDES if row[end + name] is not None} for name in SCOPE_FIELDS}
    for name, each in told.items():
        if len(each) > 1:
            raise InvalidInputError(f"its two ends have different {name}s: {', '.join(sorted(each))}")
    scope = Scope(**{name: one for name, each in told.items() for one in each})
    if within is not None and not within.covers(scope):
        raise InvalidInputError(f"it belongs to {scope.named}, which lies outside {within.named}")
    return scope


def _triple(row: Mapping[str, Any], scope: Scope) -> Triple:
    since, until = _span(row["told"])
    return Triple(
        source=_name(row["s_name"], "source", scope),
        relation=parse_relation(row["relation"]),
        target=_name(row["t_name"], "target", scope),
        source_type=_type(row["s_labels"]),
        target_type=_type(row["t_labels"]),
        valid_from=since,
        valid_to=until,
        mentions=_mentions(row["told"].get("mentions")),
    )


def _name(name: object, what: str, scope: Scope) -> str:
    """The name of an end, `SELF` or `ASSISTANT` where Mem0 wrote the id of the user or agent in its own spelling.

    Mem0 tells its model to say `user_id: alice, agent_id: guide` for the user, and lowers all names, blanks to underscores.
    """
    text = parse_name(name, what)
    ids = {SELF: ("user_id", scope.user_id), ASSISTANT: ("agent_id", scope.agent_id)}
    for who, (field, owner) in ids.items():
        spelled = None if owner is None else _spelled(owner)
        if spelled is not None and (text == spelled or f"{text},".startswith(f"{field}:_{spelled},")):
            return who
    return text


def _spelled(name: str) -> str:
    return name.lower().replace(" ", "_")


def _type(labels: list[str]) -> str:
    kinds = [label for label in labels if label.casefold() not in _NO_TYPES]
    return parse_type(kinds[0].casefold(), "label") if kinds else ""


def _mentions(told: object) -> int:
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else 1


def _is_undated_past(told: Mapping[str, Any]) -> bool:
    return told.get("valid") is False and told.get("invalidated_at") is None


def _span(told: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    since = _moment(told.get("created_at", told.get("created")), "created_at")
    until = None if told.get("valid") is True else _moment(told.get("invalidated_at"), "invalidated_at")
    return (None, until) if since is not None and until is not None and since >= until else (since, until)


def _moment(told: Any, what: str) -> datetime | None:
    if told is None:
        return None
    if isinstance(told, int | float) and not isinstance(told, bool):
        return parse_time(told / (1_000_000 if abs(told) >= _MICROSECONDS else 1_000), what)
    native = getattr(told, "to_native", None)  # a time of the driver's own, which counts nanoseconds
    return parse_time(told if native is None else native(), what).astimezone(UTC)
