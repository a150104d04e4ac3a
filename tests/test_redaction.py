"""No password, token or key is shown, whatever its letters are and wherever in an address it stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sqlalchemy import make_url

from langmem_adapter.adapters import mem0
from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.adapters.classic import ConversationMemory
from langmem_adapter.adapters.middleware import MemoryMiddleware
from langmem_adapter.adapters.nodes import recall_node, remember_node
from langmem_adapter.adapters.retriever import MemoryRetriever
from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.cli.output import failure_of
from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError, LangmemAdapterError, ModelError
from langmem_adapter.maintenance.consolidate import Tidier
from langmem_adapter.memory.memory import Memory
from langmem_adapter.providers import Limits, provider_errors
from langmem_adapter.reasoning.llm import named_model
from langmem_adapter.records.checks import quoted, redact_url, redact_urls
from langmem_adapter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BEGIN, END = "zQ7v", "Kx9w"  # each half of a password is a secret, too
LETTERS = st.sampled_from("@:/?#[]%&=+;'\"\\ \n\x00éß龍℀\udc80") | st.characters()
PASSWORDS = st.text(LETTERS, max_size=12).map(lambda within: f"{BEGIN}{within}{END}")
HIDDEN = [  # in a query each of these is a secret
    "password", "passwd", "PASSWORD", "p%61ssword", "sslpassword", "api_key", "key", "token", "access_token", "secret",
    "client_secret", "sig", "pw", "auth", "credentials",
]  # fmt: skip


def closed(password: str, name: str = "password") -> list[str]:
    """Postgres at a port where nobody listens, with a password as people write it, rightly and wrongly."""
    encoded = quote(password, safe="", errors="surrogatepass")
    return [
        f"postgresql://ada:{password}@127.0.0.1:9/db",
        f"postgresql://ada:{encoded}@127.0.0.1:9/db",
        f"postgresql://ada:{encoded}@127.0.0.1:9/db?{name}={encoded}",
        f"postgresql://127.0.0.1:9/db?user=ada&{name}={encoded}&sslmode=prefer",
    ]


def refuse(told: Iterable[object]) -> None:
    for text in told:
        assert BEGIN not in str(text) and END not in str(text)


def raised(error: BaseException | None) -> list[str]:
    """What a traceback would say."""
    told = []
    while error is not None:
        told += [str(error), repr(error)]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return told


# ── any password ──────────────────────────────────────────────────────────────────────────────────────────────────────


@given(PASSWORDS, st.sampled_from(HIDDEN))
@example(f"{BEGIN}@h?key={END}", "key")
def test_no_address_shows_any_part_of_it(password: str, name: str) -> None:
    for address in (
        *closed(password, name),
        f"https://{password}@models.example/v1",
        f"https://ada:{password}@models.example/v1?{name}={quote(password, safe='', errors='surrogatepass')}#x",
        f"postgresql://db.example/app?{name}={password}",
        f"post gres://ada:{password}@db.example/app",
    ):
        refuse([redact_url(address), redact_urls(f"no answer from {address}, alas")])


@given(PASSWORDS, st.sampled_from(HIDDEN))
def test_settings_show_nothing_of_it(password: str, name: str) -> None:
    for database in closed(password, name):
        settings = Settings(database=database)
        refuse([repr(settings), str(settings)])
        with pytest.raises(ValidationError, match="frozen") as frozen:
            settings.database = database
        with pytest.raises(ValidationError) as unfit:
            Settings.model_validate(database)
        refuse([frozen.value, unfit.value])
    for server in (f"http://ada:{password}@127.0.0.1:9/v1", f"http://127.0.0.1:9/v1?{name}={password}", password):
        try:
            refuse([repr(Settings(base_url=server))])
        except InvalidInputError as error:
            refuse(raised(error))


@hypothesis_settings(max_examples=20)
@given(PASSWORDS)
@example(f"{BEGIN}\udc80{END}")
@example(f"{BEGIN}@h/{END}")
@example(f"{BEGIN}@h?a={END}")
@example(f"9/db?password={BEGIN}@{END}")
def test_a_database_that_cannot_be_opened_says_nothing_of_it(password: str) -> None:
    for database in (*closed(password), f"sqlite://ada:{password}@/x.db", f"mysql://ada:{password}@127.0.0.1/x"):
        with pytest.raises(LangmemAdapterError) as caught:
            Memory(database)
        refuse(raised(caught.value))


# ── any secret, in any part, at any name ──────────────────────────────────────────────────────────────────────────────


def misread(secret: str) -> list[str]:
    """What looks like an address and is none, or holds a secret where no password belongs."""
    return [
        f"postgresql:/ada:{secret}@h/x",
        f"postgresql:ada:{secret}@h/x",
        f"//ada:{secret}@h/x",
        f"ada:{secret}@h/x",
        f"host=127.0.0.1 password={secret}",
        f"password = {secret} host=h",
        f"file:x.db?password={secret}",
        f"sqlite+aiosqlite:///x.db?k={secret}",
        f"postgresql://127.0.0.1:9/db?nosuchoption={secret}",
        f"postgresql://127.0.0.1:9/db?options=-c%20my.password%3D{secret}",
        f"postgresql://127.0.0.1:9/db?{secret}",
        f"http://h/v1?pw={secret}",
        f"http://h/v1?auth={secret}",
        f"http://h/v1#{secret}",
    ]


class Long:
    """What an error has to cut."""

    def __init__(self, address: str) -> None:
        self.address = address

    def __repr__(self) -> str:
        return f"Long({self.address}{'x' * 300})"


INTEGRATIONS: dict[str, Callable[[Any], object]] = {
    "MemoryStore": MemoryStore,
    "SQLChatMessageHistory": lambda given: SQLChatMessageHistory("s", given),
    "recall_node": recall_node,
    "remember_node": remember_node,
    "MemoryMiddleware": MemoryMiddleware,
    "MemoryRetriever": lambda given: MemoryRetriever(memory=given),
    "ConversationMemory": lambda given: ConversationMemory(memory=given),
    "Tidier": Tidier,
    "settings": lambda given: Memory(":memory:", settings=given),
    "graph": lambda given: Memory(":memory:", graph=given),
    "after": lambda given: Memory(":memory:").get_all(user_id="ann", after=given),
    "index": lambda given: Memory(":memory:", index=given),
    "embeddings": lambda given: Memory(":memory:", embeddings=given),
    "language": lambda given: Settings(language=given),
    "config": lambda given: mem0.Memory.from_config({"version": given}),
    "provider": lambda given: mem0.Memory.from_config({"vector_store": {"provider": given, "config": {}}}),
}


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_no_integration_repeats_a_secret_that_it_refuses(name: str) -> None:
    right, *_, wrong = addresses = [*closed(f"{BEGIN}x{END}"), *misread(f"{BEGIN}x{END}")]
    of_other_kinds = [kind(address) for address in (right, wrong) for kind in (Path, str.encode, Long)]
    for given_one in (*addresses, *of_other_kinds, make_url(addresses[2]), [right], {"url": wrong}):
        with pytest.raises((LangmemAdapterError, ValidationError)) as caught:
            INTEGRATIONS[name](given_one)
        refuse(raised(caught.value))


@given(PASSWORDS)
@example(f"{BEGIN}=={END}")
@example(f"{BEGIN} {END}")
def test_no_part_of_what_looks_like_an_address_is_shown(secret: str) -> None:
    encoded = quote(secret, safe="", errors="surrogatepass")
    for address in misread(secret):
        refuse([redact_url(address), repr(Settings(database=address)), quoted([address]), quoted({"url": address})])
    for address in (*misread(encoded), f"postgresql://ada:{encoded}/db"):
        refuse([redact_urls(f"it is '{address}', so"), quoted(Path(address)), quoted(address.encode())])
    for address in closed(encoded.replace("%20", " ")):
        refuse([redact_urls(f"it is '{address}', so")])


def test_what_is_nearly_an_address_names_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for address in misread(f"{BEGIN}x{END}"):
        with pytest.raises(LangmemAdapterError) as caught:
            Memory(address)
        refuse(raised(caught.value))
    assert not list(tmp_path.iterdir())


# ── where it could still slip through ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.postgres
def test_what_is_open_says_nothing_of_it(postgres_url: str) -> None:
    url = make_url(postgres_url).update_query_dict({"password": f"{BEGIN}@/{END}", "sslpassword": END})
    with Memory(url, embeddings="hash:64") as memory:
        memory.add("I like tea", user_id="ann")
        refuse([repr(memory), memory.location])
        assert "host=" in memory.location
    with (
        Memory(url, embeddings="hash:128") as memory,
        pytest.raises(EmbeddingMismatchError, match="reindex -d postgresql") as caught,
    ):
        memory.search("tea", user_id="ann")
    refuse(raised(caught.value))


@pytest.mark.parametrize("server", [f"http://ada:{BEGIN}/{END}@127.0.0.1:9/v1", f"ada:{END}@127.0.0.1/v1"])
def test_a_server_whose_address_cannot_be_read_is_refused_with_the_fix(server: str) -> None:
    config = {"llm": {"provider": "openai", "config": {"model": "any", "openai_base_url": server}}}
    for make in (lambda: Settings(base_url=server), lambda: mem0.Memory.from_config(config)):
        with pytest.raises(InvalidInputError, match=r"http://localhost:11434/v1.*%40") as caught:
            make()
        refuse(raised(caught.value))


def test_a_model_or_index_name_that_is_a_url_is_redacted() -> None:
    address = f"https://ada:{BEGIN}@models.example/v1"
    for make in (
        lambda: named_model(address, Settings()),
        lambda: Memory(":memory:", embeddings=address),
        lambda: Memory(":memory:", index=address),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInputError, match=r"https://\*\*\*@models\.example") as caught:
            make()
        refuse(raised(caught.value))


@pytest.mark.parametrize(
    "config",
    [
        {"llm": {"provider": {"api_key": BEGIN}}},
        {"llm": {"provider": "openai", "config": {"model": "any", "api_key": {"key": BEGIN}}}},
        {"llm": {"provider": "openai", "config": {
            "model": "any", "base_url": f"http://{BEGIN}@a/", "openai_base_url": f"http://{BEGIN}@b/"}}},
        {"history_db_path": f"postgresql://ada:{BEGIN}@h/db", "vector_store": {"provider": "faiss", "config": {"path": "x"}}},
    ],
)  # fmt: skip
def test_a_configuration_of_mem0_that_is_refused_is_not_repeated(config: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        mem0.Memory.from_config(config)
    refuse(raised(caught.value))


def test_the_command_line_tells_a_clients_error_without_it() -> None:
    asked = httpx.Request("GET", f"http://ada:{BEGIN}@models.example/v1?api_key={END}")
    with pytest.raises(ModelError, match=r"models\.example") as caught:
        Limits().plan(httpx.Response(404, request=asked).raise_for_status).run()
    refuse([str(caught.value), caught.value.brief, failure_of(caught.value).message])
    with pytest.raises(InvalidInputError, match="models") as told, provider_errors("a model", form=""):
        raise ValueError(str(caught.value.__cause__))
    refuse(raised(told.value))


# ── what is no secret stays ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("memory.db", "memory.db"),
        ("me@home/100%.db", "me@home/100%.db"),
        (":memory:", ":memory:"),
        ("sqlite:////home/ada/memory.db", "sqlite:////home/ada/memory.db"),
        ("postgresql+psycopg://ada@[::1]:5432/db?sslmode=require", "postgresql+psycopg://ada@[::1]:5432/db?sslmode=require"),
        ("postgresql://ada%40x:pw@h/db?host=%2Frun&password=pw", "postgresql://ada%40x:***@h/db?host=%2Frun&***"),
        ("http://localhost:11434/v1", "http://localhost:11434/v1"),
        ("http://ada:pw@h/v1?version=2", "http://***@h/v1?version=2"),
    ],
)  # fmt: skip
def test_an_address_is_shown_as_far_as_it_may_be(address: str, told: str) -> None:
    assert redact_url(address) == told
    assert redact_urls(f"see '{address}' there") == f"see '{told}' there" or told.endswith("***")


@pytest.mark.parametrize("user", ["ada", "ada%40x", "ada@server"])
def test_an_address_that_was_right_is_taken_still(user: str, tmp_path: Path) -> None:
    with pytest.raises(LangmemAdapterError, match=r"127\.0\.0\.1:9/db.*refused"):
        Memory(f"postgresql://{user}:a/b%40c@127.0.0.1:9/db")
    for path in (tmp_path / "a@b.db", f"sqlite:///{tmp_path}/me@home/x@y.db"):
        with Memory(path) as memory:
            assert "@" in memory.location
