"""What is known about somebody, as the people of a town know each other: from memories and relations, with their ids.

After MetaGPT's Stanford town, whose agents reflect on nodes of subject, predicate and object. No model is asked here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.arguments import bounded, filled
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.scope import Scope
from langmem_adapter.text import is_cjk
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.graph import Relation
    from langmem_adapter.records.results import Hit

__all__ = ["Acquaintance", "Reflection", "areflect", "reflect"]

_READ: Final = 1_000  # facts with the letters of a name, among which those that name it are looked for


@dataclass(frozen=True, slots=True)
class Acquaintance:
    """A relation between two, with its id and those of the memories that say so; none where it was written by hand."""

    subject: str
    predicate: str
    object: str
    id: str
    filling: tuple[str, ...]

    def summary(self) -> tuple[str, str, str]:
        """Subject, predicate and object."""
        return self.subject, self.predicate, self.object


@dataclass(frozen=True, slots=True)
class Reflection:
    """What is known about somebody.

    Attributes:
        about: Who or what.
        nodes: The relations that hold, the latest first.
        hits: The facts that name it, best first.
    """

    about: str
    nodes: tuple[Acquaintance, ...]
    hits: tuple[Hit, ...]

    @property
    def text(self) -> str:
        """A line for each, with its id; what a relation rests on behind it."""
        told = [f"- {' '.join(node.summary())} [{', '.join((node.id, *node.filling))}]" for node in self.nodes]
        return "\n".join([*told, *(f"- {hit.text} [{hit.id}]" for hit in self.hits)])


@planned
def reflect(
    memory: Memory,
    about: str,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    k: int = 10,
) -> Plan[Reflection]:
    """What is known about somebody or something, now.

    Args:
        memory: Where to look; relations are there with `Memory(graph=True)`, or written by hand.
        about: A name; that of the user or the agent means all that is known, since their facts rarely name them.
        user_id: Whose memory; at least one of the three is needed, the others are then free.
        agent_id: The agent.
        run_id: The run or session.
        k: At most so many facts, and so many relations.

    Raises:
        ScopeError: No field of the scope is given, or one is blank.
        InvalidInputError: An argument cannot be used.

    Example:
        >>> from langmem_adapter import Memory
        >>> from langmem_adapter.conversation import reflect
        >>> memory = Memory(":memory:")
        >>> _ = memory.graph.add("Klaus", "knows", "Maria", agent_id="town")
        >>> _ = memory.add("Klaus paints.", agent_id="town", infer=False)
        >>> print(reflect(memory, "Klaus", agent_id="town").text)
        - Klaus knows Maria [...]
        - Klaus paints. [...]
        >>> memory.close()
    """
    parts_of(memory, "reflect")
    scope, who, most, graph = Scope(user_id, agent_id, run_id), filled(about, "about"), bounded(k), memory.graph
    own = who in {scope.user_id, scope.agent_id}
    where = {"memory_type": None} if own else {"memory_type": None, "text": {"icontains": who}}
    named: dict[str, Any] = scope.named
    wide = most if own else max(most, _READ)
    found = Plan.calling(memory.search, memory.asearch, who, filters=where, k=wide, **named)
    name = re.compile(
        re.escape(who) if is_cjk(who) else rf"(?<!\w){re.escape(who)}(?!\w)", re.IGNORECASE
    )  # Ann, no Anna

    def put_together(known: Sequence[Relation]) -> Plan[Reflection]:
        nodes = tuple(Acquaintance(each.source, each.relation, each.target, each.id, each.memory_ids) for each in known)
        told = found.then(lambda hits: [hit for hit in hits if own or name.search(hit.text)][:most])
        return told.then(lambda hits: Reflection(who, nodes, tuple(hits)))

    related = Plan.calling(graph.relations, graph.arelations, entity=who, k=most, **named)
    return related.and_then(put_together)


areflect = awaited(reflect)
