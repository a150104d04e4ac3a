"""The Cypher of the mirror, in the two dialects that differ where the schema is made.

Values are parameters, always. What cannot be one, a label or the type of a relation, is quoted here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from neo4j import Driver

__all__ = ["MARK", "Dialect", "Statements", "dialect_of", "identifier", "schema"]

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
    """The dialect that a server's agent tells."""
    return "memgraph" if "memgraph" in driver.get_server_info().agent.casefold() else "neo4j"


def schema(dialect: Dialect, label: str) -> list[str]:
    """The statements that make constraints and indexes, where they are missing."""
    # Where a name is taken Neo4j makes no constraint, and does not say so: every label has names of its own.
    names = {"label": identifier(label), "mark": MARK, "prefix": f"langmem_{label}"}
    return [statement.format(**names) for statement in (_MEMGRAPH if dialect == "memgraph" else _NEO4J)]


def identifier(name: str) -> str:
    r"""A label or type as it stands in Cypher.

    Neo4j reads `\u0060` as a backtick before it reads anything else, so a backslash is itself written as an escape.

    Example:
        >>> identifier("a`b"), identifier("\\u0060 DELETE n")
        ('`a``b`', '`\\u005Cu0060 DELETE n`')
    """
    return "`{}`".format(name.replace("\\", "\\u005C").replace("`", "``"))


class Statements:
    """What is said to a server again and again, of nodes with a label; *within* narrows a mirror to a scope's properties."""

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

        They are looked for at their targets: the user is the source of most, and to go through all of his for each one takes a
        square of time where a server begins at the end that is named first.
        """
        return (
            f"UNWIND $rows AS row MATCH (s:{self._row}source}}) MATCH (t:{self._row}target}}) "
            f"MERGE (t)<-[r:{identifier(name)} {{lineage: $lineage, pk: row.pk}}]-(s) SET r += row.properties"
        )
