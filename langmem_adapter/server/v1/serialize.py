"""Records as answers: what `records.plain.as_data` makes of them, in the shapes of `answers`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langmem_adapter.records.plain import as_data

if TYPE_CHECKING:
    from langmem_adapter.records.graph import Neighbour, Relation, RelationChange
    from langmem_adapter.records.results import AddResult, Hit, SearchResults
    from langmem_adapter.records.work import Change
    from langmem_adapter.storage.conversations import ConversationInfo, StoredTurn

__all__ = ["added", "changed", "conversation", "hit", "neighbour", "relation", "relation_changed", "turn"]


def relation(shown: Relation) -> dict[str, Any]:
    """A relation, with its text."""
    return {**as_data(shown), "text": shown.text}


def relation_changed(change: RelationChange) -> dict[str, Any]:
    """What became of a relation."""
    return {"event": change.event, "relation": relation(change.relation)}


def neighbour(near: Neighbour) -> dict[str, Any]:
    """What is near, with the relations that lead to it."""
    return {**as_data(near), "relations": [relation(each) for each in near.relations]}


def changed(change: Change) -> dict[str, Any]:
    """What became of a fact."""
    return {**as_data(change), "relations": [relation_changed(each) for each in change.relations]}


def added(result: AddResult) -> dict[str, Any]:
    """What an add did."""
    usage = {name: value for name, value in as_data(result.usage).items() if name != "calls"}
    return {**as_data(result), "results": [changed(change) for change in result.results], "usage": usage}


def hit(found: Hit) -> dict[str, Any]:
    """A hit: its memory, with the score and what is shown of its text."""
    why = None if found.explanation is None else as_data(found.explanation)
    told = {"score": found.score, "relevance": found.relevance, "passage": found.passage, "explanation": why}
    return {**as_data(found.item), **told}


def found(hits: SearchResults) -> dict[str, Any]:
    """What a search gave, or why it gave nothing."""
    why = hits.abstained
    nearest = None if why is None or why.nearest is None else hit(why.nearest)
    abstained = None if why is None else {"reason": why.reason, "threshold": why.threshold, "nearest": nearest}
    return {"results": [hit(each) for each in hits], "abstained": abstained}


def conversation(info: ConversationInfo) -> dict[str, Any]:
    """A conversation, by its name."""
    told = as_data(info)
    named = told.pop("conversation")
    return {**told, "session_id": named.pop("session"), **named}


def turn(kept: StoredTurn) -> dict[str, Any]:
    """A turn, its message as JSON."""
    told = {name: value for name, value in as_data(kept).items() if name != "fingerprint"}
    return {**told, "message": json.loads(kept.message)}
