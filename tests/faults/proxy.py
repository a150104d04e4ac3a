"""A way to a server that can be cut: what goes through it breaks off, and nobody comes in until it is mended."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

from sqlalchemy import make_url

__all__ = ["Proxy"]


class Proxy:
    """A port of this machine that leads to a server, while a `with` block lasts.

    Args:
        behind: The server: the folder of a Postgres socket, or another port.
        opening: What the server gets to see in the place of the first bytes of each client, as many of them.
    """

    def __init__(self, behind: str | int, *, opening: bytes = b"") -> None:
        self._behind = behind
        self._opening = opening
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._through: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        with socket.create_server(("127.0.0.1", 0)) as door:
            self.port: int = door.getsockname()[1]

    def __enter__(self) -> Self:
        self._thread.start()
        self.mend()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def url(self, direct: str) -> str:
        """The same database by way of this port."""
        url = make_url(direct).set(host="127.0.0.1", port=self.port, query={"sslmode": "disable"})
        return url.render_as_string(hide_password=False)

    def cut(self) -> None:
        """End what goes through, and refuse what comes."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def mend(self) -> None:
        """Let in again."""
        asyncio.run_coroutine_threadsafe(self._mend(), self._loop).result()

    async def _mend(self) -> None:
        self._server = await asyncio.start_server(self._lead, "127.0.0.1", self.port, reuse_address=True)

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._through:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._behind, int):
            return await asyncio.open_connection("127.0.0.1", self._behind)
        return await asyncio.open_unix_connection(_socket_in(self._behind))

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await self._reach()
        await reader.readexactly(len(self._opening))
        ours.write(self._opening)
        await asyncio.gather(self._pass(reader, ours), self._pass(theirs, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._through.add(writer)
        with suppress(OSError):
            while part := await reader.read(65_536):
                writer.write(part)
                await writer.drain()
        self._through.discard(writer)
        writer.close()


def _socket_in(folder: str) -> str:
    return str(next(path for path in Path(folder).glob(".s.PGSQL.*") if path.is_socket()))
