"""PgBouncer, the pooler of Debian, in front of the Postgres server of the tests."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from sqlalchemy import URL, make_url

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["pooled"]

_OWN_STATEMENTS: Final = (1, 21)  # the release that follows prepared statements itself, unless told not to
_INI: Final = """[databases]
* = host={host} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = {clients}
"""


@contextmanager
def pooled(postgres_url: str, *, mode: str = "transaction", size: int = 3, clients: int = 100) -> Iterator[URL]:
    """The address of a database through PgBouncer; CI must have it, elsewhere tests that need it are skipped.

    Args:
        postgres_url: The database.
        mode: What a client has a connection of the server for: a `session`, a `transaction` or a `statement`.
        size: Connections to the server.
        clients: Connections of clients.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing("pgbouncer is not installed (apt-get install pgbouncer)")
    server, port = make_url(postgres_url), _free_port()
    folder = str(server.query["host"])
    owner = Path(folder).stat()  # PgBouncer refuses to run as root, and only the owner reaches the server's socket
    lines = _INI.format(host=folder, user=server.username, port=port, mode=mode, size=size, clients=clients)
    if _version(program) >= _OWN_STATEMENTS:
        lines += "max_prepared_statements = 0\n"
    with tempfile.NamedTemporaryFile("w", dir=Path(folder).parent, suffix=".ini") as file:
        file.write(lines)
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        as_owner: dict[str, Any] = (
            {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if not os.geteuid() else {}
        )
        process = subprocess.Popen([program, "-q", file.name], stderr=subprocess.DEVNULL, **as_owner)
        try:
            _wait_for(port, process)
            yield server.set(host="127.0.0.1", port=port, query={})
        finally:
            process.terminate()
            process.wait()


def _version(program: str) -> tuple[int, ...]:
    text = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"PgBouncer (\d+)\.(\d+)", text)
    return (0,) if found is None else (int(found[1]), int(found[2]))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, "pgbouncer has ended"
        time.sleep(0.05)
    pytest.fail("pgbouncer did not begin to listen")
