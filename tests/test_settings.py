"""Settings: where they come from, who wins, and what is refused."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from pydantic import SecretStr, ValidationError

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.ranking import Ranking
from langmem_adapter.settings import Settings, default_database

SECRET = "sk-very-secret"  # noqa: S105 - not one


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in the working directory, not yet written."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder / "langmem_adapter.toml"


@pytest.fixture
def own(here: Path) -> Path:
    """The user's own file, not yet written."""
    folder = Path(platformdirs.user_config_dir("langmem_adapter", appauthor=False))
    folder.mkdir(parents=True)
    return folder / "langmem_adapter.toml"


def test_without_anything_it_runs_offline(here: Path) -> None:
    settings = Settings()
    assert (settings.model, settings.embeddings, settings.database, settings.api_key) == (
        "offline", "hash:512", None, None,
    )  # fmt: skip


def test_each_source_wins_over_the_next(here: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own.write_text(
        'database = "own"\nindex = "exact"\ncandidate_tokens = 1_700\ntrace_days = 5.0\ntrust_folder = true\n'
    )
    assert Settings().database == "own"
    here.write_text('database = "here"\ncandidate_tokens = 1_800\ntrace_days = 6.0\n')
    assert (Settings().database, Settings().index) == ("here", "exact")
    monkeypatch.setenv("LANGMEM_ADAPTER_DATABASE", "environment")
    monkeypatch.setenv("LANGMEM_ADAPTER_TRACE_DAYS", "7.0")
    got = Settings(database="argument")
    assert (got.database, got.trace_days, got.candidate_tokens, got.index, got.attempts) == (
        "argument",
        7,
        1_800,
        "exact",
        20,
    )
    assert Settings().database == "environment"
    names = ("database", "trace_days", "candidate_tokens", "index", "attempts")
    assert [got.origins[name] for name in names] == ["argument", "environment", "file", "file", "default"]


def test_the_users_own_file_lies_where_the_platform_says(
    own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own.write_text('model = "own"\n')
    assert Settings().model == "own"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "elsewhere"))
    assert Settings().model == "offline"


def test_values_of_the_environment_are_read_as_what_they_mean(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"candidate_tokens": "1900", "BUSY_TIMEOUT": "1.5", "index": "exact"}.items():
        monkeypatch.setenv(f"LANGMEM_ADAPTER_{name}", value)
    got = Settings()
    assert (got.candidate_tokens, got.busy_timeout, got.index) == (1_900, 1.5, "exact")


def test_prepare_threshold_is_a_number_or_none_in_every_source(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (Settings().prepare_threshold, Settings(prepare_threshold=None).prepare_threshold) == (5, None)
    own.write_text('prepare_threshold = "none"\npool_size = 3\n')
    assert (Settings().prepare_threshold, Settings().pool_size) == (None, 3)
    for value, wanted in {"None": None, "none": None, "0": 0, "7": 7}.items():
        monkeypatch.setenv("LANGMEM_ADAPTER_PREPARE_THRESHOLD", value)
        assert Settings().prepare_threshold == wanted


def test_a_dotenv_file_is_not_read_behind_anybodys_back(here: Path) -> None:
    (here.parent / ".env").write_text("LANGMEM_ADAPTER_MODEL=dotenv\nOPENAI_API_KEY=x\n")
    assert Settings().model == "offline"


# ── the folder's file, which may be somebody else's ───────────────────────────────────────────────────────────────────

LEADS_OUT = {
    "api_key": SECRET,
    "base_url": f"http://ada:{SECRET}@127.0.0.1:9/v1",
    "database": f"postgresql://ada:{SECRET}@127.0.0.1:9/db",
    "model": "openai:gpt-5-mini",
    "embeddings": "huggingface:somebody/model",
}


def write(file: Path, **values: str | bool) -> None:
    file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()))


def read() -> tuple[Settings, list[str]]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        settings = Settings()
    return settings, [str(warning.message) for warning in told]


def test_a_strangers_file_sets_nothing_and_is_told_once(here: Path, own: Path) -> None:
    write(here, **LEADS_OUT, language="german", trust_folder=True)
    plain, (told,) = read()
    assert plain == Settings.model_construct()
    assert told.startswith(f"{here}: ignored")
    assert str(own) in told and "LANGMEM_ADAPTER_TRUST_FOLDER=true" in told and "--trust-folder" in told
    assert SECRET not in told and "openai" not in told
    with pytest.warns(UserWarning, match="ignored") as caught:
        Settings()
    assert caught[0].filename == __file__
    write(own, model="offline", base_url="http://127.0.0.1:1/v1", api_key="mine")
    settings, _ = read()
    assert (settings.base_url, settings.api_key) == ("http://127.0.0.1:1/v1", SecretStr("mine"))


def test_no_setting_at_all_is_taken_from_a_stranger(here: Path) -> None:
    for line in (
        'database = "/srv/theirs.db"',
        'database = "../../x"',
        'DATABASE = "here.db"',
        'embeddings = "hash:64"',
        "trace_days = 0",
        "sweep_minutes = 0",
        "nosuch = 1",
        "no TOML",
    ):
        here.write_text(line)
        settings, told = read()
        assert settings == Settings.model_construct() and len(told) == 1, line
    here.write_text("")
    assert read() == (Settings.model_construct(), [])


@pytest.mark.parametrize("where", ["argument", "environment", "own file"])
def test_whoever_trusts_the_folder_gets_all_of_it(
    where: str, here: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here, **LEADS_OUT)
    if where == "environment":
        monkeypatch.setenv("LANGMEM_ADAPTER_TRUST_FOLDER", "true")
    if where == "own file":
        write(own, trust_folder=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings = Settings(**{"trust_folder": True} if where == "argument" else {})
    assert settings.trust_folder
    assert {name: getattr(settings, name) for name in LEADS_OUT} == {**LEADS_OUT, "api_key": SecretStr(SECRET)}


def test_the_nearer_source_decides_about_trust(here: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here, **LEADS_OUT)
    write(own, trust_folder=True)
    monkeypatch.setenv("LANGMEM_ADAPTER_TRUST_FOLDER", "false")
    assert read()[0].base_url is None
    assert read()[0].model == "offline"
    monkeypatch.setenv("LANGMEM_ADAPTER_TRUST_FOLDER", "perhaps")
    with pytest.warns(UserWarning, match="ignored"), pytest.raises(InvalidInputError, match="'trust_folder'"):
        Settings()


@pytest.mark.parametrize("how", ["from its folder", "by a link"])
def test_the_users_own_file_is_trusted_wherever_it_is_met(
    how: str, here: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(own, **LEADS_OUT)
    if how == "by a link":
        here.symlink_to(own)
    else:
        monkeypatch.chdir(own.parent)
    settings, told = read()
    assert settings.base_url == LEADS_OUT["base_url"] and not told


def test_a_link_to_any_other_file_is_the_folders(here: Path, own: Path, tmp_path: Path) -> None:
    write(own, graph=True)
    write(tmp_path / "other.toml", **LEADS_OUT)
    here.symlink_to(tmp_path / "other.toml")
    settings, told = read()
    assert settings.base_url is None and len(told) == 1


# ── unknown names, in every source ────────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_argument_is_refused_with_what_was_meant(here: Path) -> None:
    with pytest.raises(InvalidInputError, match="unknown setting 'modle'; did you mean 'model'"):
        Settings(modle="x")


def test_an_unknown_variable_is_refused_with_what_was_meant(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_EMBEDINGS", "x")
    with pytest.raises(
        InvalidInputError, match="LANGMEM_ADAPTER_EMBEDINGS in the environment; did you mean 'embeddings'"
    ):
        Settings()


@pytest.mark.parametrize("which", ["here", "own"])
def test_an_unknown_name_in_a_file_is_refused_with_what_was_meant(
    which: str, request: pytest.FixtureRequest, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_TRUST_FOLDER", "true")
    file: Path = request.getfixturevalue(which)
    file.write_text("[tool]\nx = 1\n")
    with pytest.raises(InvalidInputError, match=r"unknown setting 'tool'; known are .*api_key.*ranking"):
        Settings()
    file.write_text("atempts = 3\n")
    with pytest.raises(InvalidInputError, match="unknown setting 'atempts'; did you mean 'attempts'"):
        Settings()


def test_other_programs_variables_are_none_of_our_business(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGMEM_MODEL", "MODEL", "LANGMEM_ADAPTERX_MODEL", "LANGMEM_ADAPTER_USER"):
        monkeypatch.setenv(name, "x")
    assert Settings().model == "offline"


# ── values ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "value"),
    [("candidate_tokens", 999), ("candidate_tokens", 100_001), ("candidate_tokens", "many"),
     ("ranking", '{"words": 2}'), ("index", "hnsw"), ("attempts", 0), ("busy_timeout", 0), ("merge_after", 0),
     ("pool_size", 0), ("max_overflow", -1), ("pool_timeout", 0), ("prepare_threshold", -1), ("prepare_threshold", "some"),
     ("model", None)],
)  # fmt: skip
def test_a_value_out_of_range_is_refused_by_name(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    with pytest.raises(InvalidInputError, match=f"setting '{name}'"):
        Settings(**{name: value})
    if value is not None:
        monkeypatch.setenv(f"LANGMEM_ADAPTER_{name.upper()}", str(value))
        with pytest.raises(InvalidInputError, match=f"setting '{name}'"):
            Settings()


def test_a_ranking_is_put_together_from_all_sources(here: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own.write_text("[ranking]\nspeaker = 0.1\nwords = 0.2\n")
    monkeypatch.setenv("LANGMEM_ADAPTER_RANKING", '{"words": 0.3}')
    assert Settings().ranking == Ranking(speaker=0.1, words=0.3)
    assert Settings(ranking=Ranking(time=0)).ranking.time == 0


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('{"words": 2}', "setting 'ranking': weight 'words': Input should be less"),
        ('{"word_weight": 0.5}', "setting 'ranking': unknown weight 'word_weight'; known are words"),
        ("words=.5", 'error parsing value for field "ranking".*: write JSON, as LANGMEM_ADAPTER_RANKING='),
        ("0.5", "setting 'ranking': Input should be a valid dictionary"),
    ],
)
def test_a_ranking_that_cannot_be_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch, said: str, told: str) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_RANKING", said)
    with pytest.raises(InvalidInputError, match=told):
        Settings()


def test_several_mistakes_are_named_at_once(here: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"(?s)candidate_tokens.*; .*attempts"):
        Settings(candidate_tokens=0, attempts=0)


def test_a_folder_of_settings_that_cannot_be_looked_into_is_named_with_the_way_out(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", f"/{'x' * 300}")  # too long a name, since tests may run as root
    with pytest.raises(InvalidInputError, match=r"/langmem_adapter\.toml cannot be read .*set XDG_CONFIG_HOME"):
        Settings()


@pytest.mark.parametrize("content", [b"model = offline\n", b"model", b'model = "\xff"\n', b"\xff\xfem\x00"])
@pytest.mark.parametrize("which", ["here", "own"])
def test_a_file_that_is_no_toml_is_refused_by_its_name(
    which: str, content: bytes, request: pytest.FixtureRequest, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_TRUST_FOLDER", "true")
    file: Path = request.getfixturevalue(which)
    file.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"langmem_adapter\.toml cannot be read as TOML"):
        Settings()


# ── the secret, and what it is once made ──────────────────────────────────────────────────────────────────────────────


def test_the_secret_is_never_shown(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_API_KEY", SECRET)
    settings = Settings()
    assert settings.api_key is not None and settings.api_key.get_secret_value() == SECRET
    for shown in (repr(settings), str(settings), repr(settings.model_dump()), settings.model_dump_json()):
        assert SECRET not in shown


@pytest.mark.parametrize("mistake", [{"neighbours": 0}, {"modle": "x"}])
def test_the_secret_is_in_no_error_either(here: Path, mistake: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Settings(api_key=SECRET, **mistake)
    assert SECRET not in str(caught.value) and caught.value.__suppress_context__
    with pytest.raises(InvalidInputError) as caught:
        Settings(api_key=[SECRET])
    assert SECRET not in str(caught.value)


def test_settings_do_not_change_once_made(here: Path) -> None:
    settings = Settings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.model = "other"


def test_the_default_database_lies_in_the_users_data_directory() -> None:
    assert default_database().is_relative_to(os.environ["XDG_DATA_HOME"])
    assert default_database().name == "memory.db"
