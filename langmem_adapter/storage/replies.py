"""Which of the last replies of a chat model could be used: kept in the database, so that it outlives the process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from langmem_adapter.storage.meta import drop, get, put
from langmem_adapter.storage.tables import meta

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from langmem_adapter.storage.database import Database

__all__ = ["ReplyLog", "poor_models"]

_KEY: Final = "replies of "
_LONGEST: Final = 64
_COUNTED: Final = 10
_POOR: Final = 3
_BAD: Final = "x"


class ReplyLog:
    """The last ten replies of a model; a model all of which could be used costs no row and no write."""

    def __init__(self, database: Database, model: str) -> None:
        self._database = database
        self._key = f"{_KEY}{model}"[:_LONGEST]
        with database.read() as connection:
            self._recent = get(connection, self._key) or ""

    @property
    def is_clean(self) -> bool:
        """Whether all of them could be used."""
        return _BAD not in self._recent

    @property
    def is_poor(self) -> bool:
        """Whether three of them or more could not."""
        return self._recent.count(_BAD) >= _POOR

    def note(self, usable: bool) -> None:  # noqa: FBT001 - what there is to say
        """Add a reply."""
        self._recent = self._database.write(partial(self._add, "." if usable else _BAD))

    def _add(self, reply: str, connection: Connection) -> str:
        recent = f"{get(connection, self._key) or ''}{reply}"[-_COUNTED:]
        if _BAD in recent:
            put(connection, self._key, recent)
        else:
            drop(connection, self._key)
        return recent


def poor_models(connection: Connection) -> dict[str, int]:
    """The models whose replies could not be used three times or more, and how often of their last ten."""
    rows = connection.execute(select(meta.c.key, meta.c.value).where(meta.c.key.startswith(_KEY))).all()
    return {key.removeprefix(_KEY): count for key, value in rows if (count := value.count(_BAD)) >= _POOR}
