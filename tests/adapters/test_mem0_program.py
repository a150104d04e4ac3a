"""A program written for Mem0 0.0.x, run as it stands with another import line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.openai_server import OpenAIServer
from tests.programs import python

if TYPE_CHECKING:
    from pathlib import Path

# A travel assistant: looks up what it knows, asks a chat model, stores the question. Written for Mem0 0.0.x.
PROGRAM = """\
import os
import sys

from openai import OpenAI
from mem0 import Memory

os.environ["OPENAI_API_KEY"] = "sk-not-a-key"


class TravelAssistant:
    def __init__(self):
        self.client = OpenAI()
        self.memory = Memory()
        self.messages = [{"role": "system", "content": "You plan journeys."}]

    def ask(self, question, user_id):
        known = self.search(question, user_id=user_id)
        prompt = f"{question}\\n(Known about the user: {known})" if known else question
        self.messages.append({"role": "user", "content": prompt})
        reply = self.client.chat.completions.create(model="gpt-4o", messages=self.messages)
        answer = reply.choices[0].message.content
        self.messages.append({"role": "assistant", "content": answer})
        self.memory.add(question, user_id=user_id)
        return answer

    def all(self, user_id):
        return [m['text'] for m in self.memory.get_all(user_id=user_id)]

    def search(self, query, user_id):
        return [m['text'] for m in self.memory.search(query, user_id=user_id)]


assistant = TravelAssistant()
for line in sys.stdin:
    question = line.strip()
    if question.lower() in ("q", "exit"):
        print("Bye.")
        break
    print("Answer:", assistant.ask(question, user_id=sys.argv[1]))
    for memory in assistant.all(user_id=sys.argv[1]):
        print("-", memory)
"""
ADAPTED = PROGRAM.replace("from mem0 import Memory", "from langmem_adapter.adapters.mem0 import Memory")


def run(server: OpenAIServer, home: Path, user: str, *questions: str) -> list[str]:
    said = "\n".join([*questions, "exit"])
    env: dict[str, Any] = {
        "OPENAI_BASE_URL": server.url,
        "XDG_DATA_HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
    }
    return python("-c", ADAPTED, user, said=said, **env).stdout.splitlines()


def answer(body: dict[str, Any]) -> str:
    return f"heard {len(body['messages'])} messages"


def test_the_program_of_mem0_runs_with_one_import_line_changed(tmp_path: Path) -> None:
    assert sum(a != b for a, b in zip(PROGRAM.splitlines(), ADAPTED.splitlines(), strict=True)) == 1
    with OpenAIServer(answer) as server:
        said = run(server, tmp_path, "anna", "I live in Lyon.", "I love mountains. Where shall I go?")
        asked = [request.body["messages"][-1]["content"] for request in server.requests]
        assert said == [
            "Answer: heard 2 messages",
            "- Lives in Lyon",
            "Answer: heard 4 messages",
            *said[3:5],
            "Bye.",
        ]
        assert {*said[3:5]} == {"- Lives in Lyon", "- Loves mountains"}
        assert asked[0] == "I live in Lyon." and "['Lives in Lyon']" in asked[1]
        assert {request.path.rpartition("/v1")[2] for request in server.requests} == {"/chat/completions"}
        assert len(server.requests) == 2  # the memory itself asks nobody, whatever key lies in the environment


def test_it_remembers_in_the_next_process_and_keeps_users_apart(tmp_path: Path) -> None:
    with OpenAIServer(answer) as server:
        run(server, tmp_path, "anna", "I live in Lyon.")
        run(server, tmp_path, "anna", "Where do I live?")
        run(server, tmp_path, "ben", "Where do I live?")
        asked = [request.body["messages"][-1]["content"] for request in server.requests]
    assert "Lives in Lyon" in asked[1]
    assert asked[2] == "Where do I live?"
