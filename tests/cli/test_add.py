import json
import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Process, stopped
from tests.programs import COMMAND, python

Data = Callable[..., dict[str, Any]]


def texts(envelope: dict[str, Any]) -> list[str]:
    return [row["text"] for row in envelope["data"]]


def test_add_takes_the_argument_before_a_pipe(data: Data) -> None:
    assert texts(data("add", "I", "live", "in", "Lyon", "-u", "a", input="I live in Graz")) == ["Lives in Lyon"]


def test_add_and_search_take_a_timezone(data: Data) -> None:
    when = ("--timestamp", "2026-06-12T00:30", "--timezone", "Asia/Shanghai", "-u", "a")
    assert texts(data("add", "I visited Rome yesterday.", *when)) == ["Visited Rome on 2026-06-11"]
    within = ("--after", "2026-06-12", "--timezone", "Asia/Shanghai", "-u", "a")
    assert texts(data("search", "Tom", *within)) == ["Visited Rome on 2026-06-11"]
    assert "Mars/Base" in data("add", "I like tea.", "--timezone", "Mars/Base", "-u", "a", code=2)["error"]["message"]


def test_add_reads_json_lines_of_any_vendor(data: Data, tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    said: list[Any] = [
        {"from": "human", "value": "I live in Oslo."},
        {"type": "reasoning", "id": "rs", "summary": []},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "user", "parts": [{"text": "I like tea."}]},
    ]
    file.write_text("".join(f"{json.dumps(message)}\n" for message in said), encoding="utf-8")
    assert texts(data("add", "-f", file, "-u", "a")) == ["Lives in Oslo", "Likes tea"]


def test_add_file_reads_a_file_or_the_pipe(data: Data, tmp_path: Path) -> None:
    file = tmp_path / "said.txt"
    file.write_text("\ufeffI live in Lyon.", encoding="utf-8")
    assert texts(data("add", "-f", file, "-u", "a")) == ["Lives in Lyon"]
    assert texts(data("add", "-f", "-", "-u", "b", input="I like tea.")) == ["Likes tea"]
    assert texts(data("add", "-u", "c", input="I live in Graz")) == ["Lives in Graz"]
    assert data("add", "text", "-f", file, "-u", "a", code=2)["error"]["code"] == "invalid_input"


def test_add_file_names_an_unreadable_file(data: Data, tmp_path: Path) -> None:
    assert "absent.txt" in data("add", "-f", tmp_path / "absent.txt", "-u", "a", code=2)["error"]["message"]
    assert str(tmp_path) in data("add", "-f", tmp_path, "-u", "a", code=2)["error"]["message"]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
def test_add_refuses_file_and_pipe_together(process: Process, tmp_path: Path) -> None:
    file = tmp_path / "said.txt"
    file.write_text("I live in Lyon.", encoding="utf-8")
    refused = process("add", "-u", "a", "-f", file, input="I like tea", code=2)
    assert "not both" in refused.stderr
    os.mkfifo(tmp_path / "silent")
    for stdin in ("", "/dev/null", tmp_path / "silent"):  # empty, as cron has it, and open, as CI has it
        python(*COMMAND, "-d", tmp_path / "b.db", "add", "-u", "a", "-f", file, terminal=str(stdin))


@pytest.mark.parametrize(
    "conversation",
    [
        {"role": "user", "content": "I like tea."},
        [{"role": "user", "content": "I like tea."}, {"role": "assistant", "content": "Noted."}],
        {"messages": [{"role": "user", "content": "I like tea."}]},
        ["I like tea."],
    ],
)
def test_add_recognises_json_by_its_content(data: Data, conversation: object) -> None:
    assert texts(data("add", "-u", "a", input=json.dumps(conversation, indent=2))) == ["Likes tea"]


def test_add_keeps_names_and_timestamps_of_json_lines(data: Data) -> None:
    lines = "\n".join(
        json.dumps({"role": "user", "content": text, "name": name, "timestamp": f"2023-05-0{day}T10:00:00Z"})
        for day, (name, text) in enumerate([("Ann", "Hi Bob"), ("Bob", "Hi Ann")], 1)
    )
    envelope = data("add", "--no-infer", "-u", "a", input=lines)
    assert [row["where"] for row in envelope["data"]] == ["line 1", "line 2"]
    items = data("list", "-u", "a")["data"]
    assert {(item["actor_id"], item["created_at"][:10]) for item in items} == {
        ("Ann", "2023-05-01"),
        ("Bob", "2023-05-02"),
    }


def test_add_names_bad_lines_and_stores_the_others(data: Data, cli: Callable[..., Any]) -> None:
    lines = [
        '{"role": "user", "content": "I like tea."}',
        '{"role": "user", "content": ',
        "",
        '{"role": "robot", "content": "beep"}',
        '{"temperature": 21}',
        '[{"role": "user", "content": "I work as a baker."}]',
    ]
    envelope = data("add", "-u", "a", input="\n".join(lines), code=6)
    assert [failed["where"] for failed in envelope["failed"]] == ["line 2", "line 4", "line 5"]
    assert all(failed["message"] for failed in envelope["failed"])
    assert texts(envelope) == ["Likes tea", "Works as a baker"]
    assert envelope["error"]["code"] == "partial"
    assert "line 2: broken JSON" in cli("add", "-u", "a", input="\n".join(lines), code=6).stderr


def test_add_refuses_lines_of_another_scope(data: Data) -> None:
    lines = [
        '{"role": "user", "content": "I like tea.", "user_id": "ada"}',
        '{"role": "user", "content": "I like gin.", "user_id": "bob"}',
        '[{"role": "user", "content": "I like rum.", "run_id": "7"}]',
    ]
    envelope = data("add", "-u", "ada", input="\n".join(lines), code=6)
    assert [failed["where"] for failed in envelope["failed"]] == ["line 2", "line 3"]
    assert "names user_id 'bob'" in envelope["failed"][0]["message"]
    assert texts(envelope) == ["Likes tea"]


def test_add_of_one_bad_input_ends_with_its_error(data: Data) -> None:
    assert (
        data("add", "-u", "a", input='[{"role": "robot", "content": "beep"}]', code=2)["error"]["code"]
        == "invalid_input"
    )
    error = data("add", "-u", "a", input='{"role": "user",\n "content": }', code=2)["error"]
    assert "line 2" in error["message"]
    assert data("add", "-u", "a", input="  \n", code=2)["error"]["message"] == "the input is empty"
    assert "line 2 is not UTF-8" in data("add", "-u", "a", input=b"one\n\xff\xfe", code=2)["error"]["message"]


def test_add_writes_nothing_with_a_bad_option(data: Data) -> None:
    assert "no JSON" in data("add", "I like tea", "-u", "a", "--metadata", "{", code=2)["error"]["message"]
    assert "timestamp" in data("add", "I like tea", "-u", "a", "--timestamp", "noon", code=2)["error"]["message"]
    assert data("add", "I like tea", "--no-infer", code=2)["error"]["code"] == "scope"
    data("add", "I like tea", "-u", "b")
    assert data("list", "-u", "a")["data"] == []


def test_add_passes_metadata_timestamp_and_expires_at(data: Data) -> None:
    options = ["--metadata", '{"source": "chat"}', "--timestamp", "2024-02-03", "--expires-at", "2999-01-01"]
    data("add", "I like tea", "-u", "a", "--agent", "b", "--run", "c", "--no-infer", *options)
    (item,) = data("list", "--agent", "b")["data"]
    assert item["text"] == "I like tea"
    assert (item["user_id"], item["agent_id"], item["run_id"]) == ("a", "b", "c")
    assert item["metadata"] == {"source": "chat"}
    assert item["created_at"].startswith("2024-02-03")
    assert item["expires_at"].startswith("2999-01-01")


def test_add_takes_the_user_from_the_environment_and_may_find_no_fact(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_USER", "ann")
    assert texts(data("add", "I like tea.")) == ["Likes tea"]
    assert data("list")["data"][0]["user_id"] == "ann"
    envelope = data("add", "Good morning!")
    assert envelope["data"] == [] and envelope["notes"]


def test_add_no_infer_stores_long_text_by_paragraphs(data: Data) -> None:
    paragraphs = [f"Paragraph {n}. " + "All work and no play. " * 40 for n in range(30)]
    envelope = data("add", "--no-infer", "-u", "a", input="\n\n".join(paragraphs))
    kept = "\n\n".join(texts(envelope))
    assert [line.strip() for line in kept.split("\n\n")] == [line.strip() for line in paragraphs]
    assert len(envelope["data"]) > 1


def test_add_stores_many_messages_as_conversations(data: Data) -> None:
    lines = "\n".join(json.dumps({"role": "user", "content": f"I like dish{n}."}) for n in range(130))
    envelope = data("add", "-u", "a", input=lines)
    assert len([row for row in envelope["data"] if row["event"] == "ADD"]) == 130
    assert envelope["data"][0]["where"] == "lines 1-20"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_add_interrupted_finishes_its_chunk_and_says_what_is_stored(database: Path, tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_text("".join(json.dumps({"role": "user", "content": f"note {n}"}) + "\n" for n in range(1_000)))
    whose = ("-u", "ann b", "--agent", "g", "--metadata", '{"n": 1}', "--no-graph")
    done = python(
        *("-c", stopped("SIGINT", 200), "-d", database, "add", "--no-infer", *whose, "-f", file, "--json"), code=130
    )
    envelope = json.loads(done.stdout)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*) FROM memories").fetchall() == [(len(envelope["data"]),)] == [(200,)]
    assert envelope["error"]["code"] == "interrupted"
    assert envelope["error"]["message"] == (
        "interrupted: 200 of 1000 messages are kept, all before line 201; nothing from there on"
    )
    assert envelope["error"]["hint"] == (
        f"go on from line 201: tail -n +201 {file} | langmem-adapter add --user 'ann b' --agent g --database {database} --json"
        """ --metadata '{"n": 1}' --no-infer --no-graph"""
    )
    rest, command = (
        shlex.split(envelope["error"]["hint"].partition(": ")[2])[:4],
        envelope["error"]["hint"].split("|")[1],
    )
    said = subprocess.run(rest, capture_output=True, text=True, check=True).stdout
    python(*COMMAND, *shlex.split(command)[1:], said=said)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT text) FROM memories").fetchall() == [(1_000, 1_000)]
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_add_broken_off_goes_on_with_its_hint(data: Data, database: Path, tmp_path: Path) -> None:
    lines = [json.dumps({"role": "user", "content": f"note {n}"}) for n in range(500)]
    file = tmp_path / "many notes.jsonl"
    file.write_text("\n".join(lines))
    twice = stopped("SIGINT", 400, times=2)  # the first is a wish, the second breaks off what is under way
    done = python("-c", twice, "-d", database, "add", "--no-infer", "-u", "a", "-f", file, code=130)
    assert (
        "200 of 500 messages are kept; what was being written, lines 201-400, is kept whole or not at all"
        in done.stderr
    )
    told = f"go on from line 401, else go on from line 201: tail -n +201 '{file}' | langmem-adapter add --user a --database"
    assert told in done.stderr
    kept = data("list", "-u", "a", "-k", "1000")["count"]
    assert kept in {200, 400}
    data("add", "--no-infer", "-u", "a", input="\n".join(lines[kept:]))
    items = data("list", "-u", "a", "-k", "1000")["data"]
    assert sorted(item["text"] for item in items) == sorted(f"note {n}" for n in range(500))


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_add_interrupted_twice_still_prints_its_end(tmp_path: Path, database: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_text("".join(json.dumps({"role": "user", "content": f"note {n}"}) + "\n" for n in range(500)))
    impatient = """
import sys
write = sys.stdout.write
def again(text):
    os.kill(os.getpid(), signal.SIGINT)
    return write(text)
sys.stdout.write = again
main()
"""
    program = stopped("SIGINT", 200).removesuffix("main()\n") + impatient
    done = python("-c", program, "-d", database, "add", "--no-infer", "-u", "a", "-f", file, "--json", code=130)
    assert json.loads(done.stdout)["error"]["message"].startswith("interrupted: 200 of 500 messages are kept")


def test_add_refuses_the_name_of_a_file_with_the_right_command(data: Data, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("I like tea")
    for word in ("notes", "chat.json", "gone/chat.jsonl", "notes.txt"):
        failed = data("add", word, "-u", "a", code=2)["error"]
        assert failed["code"] == "file" and f"langmem-adapter add --file {word}" in failed["hint"]
        assert f"langmem-adapter migrate chat {word}" in failed["hint"]
    assert data("add", "I keep my list in notes.txt", "-u", "a")["count"] == 1
    assert data("add", f"I like {'long walks ' * 500}", "-u", "a", "--infer")["count"] >= 1
