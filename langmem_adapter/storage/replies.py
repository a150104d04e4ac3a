"""Which of the last ten replies of a chat model could be used: kept in the database; a model that is read costs no row."""

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
_COUNTED, _POOR, _BAD = 10, 3, "x"


class ReplyLog:
    """The last ten replies of a model."""

    def __init__(self, database: Database, model: str) -> None:
        name = model.encode(errors="replace").decode().replace("\x00", "?")  # as databases keep it
        self._database, self._key = database, f"{_KEY}{name}"[:64]
        with database.read() as connection:
            self._recent = get(connection, self._key) or ""

    @property
    def is_clean(self) -> bool:
        """Whether all of them could be used."""
        return _BAD not in self._recent

    @property
    def is_poor(self) -> bool:
        """Whether three or more could not."""
        return self._recent.count(_BAD) >= _POOR

    def note(self, usable: bool) -> None:  # noqa: FBT001 - what there is to say
        """Add a reply."""
        self._recent = self._database.write(partial(self._add, "." if usable else _BAD))

    def _add(self, reply: str, connection: Connection) -> str:
        # Contract: a reply is read and written in one transaction, so that none of another process is lost.
        # tests/reasoning/test_profiles.py::test_replies_of_two_at_once_are_all_counted
        recent = f"{get(connection, self._key) or ''}{reply}"[-_COUNTED:]
        put(connection, self._key, recent) if _BAD in recent else drop(connection, self._key)
        return recent


def poor_models(connection: Connection) -> dict[str, int]:
    """The models of whose last ten replies three or more could not be used, and how many."""
    rows = connection.execute(select(meta.c.key, meta.c.value).where(meta.c.key.startswith(_KEY))).all()
    return {key.removeprefix(_KEY): value.count(_BAD) for key, value in rows if value.count(_BAD) >= _POOR}
