"""Conversations: what was said, word for word, and what was made of it."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from langmem_adapter.memory import Memory
from langmem_adapter.records.plain import as_data
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.auth import Principal
from langmem_adapter.server.problems import OURS
from langmem_adapter.server.v1 import answers, requests, telling
from langmem_adapter.server.v1.requests import named
from langmem_adapter.storage import conversations, notes
from langmem_adapter.storage.conversations import Conversation, Which
from langmem_adapter.twins import beside

__all__ = ["router"]


def router(memory: Memory, caller: Any) -> APIRouter:
    """The routes.

    Args:
        memory: What is served.
        caller: The default of a parameter that gets the `Principal`.
    """
    routes = APIRouter(prefix=OURS, tags=["conversations"])

    async def reading(read: Any, *arguments: Any, **options: Any) -> Any:
        return await beside(memory.engine.reading, read, *arguments, **options)

    @routes.get("/conversations", summary="List conversations", response_model=answers.ConversationPage)
    async def listed(asked: Annotated[requests.Paged, Query()], principal: Principal = caller) -> Any:
        """The conversations within a scope, the latest first, page by page."""
        principal.need("read")
        scope = Scope(**principal.narrowed(named(asked)))
        found, following = await reading(conversations.listed, scope, k=asked.k, after=asked.after)
        return {"items": [telling.conversation(info) for info in found], "next": following}

    @routes.get(
        "/conversations/{session_id:path}/turns", summary="Turns of a conversation", response_model=answers.TurnPage
    )
    async def turns(
        session_id: str, asked: Annotated[requests.ConversationPage, Query()], principal: Principal = caller
    ) -> Any:
        """The turns of a conversation, which is named by its session and its exact scope; the latest page first."""
        principal.need("read")
        conversation = Conversation(session_id, Scope(**principal.narrowed(named(asked))))
        which = Which(last=asked.k + 1, before=asked.before)
        found = await reading(conversations.read, conversation, which)
        shown = [telling.turn(turn) for turn in found[-asked.k :]]
        return {"items": shown, "next": shown[0]["position"] if len(found) > asked.k else None}

    @routes.get(
        "/conversations/{session_id:path}/notes", summary="Notes of a conversation", response_model=answers.NoteList
    )
    async def noted(
        session_id: str, asked: Annotated[requests.NoteList, Query()], principal: Principal = caller
    ) -> Any:
        """What was made of a conversation: its summaries, or other notes."""
        principal.need("read")
        conversation = Conversation(session_id, Scope(**principal.narrowed(named(asked))))
        return {"items": [as_data(note) for note in await reading(notes.read, conversation, asked.kind)]}

    return routes
