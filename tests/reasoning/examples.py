"""The examples in our instructions: what a model is shown, and what it should reply."""

from __future__ import annotations

import json
import re
from typing import Any

from langmem_adapter.reasoning.prompts import instructions


def examples(task: str) -> list[tuple[Any, Any]]:
    """Those of a task."""
    found = re.findall(r"^Example: (.*)\nReply: (.*)$", instructions(task), re.MULTILINE)
    return [(json.loads(data), json.loads(reply)) for data, reply in found]
