"""Replies of real chat models to the conversations of `eval prompts`, recorded, so that tests need no model.

    MODEL_URL=http://127.0.0.1:8080/v1 MODEL_NAME=… python -m tests.reasoning.real_replies LABEL full

appends what a model of an OpenAI-compatible server answers to `data/real_replies.jsonl`: one line for each conversation.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr

from langmem_adapter import Memory
from langmem_adapter.evaluation.prompts import OwnSystem, PromptScore, read_cases, run_cases, totals
from langmem_adapter.settings import Settings
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from langchain_core.outputs import ChatResult

FILE: Final = Path(__file__).with_name("data") / "real_replies.jsonl"
Profile = Literal["full", "small"]


class Recorded(ChatOpenAI):
    """The real client, which keeps each reply and why it ended."""

    _replies: list[list[str]] = PrivateAttr(default_factory=list)

    def take(self) -> list[list[str]]:
        taken, self._replies = self._replies, []
        return taken

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        result = super()._generate(*args, **kwargs)
        message = result.generations[0].message
        self._replies.append([str(message.content), str(message.response_metadata.get("finish_reason"))])
        return result


def open_memory(model: Any, profile: Profile) -> Memory:
    settings = Settings(model_profile=profile, model_timeout=600)
    return Memory(":memory:", model=model, embeddings="hash", settings=settings)


def record(label: str, profile: Profile) -> None:
    model = Recorded(model=os.environ["MODEL_NAME"], base_url=os.environ["MODEL_URL"], api_key="none", temperature=0)  # type: ignore[arg-type]
    scores = []
    for number, case in enumerate(read_cases()):
        with open_memory(model, profile) as memory:
            (score,) = run_cases(OwnSystem(memory), [case])
        scores.append(score)
        row = {
            "model": label,
            "profile": profile,
            "case": number,
            "replies": model.take(),
            "right": score.right,
            "wrong": score.wrong,
        }
        with FILE.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({**row, "ended": score.ended}, ensure_ascii=False) + "\n")
        sys.stderr.write(f"{number} {score.to_json()} {score.texts} {dict(score.errors)}\n")
    sys.stderr.write(f"{totals(scores)[-1].to_json()}\n")


def replay(rows: list[dict[str, Any]]) -> tuple[list[PromptScore], int]:
    """The scores of recorded conversations with the code of today, and how many of the replies were not asked for."""
    pairs = [pair for row in rows for pair in row["replies"]]
    replies = [AIMessage(text, response_metadata={"finish_reason": reason}) for text, reason in pairs]
    model, cases = ScriptedChatModel(replies=replies, modes="json_schema"), read_cases()
    with open_memory(model, rows[0]["profile"]) as memory:
        scores = run_cases(OwnSystem(memory), [cases[row["case"]] for row in rows])
        assert memory.verify().ok
    return scores, len(replies) - len(model.calls)


if __name__ == "__main__":
    record(sys.argv[1], "small" if sys.argv[2] == "small" else "full")
