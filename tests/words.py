"""Banned words in texts of the package, README, CONTRIBUTING, SECURITY and guide: a part of `make lint`."""

from __future__ import annotations

import io
import re
import sys
import tokenize
from typing import TYPE_CHECKING, Final

from tests.budget import PACKAGE, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WORDS: Final = re.compile(
    r"\b(?:whose|whoever|(?:no|some|any)body|doors?|guests?|houses?|(?<!no )rooms?(?! for)|in its stead|what is over|stood"
    r"|stands?(?! for)|o[fn] (?:my|your|his|her|its|our|their) own)\b|(?<![\w.)\]}…])\.\d+\b",
    re.IGNORECASE,
)
_ALLOWED: Final = {
    "langmem_adapter/evaluation/prompts.py": "conversations that the evaluation reads",
    "langmem_adapter/reasoning/instructions/": "instructions to the model, measured as they are",
    "langmem_adapter/reasoning/prompts.py": "the same",
    "langmem_adapter/reasoning/replies.py: somebody": "one of the English pronouns",
    "langmem_adapter/search/query.py: whose": "a question word of a pattern",
    "langmem_adapter/server/static/page/graph.js: room": "the name of a force in d3",
}
"""Places, and words in them, with the reason."""
_STRINGS: Final = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The strings and comments of a module, or the lines of another file, with their lines."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(content).readline):
            if token.type in _STRINGS:
                yield from enumerate(token.string.splitlines(), token.start[0])
    else:
        yield from enumerate(content.splitlines(), 1)


def files() -> Iterator[Path]:
    """The files that are read."""
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))
    yield from (path for path in (ROOT / "examples" / "guide").glob("*.md") if not path.name.startswith("reference-"))
    for kind in ("*.py", "*.html", "*.js", "*.md", "*.toml"):
        yield from (path for path in PACKAGE.rglob(kind) if "vendor" not in path.parts)


def main() -> int:
    """Print each banned word with its place."""
    hits = [
        f"{name}:{line}: {match[0]}: {text.strip()}"
        for path in sorted(files())
        for name in [path.relative_to(ROOT).as_posix()]
        for line, text in texts(path)
        for match in _WORDS.finditer(text)
        if not f"{name}: {match[0]}".startswith(tuple(_ALLOWED))
    ]
    sys.stdout.writelines(f"{hit}\n" for hit in hits)
    return int(bool(hits))


if __name__ == "__main__":
    sys.exit(main())
