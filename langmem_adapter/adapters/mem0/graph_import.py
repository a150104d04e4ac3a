"""Import of the knowledge graph that Mem0 kept in Neo4j or Memgraph.

Mem0 up to 1.0.11 wrote nodes with `name` and the fields of the scope, labelled with the entity's type (`__User__` where it
knew none) and `__Entity__` (Memgraph: `Entity`); relations have their name as type, `mentions`, `created` or `created_at`, and
in the last versions `valid` and `invalidated_at`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.adapters.mem0 import memory as mem0
from langmem_adapter.arguments import optional_scope, parse_time
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
_MOST_LETTERS: Final = 80
_NO_TYPES: Final = frozenset({"__user__", "__entity__", "entity"})
_MICROSECONDS: Final = 10**14
"""`timestamp()` counts them in Memgraph, and milliseconds in Neo4j, of which so many are the year 5138."""

_SIDES: Final = ("s_", "t_")
_HAS_SCOPE: Final = " OR ".join(f"s.{name} IS NOT NULL" for name in SCOPE_FIELDS)
_ENDS: Final = ", ".join(f"{end[0]}.{name} AS {end}{name}" for end in _SIDES for name in ("name", *SCOPE_FIELDS))
# A mirror of ours may lie in the same database: its nodes carry the lineage of the memory that they are derived from.
_RELATIONS: Final = (
    f"MATCH (s)-[r]->(t) WHERE s.name IS NOT NULL AND ({_HAS_SCOPE}) AND s.lineage IS NULL AND t.lineage IS NULL{{narrowed}} "
    f"RETURN {_ENDS}, labels(s) AS s_labels, labels(t) AS t_labels, type(r) AS relation, properties(r) AS properties"
)


@planned
def import_graph(  # noqa: PLR0913 - memory, source, scope and callback
    memory: Memory | mem0.Memory | mem0.AsyncMemory,
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
    """Import the relations that Mem0 kept in Neo4j or Memgraph; a second import adds nothing.

    Each comes with the scope of its two ends, its mentions, and the time for which Mem0 believed it; no relation here ends. The
    node that Mem0 called by the `user_id` (or `agent_id`) is the user (or agent) here. Embeddings and nodes without a relation
    are not read; everything else that is refused is counted and reported. The graph server is only read.

    Args:
        memory: The memory that gets the relations in its graph: a `Memory`, ours or Mem0's.
        source: A `neo4j.Driver`, or an address: `"bolt://localhost:7687"`.
        user_id: Only relations of this user; likewise *agent_id* and *run_id*.
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
        StorageError: The database failed, or the server with a `GraphServerError`; import again to go on.
    """
    from langmem_adapter.mirror.target import (  # noqa: PLC0415 - its driver takes a while to import
        open_driver,
        server_name,
        session_options,
        translate_errors,
    )

    ours = memory.engine if isinstance(memory, mem0.Memory | mem0.AsyncMemory) else memory
    engine = parts_of(ours, "import_graph")
    within = optional_scope({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
    driver, made = open_driver(source, username, password)

    def run() -> GraphImportReport:
        try:
            with translate_errors(server_name(source)):
                rows = _read_rows(driver, database, within, session_options(driver))
                return import_relations(engine.ledger, rows, refused=refused, progress=progress)
        finally:
            if made:
                driver.close()

    return Plan.in_new_thread(run)


aimport_graph = awaited(import_graph)


def _read_rows(
    driver: Driver, database: str | None, within: Scope | None, how: Mapping[str, Any]
) -> Iterator[ImportRow]:
    named = {} if within is None else within.named
    narrowed = "".join(f" AND (s.{name} = ${name} OR t.{name} = ${name})" for name in named)
    with driver.session(database=database, default_access_mode="READ", fetch_size=_FETCHED, **how) as session:
        rows = session.run(_RELATIONS.format(narrowed=narrowed), named)
        yield from (_parse_row(number, row.data(), within) for number, row in enumerate(rows, 1))


def _parse_row(number: int, row: Mapping[str, Any], within: Scope | None) -> ImportRow:
    where, begins = f"relation {number}", f"({row['s_name']})-[{row['relation']}]->({row['t_name']})"[:_MOST_LETTERS]
    properties = row["properties"]
    try:
        if properties.get("valid") is False and properties.get("invalidated_at") is None:
            return PastRelation(where)
        scope = _scope(row, within)
        return StatedRelation(where, begins, scope, _triple(row, scope))
    except (InvalidInputError, ScopeError) as error:
        return RefusedRow(where, begins, str(error))


def _scope(row: Mapping[str, Any], within: Scope | None) -> Scope:
    """All that the two ends carry, so that a relation reaches no user who saw neither of them in Mem0."""
    values = {name: {str(row[end + name]) for end in _SIDES if row[end + name] is not None} for name in SCOPE_FIELDS}
    for name, each in values.items():
        if len(each) > 1:
            raise InvalidInputError(f"its two ends have different {name}s: {', '.join(sorted(each))}")
    scope = Scope(**{name: one for name, each in values.items() for one in each})
    if within is not None and not within.covers(scope):
        raise InvalidInputError(f"it belongs to {scope.named}, which lies outside {within.named}")
    return scope


def _triple(row: Mapping[str, Any], scope: Scope) -> Triple:
    properties = row["properties"]
    since = _time(properties.get("created_at", properties.get("created")), "created_at")
    until = None if properties.get("valid") is True else _time(properties.get("invalidated_at"), "invalidated_at")
    mentions = properties.get("mentions")
    is_count = isinstance(mentions, int) and not isinstance(mentions, bool) and mentions > 0
    return Triple(
        source=_name(row["s_name"], "source", scope),
        relation=parse_relation(row["relation"]),
        target=_name(row["t_name"], "target", scope),
        source_type=_type(row["s_labels"]),
        target_type=_type(row["t_labels"]),
        valid_from=None if since is not None and until is not None and since >= until else since,
        valid_to=until,
        mentions=mentions if is_count else 1,
    )


def _name(name: object, what: str, scope: Scope) -> str:
    """The name of an end, `SELF` or `ASSISTANT` where Mem0 wrote the id of the user or agent in its own spelling.

    Mem0 tells its model to say `user_id: alice, agent_id: guide` for the user, and lowers all names, blanks to underscores.
    """
    text = parse_name(name, what)
    ids = {SELF: ("user_id", scope.user_id), ASSISTANT: ("agent_id", scope.agent_id)}
    for label, (field, owner) in ids.items():
        spelled = None if owner is None else owner.lower().replace(" ", "_")
        if spelled is not None and (text == spelled or f"{text},".startswith(f"{field}:_{spelled},")):
            return label
    return text


def _type(labels: list[str]) -> str:
    kinds = [label for label in labels if label.casefold() not in _NO_TYPES]
    return parse_type(kinds[0].casefold(), "label") if kinds else ""


def _time(value: Any, what: str) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return parse_time(value / (1_000_000 if abs(value) >= _MICROSECONDS else 1_000), what)
    native = getattr(value, "to_native", None)  # a time of the driver's own, which counts nanoseconds
    return parse_time(value if native is None else native(), what).astimezone(UTC)
