"""Settings from arguments, environment variables and configuration files."""

from __future__ import annotations

import difflib
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

import platformdirs
from pydantic import BeforeValidator, Field, SecretStr, TypeAdapter, ValidationError, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.forks import cached_property
from langmem_adapter.records.checks import check_server_url, parse_timezone, redact_url
from langmem_adapter.records.ranking import Ranking
from langmem_adapter.text import check_language

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

__all__ = [
    "BadReply",
    "ModelProfile",
    "Origin",
    "PrepareThreshold",
    "Settings",
    "chosen_database",
    "default_database",
    "neo4j_login",
    "user_file",
    "wants_content",
]

D = TypeVar("D")
BadReply: TypeAlias = Literal["keep", "raise"]
ModelProfile: TypeAlias = Literal["auto", "full", "small"]
Origin: TypeAlias = Literal["argument", "environment", "file", "default"]
PrepareThreshold: TypeAlias = Annotated[
    int | None, Field(ge=0), BeforeValidator(lambda value: None if str(value).casefold() == "none" else value)
]
"""How often a connection runs a statement before it prepares it, as URLs, files and the environment say it."""

_PREFIX: Final = "LANGMEM_ADAPTER_"
_NAME: Final = "langmem_adapter"
_CLI_VARIABLES: Final = frozenset({"user"})  # read by the command line as the default of -u
_RANKING: Final = """LANGMEM_ADAPTER_RANKING='{"words": 0.8}'"""
_TRUST: Final = "trust_folder"
_OF_DATABASE: Final = {"busy_timeout", "prepare_threshold", "pool_size", "max_overflow", "pool_timeout"}
_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Settings(BaseSettings):
    """All settings with their defaults.

    Precedence: argument, environment (`LANGMEM_ADAPTER_MODEL=…`), `./langmem_adapter.toml`, the user's own
    `langmem_adapter.toml` in the platform's configuration directory, default. Unknown names are errors, in every source.

    The file in the working directory may come from another person. It is read only with `trust_folder`; otherwise a warning
    names it.

    `repr`, `str` and errors show addresses without the passwords and keys in them.

    Args:
        database: SQLite path or SQLAlchemy URL; `None` means a file in the user's data directory.
        model: `"offline"` (rules), or a name for LangChain's `init_chat_model`, as `"openai:gpt-5-mini"`.
        embeddings: `"hash:512"` (offline), `"static"` (offline, too, and better; extra `static`), or a name for
            `init_embeddings`, as `"openai:text-embedding-3-small"`.
        base_url: An OpenAI-compatible server for both, as `"http://localhost:11434/v1"`; a key is then optional.
        api_key: Its key; never shown, logged or traced.
        model_timeout: Seconds for one call of a chat model or of embeddings, retries included; also for a model object.
        model_retries: Retries of such a call after a transient failure (too many requests, a server error, a lost connection).
            A model object with a client that retries (`max_retries`) is not retried here.
        model_profile: `"full"`, or `"small"` for models below a few billion parameters: short instructions, one call an add,
            rules decide. `"auto"` is full, and small once 3 of the model's last 10 replies were unusable; `doctor` shows it.
        model_max_tokens: Most tokens of a reply, for chat models made from a name; at least 8,192 if the model reasons. `None`:
            4,096, in the profile "small" 256. These models get temperature 0 where they support it.
        on_bad_reply: How to treat a reply that stays unusable after one repair: `"keep"` adds undecided facts, keeps complete
            items of a list that was cut off, or else the user's words (`refine` reads them again), each with a note; `"raise"`
            raises `ModelReplyError`, and nothing is written.
        embedding_batch: Most texts of one call of an embedding model. If a server takes fewer, calls are halved until they
            succeed, and that size is used while the memory is open.
        index: `"faiss"`, `"exact"` (plain numpy), or `"pgvector"` (inside Postgres).
        graph: Whether to keep a knowledge graph beside the memories.
        facts_from_tools: Whether tool results are a source of facts. By default they only help to understand, so that a text
            planted in a tool's result does not become a memory.
        language: The language for stemming, by its English name (`"german"`, see `langmem_adapter.text.LANGUAGES`), or
            `"none"`. It applies to Latin letters and to languages that share another script; Russian, Greek, Arabic and Hindi
            are recognised by their script. `None` keeps the database's language, at first English. The language belongs to the
            database: another one rewrites the words of all memories, for every program that uses it.
        timezone: The zone of "today" and "yesterday" when neither a timestamp nor the call names one: an IANA name, as
            `"Asia/Shanghai"`; `None` means the zone of the system.
        candidate_tokens: About how many tokens of memories new facts are compared with: the whole scope if it fits, else the
            best that fit in three fifths (the newest, the nearest by meaning, words and topic, other values of the same
            relation; of long texts the first 400 letters, and these are not rewritten). Ten facts of one add share them; each
            ten more have as many again, up to fifty.
        ranking: The weight of each kind of evidence in a search, as `Ranking(words=0.8)`; in a file a table `[ranking]`, in the
            environment JSON: `LANGMEM_ADAPTER_RANKING='{"words": 0.8}'`. Other weights keep their default.
        max_text: Most letters of a memory; a longer text is an error.
        max_message: Most letters of a message; a longer one is an error.
        attempts: How often an add is repeated when other writers change the same memories.
        trace_days: Days to keep traces of adds; 0 keeps none.
        busy_timeout: Seconds that a write waits for other writers, all attempts together; `inf` waits for ever.
        prepare_threshold: After how many runs a connection to Postgres prepares a statement; `None` (in the environment and in
            files `none`) never prepares, as PgBouncer needs in transaction mode. `?prepare_threshold=None` in the URL has
            precedence.
        pool_size: Connections to Postgres that stay open. This and the next two apply to a URL; an `Engine` has its own.
        max_overflow: More connections to Postgres while many calls run at once.
        pool_timeout: Seconds that a call waits for a connection.
        sweep_minutes: How long expired memories stay before they are deleted (their history stays), and how often an open
            memory checks; 0 and `inf` never delete them automatically.
        merge_after: Changes after which the vector index rewrites its files. It also does when it is closed and when the
            interpreter ends, if more than a hundredth changed, or as much was written and never searched.
        map_index: Whether the index file is memory-mapped, so that processes share it. `False` reads it into memory: for
            network disks, and for systems that cannot replace a mapped file.
        redis_url: A Redis server that caches conversations for half an hour, as `"redis://localhost:6379/0"` (extra `redis`).
        otel_scopes: Whether OpenTelemetry spans contain the scope (`user.id`, `gen_ai.agent.id`, `gen_ai.conversation.id`).
        trust_folder: Whether `./langmem_adapter.toml` is read. Set it as an argument, in the environment, or in the user's own
            file.

    Raises:
        InvalidInputError: A value does not fit, or a name is unknown; the message says where and what was meant.

    Example:
        >>> Settings(model="offline").embeddings
        'hash:512'
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, extra="forbid", frozen=True, hide_input_in_errors=True, ignored_types=(cached_property,)
    )

    database: str | None = None
    model: str = "offline"
    embeddings: str = "hash:512"
    base_url: str | None = None
    api_key: SecretStr | None = None
    model_timeout: float = Field(default=60.0, gt=0, le=86_400)
    model_retries: int = Field(default=2, ge=0, le=10)
    model_profile: ModelProfile = "auto"
    model_max_tokens: int | None = Field(default=None, ge=16, le=1_000_000)
    on_bad_reply: BadReply = "keep"
    embedding_batch: int = Field(default=256, ge=1, le=10_000)
    index: Literal["faiss", "exact", "pgvector"] = "faiss"
    graph: bool = False
    facts_from_tools: bool = False
    language: str | None = None
    timezone: str | None = None
    candidate_tokens: int = Field(default=2_000, ge=1_000, le=100_000)
    ranking: Ranking = Ranking()
    max_text: int = Field(default=100_000, ge=1)
    max_message: int = Field(default=1_000_000, ge=1)
    attempts: int = Field(default=20, ge=1, le=1000)
    trace_days: float = Field(default=30.0, ge=0, le=36_500)
    busy_timeout: float = Field(default=30.0, gt=0)
    prepare_threshold: PrepareThreshold = 5
    pool_size: int = Field(default=5, ge=1, le=10_000)
    max_overflow: int = Field(default=10, ge=0, le=10_000)
    pool_timeout: float = Field(default=30.0, gt=0, le=86_400)
    sweep_minutes: float = Field(default=60.0, ge=0)
    merge_after: int = Field(default=5_000, ge=1)
    map_index: bool = True
    redis_url: str | None = None
    otel_scopes: bool = False
    trust_folder: bool = False

    @field_validator("language")
    @classmethod
    def _check_language(cls, name: str | None) -> str | None:
        return _check(check_language, name)

    @field_validator("timezone")
    @classmethod
    def _check_timezone(cls, name: str | None) -> str | None:
        return _check(lambda zone: str(parse_timezone(zone)), name)

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, address: str | None) -> str | None:
        return _check(check_server_url, address)

    def __init__(self, **values: Any) -> None:
        _refuse_unknown_environment()
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InvalidInputError(_explain(error)) from None
        except SettingsError as error:  # a value of several parts that is no JSON
            raise InvalidInputError(f"{error}: write JSON, as {_RANKING}") from None
        self.__dict__["origins"] = self._origins(values)

    @cached_property
    def origins(self) -> Mapping[str, Origin]:
        """Where the value of each setting was taken from when these settings were made.

        Example:
            >>> Settings(graph=True).origins["graph"], Settings().origins["busy_timeout"]
            ('argument', 'default')
        """
        return self._origins(())

    def replace_with(self, **arguments: Any) -> Settings:
        """A copy of these settings with the arguments that are not `None`.

        Example:
            >>> Settings().replace_with(on_bad_reply="raise", model=None).on_bad_reply
            'raise'
        """
        chosen = {name: value for name, value in arguments.items() if value is not None}
        if not chosen:
            return self
        made = type(self)(**{name: getattr(self, name) for name in self.model_fields_set} | chosen)
        made.__dict__["origins"] = {**self.origins, **dict.fromkeys(chosen, "argument")}
        return made

    @property
    def database_options(self) -> dict[str, Any]:
        """The settings that a `Database` takes, by its names for them."""
        return self.model_dump(include=_OF_DATABASE)

    def _origins(self, arguments: Collection[str]) -> Mapping[str, Origin]:
        environment = {name.upper() for name in os.environ}

        def origin(name: str) -> Origin:
            if name not in self.model_fields_set:
                return "default"
            if name in arguments:
                return "argument"
            return "environment" if f"{_PREFIX}{name}".upper() in environment else "file"

        return {name: origin(name) for name in type(self).model_fields}

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse it as pydantic does, without repeating the value."""
        refused = InitErrorDetails(type="frozen_instance", loc=(name,), input=value)
        raise ValidationError.from_exception_data(type(self).__name__, [refused], hide_input=True)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """What `repr`, `str` and rich show: addresses without their secrets."""
        for name, value in super().__repr_args__():
            yield name, redact_url(value) if isinstance(value, str) else value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic-settings fixes the signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the same
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, environment, a trusted folder's file, the user's file; no `.env` file."""
        here, home = Path(f"{_NAME}.toml"), user_file()
        own = _TomlFile(settings_cls, home)
        if _trusts(env_settings() | init_settings(), own()):
            return init_settings, env_settings, _TomlFile(settings_cls, here), own
        with suppress(PermissionError):  # a folder without access has no file to warn of
            _warn_of(here, home)
        return init_settings, env_settings, own


class _TomlFile(TomlConfigSettingsSource):
    """A file of settings. Names the file that cannot be read, which tomllib does not."""

    def __init__(self, settings_cls: type[BaseSettings], file: Path) -> None:
        try:
            with suppress(FileNotFoundError, NotADirectoryError):  # not in a folder that may not be entered
                file.stat()
            super().__init__(settings_cls, file)
        except (ValueError, OSError) as error:  # no TOML, no UTF-8; no permission
            raise InvalidInputError(
                f"{file} cannot be read as TOML: {error}; correct it or set XDG_CONFIG_HOME"
            ) from None


def _trusts(values: dict[str, Any], own: dict[str, Any]) -> bool:
    try:
        return TypeAdapter(bool).validate_python(values.get(_TRUST, own.get(_TRUST, False)))
    except ValidationError:  # raised when all settings are validated
        return False


def _warn_of(here: Path, own: Path) -> None:
    """Warn that the folder's file is not read. It is not opened either: its author is unknown."""
    if not here.is_file() or not here.stat().st_size or (own.exists() and here.samefile(own)):
        return
    warning = (
        f"{here.absolute()}: ignored, because the file of a folder may come from another person; if it is yours, trust it with "
        f"{_PREFIX}{_TRUST.upper()}=true in the environment or --trust-folder, or move its lines to {own}"
    )
    warnings.warn(warning, UserWarning, stacklevel=6)  # where Settings is called


def _check(check: Callable[[str], str], value: str | None) -> str | None:
    try:
        return None if value is None else check(value)
    except InvalidInputError as error:
        raise PydanticCustomError("not_accepted", "{why}", {"why": str(error)}) from None


def chosen_database(database: D | None, settings: Settings) -> D | str | Path:
    """The database of the argument, else of the settings, else the default."""
    return (settings.database or default_database()) if database is None else database


def wants_content() -> bool:
    """Whether spans may hold texts: OpenTelemetry's `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` asks for them."""
    return os.environ.get(_CONTENT, "").casefold() in {"true", "span_only", "span_and_event"}


def neo4j_login(username: str | None, password: str | None) -> tuple[str, str] | None:
    """The login of a graph server; the variables of Neo4j's own programs complete it. `None` without a login."""
    password = os.environ.get("NEO4J_PASSWORD") if password is None else password
    if username is None and password is None:
        return None
    return username or os.environ.get("NEO4J_USERNAME", "neo4j"), password or ""


def user_file() -> Path:
    """The user's own configuration file."""
    return Path(platformdirs.user_config_dir(_NAME, appauthor=False), f"{_NAME}.toml")


def default_database() -> Path:
    """The default database: a file in the user's data directory."""
    return Path(platformdirs.user_data_dir(_NAME, appauthor=False)) / "memory.db"


def _refuse_unknown_environment() -> None:
    # pydantic-settings ignores misspelled variables; a setting without effect must be an error.
    names = _CLI_VARIABLES | set(Settings.model_fields)
    for name in os.environ:
        if name.upper().startswith(_PREFIX) and name[len(_PREFIX) :].lower() not in names:
            raise InvalidInputError(f"unknown setting {name} in the environment{_hint(name[len(_PREFIX) :].lower())}")


def _explain(error: ValidationError) -> str:
    problems: list[str] = []
    for part in error.errors():
        name = ".".join(map(str, part["loc"]))
        unknown = part["type"] == "extra_forbidden"
        fix = _hint(name) if unknown else f": {part['msg'].removeprefix('Value error, ')}"
        problems.append(f"{'unknown ' * unknown}setting {name!r}{fix}")
    return "; ".join(problems)


def _hint(name: str) -> str:
    near = difflib.get_close_matches(name, Settings.model_fields, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(Settings.model_fields))}"
