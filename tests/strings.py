"""Every string that a user reads, one a line with its place: `make strings`. Help, errors, notes, page, OpenAPI and MCP."""

import ast
import re
import sys
from collections.abc import Iterator
from typing import Final

from tests.budget import PACKAGE, ROOT

PROMPTS: Final = ("reasoning/prompts", "evaluation/prompts", "statements/")  # read by models, or data
SHOWN: Final = ("cli/", "server/mcp", "server/mem0", "server/v1/", "adapters/tools")  # docstrings are help here
SENTENCE: Final = re.compile(r"(?![(\[{<|^?#&*@.\\]|[A-Z]{4,} )(?:[^\\ ]*[\w,.;:…)] ){2}[^\\]*$")
MARKUP: Final = re.compile(r"\{#.*?#\}|\{%.*?%\}|<(style|svg|script)\b.*?</\1>|</?[^<>]*>", re.DOTALL)


def module_strings(text: str, *, docstrings: bool) -> Iterator[tuple[int, str]]:
    """Each sentence in a module with its line; a value in an f-string is `…`."""
    nodes = [*ast.walk(ast.parse(text))]
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in joined for part in ast.walk(node) if part is not node}
    parts |= {id(node.value) for node in nodes if isinstance(node, ast.Expr) and not docstrings}
    for node in nodes:
        if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in parts:
            values = node.values if isinstance(node, ast.JoinedStr) else [node]
            yield node.lineno, "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in values)


def template_strings(text: str) -> Iterator[tuple[int, str]]:
    """Each line of text in a template with its number."""
    yield from enumerate(MARKUP.sub(lambda match: "\n" * match[0].count("\n") + " ", text).splitlines(), 1)


for path in sorted(each for kind in ("*.py", "*.html") for each in PACKAGE.rglob(kind)):
    name, content = path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")
    is_page = path.suffix == ".html"
    texts = template_strings(content) if is_page else module_strings(content, docstrings=name.startswith(SHOWN))
    for line, text in texts:
        if SENTENCE.match(words := " ".join(text.split())) and not name.startswith(PROMPTS):
            sys.stdout.write(f"{path.relative_to(ROOT)}:{line}: {words}\n")
