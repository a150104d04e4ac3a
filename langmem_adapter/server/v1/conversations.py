"""Conversations: what was said, word for word, and what was made of it."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from langmem_adapter.records.scope import Scope
from langmem_adapter.server.calls import Reads
from langmem_adapter.server.problems import OURS
from langmem_adapter.server.v1 import answers, requests
from langmem_adapter.storage import conversations
from langmem_adapter.storage import conversations as notes
from langmem_adapter.storage.conversations import Conversation, TurnFilter
from langmem_adapter.twins import beside

router = APIRouter(prefix=OURS, tags=["conversations"])


@router.get("/conversations", summary="List conversations", response_model=answers.ConversationPage)
async def listed(call: Reads, asked: Annotated[requests.PageQuery, Query()]) -> Any:
    """The conversations within a scope, the latest first, page by page."""
    scope = Scope(**call.whose(asked))
    found, following = await beside(
        call.memory.parts.reading, conversations.listed, scope, k=asked.k, after=asked.after
    )
    return {"items": found, "next": following}


@router.get(
    "/conversations/{session_id:path}/turns", summary="Turns of a conversation", response_model=answers.TurnPage
)
async def turns(call: Reads, session_id: str, asked: Annotated[requests.ConversationQuery, Query()]) -> Any:
    """The turns of a conversation, which is named by its session and its exact scope; the latest page first."""
    conversation = Conversation(session_id, Scope(**call.whose(asked)))
    which = TurnFilter(last=asked.k + 1, before=asked.before)
    found = await beside(call.memory.parts.reading, conversations.read, conversation, which)
    shown = found[-asked.k :]
    return {"items": shown, "next": shown[0].position if len(found) > asked.k else None}


@router.get(
    "/conversations/{session_id:path}/notes",
    summary="Notes of a conversation",
    response_model=answers.NoteList,
)
async def noted(call: Reads, session_id: str, asked: Annotated[requests.NoteQuery, Query()]) -> Any:
    """What was made of a conversation: its summaries, or other notes."""
    conversation = Conversation(session_id, Scope(**call.whose(asked)))
    return {"items": await beside(call.memory.parts.reading, notes.read_notes, conversation, asked.kind)}
