"""The messages of a session for `RunnableWithMessageHistory`, kept in the same database as the memories.

LangChain calls both classes deprecated (removal in 2.0); new programs use `create_agent` with
`langmem_adapter.adapters.middleware` and `langmem_adapter.adapters.checkpointer`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Unpack

from langchain_core.chat_history import BaseChatMessageHistory

from langmem_adapter.arguments import bounded, optional_scope
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.scope import ScopeArguments
from langmem_adapter.scoping import check_owner
from langmem_adapter.storage import conversations
from langmem_adapter.storage.conversations import Conversation, TurnFilter, drafts_of, messages_of
from langmem_adapter.twins import Plan, awaited, declare_options, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.messages import BaseMessage
    from sqlalchemy import Connection

    from langmem_adapter.memory.memory import Memory

__all__ = ["SQLChatMessageHistory"]


class SQLChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session, in order, from any thread, task or process.

    A message comes back as it was given, with its tool calls, content blocks, ids and usage. One that could not is refused.
    (LangChain logs what goes wrong when `RunnableWithMessageHistory` writes, and goes on.)

    Args:
        session_id: Name of the session.
        memory: Where the messages are kept; `memory.purge` erases the sessions of a scope.
        last: Read only so many, the latest; `None` reads all. What is older stays.
        user_id: The user; likewise *agent_id* and *run_id*. Sessions of one name but of different users are different ones.

    Raises:
        InvalidInputError: The session's name is blank, or *last* is no number from 1 to 10,000.

    Example:
        >>> from langmem_adapter import Memory
        >>> memory = Memory(":memory:")
        >>> history = SQLChatMessageHistory("monday", memory, user_id="alice@example.com")
        >>> history.add_user_message("Hi!")
        >>> history.add_ai_message("Hello!")
        >>> [message.text for message in history.messages]
        ['Hi!', 'Hello!']
        >>> SQLChatMessageHistory("monday", memory, user_id="bob").messages
        []
        >>> memory.close()
    """

    @declare_options(ScopeArguments)
    def __init__(
        self,
        session_id: str,
        memory: Memory,
        *,
        last: int | None = None,
        **scope: Unpack[ScopeArguments],
    ) -> None:
        parts = parts_of(memory, "SQLChatMessageHistory(session_id, memory)")
        self._database, self._read = parts.database, parts.reading
        self._conversation = Conversation(session_id, optional_scope(scope))
        self._last = None if last is None else bounded(last, "last")

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override] # LangChain declares an attribute, and means this
        """The messages, oldest first."""
        return self.get_messages()

    @planned
    def get_messages(self) -> Plan[list[BaseMessage]]:
        """The messages, oldest first."""
        which = TurnFilter(last=self._last)
        return Plan(lambda: messages_of(self._read(conversations.read, self._conversation, which)))

    aget_messages = awaited(get_messages)  # type: ignore[arg-type]  # mypy takes `self` from the base class

    @planned
    def add_messages(self, messages: Sequence[BaseMessage]) -> Plan[None]:
        """Add messages at the end, all or none, in one transaction; what waits at the same time shares its commit.

        Args:
            messages: Messages of any kind that LangChain has.

        Raises:
            InvalidInputError: One cannot be kept as it is, or names another owner than the session has; the text says which,
                and why.
            StorageError: The database refused or failed; nothing was added.
        """
        drafts, owner = drafts_of(messages), self._conversation.scope
        for number, message in enumerate(messages, start=1):
            if owner is not None:  # what the session does not name is no loss: the message keeps it
                check_owner(message, owner, f"message {number}", fields=owner.named)
        return self._write(partial(conversations.append, conversation=self._conversation, drafts=drafts))

    aadd_messages = awaited(add_messages)  # type: ignore[arg-type]  # mypy takes `self` from the base class

    @planned
    def clear(self) -> Plan[None]:
        """Remove every message of the session."""
        return self._write(partial(conversations.clear, conversation=self._conversation))

    aclear = awaited(clear)  # type: ignore[arg-type]  # mypy takes `self` from the base class

    def _write(self, work: Callable[[Connection], int]) -> Plan[None]:
        return Plan.calling(self._database.write, self._database.awrite, work).then(lambda _: None)
