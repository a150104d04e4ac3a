"""Linear time: a text of eight times the length takes at most fifteen times as long, in every pattern and public entry.

These are the only tests that measure time: CPU time of the thread, the best of five, and only where that is over 5 ms.
"""

from __future__ import annotations

import ast
import pkgutil
import re
import time
from collections import defaultdict
from contextlib import suppress
from importlib import import_module
from itertools import islice, product
from pathlib import Path
from re import _parser as parser  # the tree of a pattern, from which its texts are made
from typing import TYPE_CHECKING, Any, Final

import langmem_adapter
from langmem_adapter import Memory
from langmem_adapter.reasoning.replies import UnusableReplyError, json_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SHORT: Final = 4_096
LONG: Final = 8 * SHORT
RATIO: Final = 15
QUICK: Final = 0.005  # seconds
HOPELESS: Final = 1.0  # seconds for the short text
SCANNING: Final = ("findall", "search", "finditer", "split", "sub", "subn")
METHODS: Final = (*SCANNING, "fullmatch", "match")
EXEMPT: Final = {
    "statements/": "short statements, see test_add_and_search_take_linear_time",
    "reasoning/rules.py": "the same",
    "reasoning/sentences.py": "the same",
    "search/query.py": "texts of up to 300 letters",
    "search/ranking.py": "texts of up to 300 letters",
    "text.py": "files of the package",
    "cli/graph.py": "an argument of the command line",
    "index/generations.py": "names of files",
    "conversation/brain.py": "MetaGPT's pattern, which its caller gives",
}
ROOT: Final = Path(langmem_adapter.__file__).parent


# ── patterns ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def package_patterns() -> Iterator[tuple[str, re.Pattern[str], list[str]]]:
    """Every pattern in the package's source: its place, the pattern, and the methods that are called on it."""
    for info in pkgutil.walk_packages(langmem_adapter.__path__, "langmem_adapter."):
        path = info.name.removeprefix("langmem_adapter.").replace(".", "/")
        path = f"{path}/__init__.py" if info.ispkg else f"{path}.py"
        if path.startswith(tuple(EXEMPT)):
            continue
        module, tree = import_module(info.name), ast.parse((ROOT / path).read_text(encoding="utf-8"))
        methods = methods_by_name(tree)
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                yield f"{path} {name}", value, sorted(methods.get(name) or METHODS)
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for call, method in calls_of_re(function):
                    yield (
                        f"{path}:{call.lineno}",
                        compiled(call, module),
                        list(METHODS) if method == "compile" else [method],
                    )


def methods_by_name(tree: ast.Module) -> dict[str, set[str]]:
    methods: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in METHODS:
            methods[node.value.id].add(node.attr)
    return methods


def calls_of_re(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Calls such as `re.search(…)`, with their methods."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=method)) if method in (*METHODS, "compile"):
                yield node, method


def compiled(call: ast.Call, module: Any) -> re.Pattern[str]:
    """The pattern of such a call; what only its function knows is one letter."""
    names = {node.id: "x" for node in ast.walk(call.args[0]) if isinstance(node, ast.Name)}
    return re.compile(eval(ast.unparse(call.args[0]), names | vars(module)))  # noqa: S307 - our own source


# ── texts that are slow for a pattern ───────────────────────────────────────────────────────────────────────────────────


def units(pattern: re.Pattern[str]) -> list[str]:
    """What to repeat: a letter of each class, two of them by turns, what the pattern matches, and what it almost matches."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    letters = sorted(set(atoms(tree)))
    pairs = [one + other for one, other in islice(product(letters, repeat=2), 24) if one != other]
    whole = sample(tree)
    return [unit for unit in dict.fromkeys((*letters[:32], *pairs, whole, whole[:-1], whole[1:])) if unit]


def atoms(tree: Iterable[Any]) -> Iterator[str]:
    """A letter for each class and literal of a pattern, at any depth."""
    for operation, argument in tree:
        if str(operation) in LETTERS:
            yield letter(str(operation), argument)
        else:
            for part in subpatterns(argument):
                yield from atoms(part)


def subpatterns(argument: Any) -> Iterator[Any]:
    if isinstance(argument, parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for item in argument:
            yield from subpatterns(item)


def sample(tree: Iterable[Any]) -> str:
    """A text that the pattern matches, or almost: the first branch, each repetition twice where it may be."""
    text = ""
    for operation, argument in tree:
        match str(operation):
            case name if name in LETTERS:
                text += letter(name, argument)
            case "BRANCH":
                text += sample(argument[1][0])
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                text += sample(argument[2]) * min(2, argument[1])
            case "SUBPATTERN":
                text += sample(argument[-1])
            case "ATOMIC_GROUP":
                text += sample(argument)
    return text


LETTERS: Final = {"LITERAL", "NOT_LITERAL", "IN", "ANY"}
CATEGORIES: Final = {"DIGIT": "7", "SPACE": " ", "WORD": "w", "NOT_DIGIT": "d", "NOT_SPACE": "s", "NOT_WORD": "-"}


def letter(operation: str, argument: Any) -> str:
    match operation:
        case "LITERAL":
            return chr(argument)
        case "IN" if str(argument[0][0]) != "NEGATE":
            return member(*argument[0])
        case "IN":
            excluded = {member(*item) for item in argument[1:]}
            return next(one for one in "nN0-. \n" if one not in excluded)
        case _:
            return "a" if argument != ord("a") else "b"


def member(operation: Any, argument: Any) -> str:
    if str(operation) == "CATEGORY":
        return CATEGORIES[str(argument).removeprefix("CATEGORY_")]
    return chr(argument[0] if isinstance(argument, tuple) else argument)


# ── time ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def cpu_seconds(call: Callable[[str], object], text: str, tries: int = 5) -> float:
    best = float("inf")
    for _ in range(tries):
        start = time.thread_time()
        call(text)
        best = min(best, time.thread_time() - start)
        if best < QUICK:
            break
    return best


def is_linear(call: Callable[[str], object], make: Callable[[int], str]) -> bool:
    """Whether the long text takes at most `RATIO` times as long as the short one; what is near that is measured again."""
    first = cpu_seconds(call, make(SHORT), 1)
    if first > HOPELESS or (longest := cpu_seconds(call, make(LONG), 1)) > 3 * RATIO * max(QUICK, first):
        return False
    for _ in range(3):
        if longest <= max(QUICK, RATIO * cpu_seconds(call, make(SHORT))):
            return True
        longest = cpu_seconds(call, make(LONG))
    return False


def apply(pattern: re.Pattern[str], method: str, text: str) -> None:
    if method in {"sub", "subn"}:
        pattern.sub("", text)
    elif method == "finditer":
        pattern.findall(text)
    else:
        getattr(pattern, method)(text)


def is_scanned_in_linear_time(pattern: re.Pattern[str], methods: list[str], unit: str) -> bool:
    method = next((name for name in SCANNING if name in methods), methods[0])
    return all(
        is_linear(lambda text: apply(pattern, method, text), lambda size: unit * (size // len(unit)) + ending)  # noqa: B023
        for ending in ("", "\0x")
    )


def test_every_pattern_of_the_package_takes_linear_time() -> None:
    patterns = list(package_patterns())
    slow = [
        (place, pattern.pattern, unit)
        for place, pattern, methods in patterns
        for unit in units(pattern)
        if not is_scanned_in_linear_time(pattern, methods, unit)
    ]
    assert len(patterns) > 50
    assert not slow


# ── public entries ──────────────────────────────────────────────────────────────────────────────────────────────────────

REPEATED: Final = (
    *'.?-("* \n1。，~:_[{<@/`',  # those at even places follow English, the others Chinese
    *".?-'、!| \taA，、.。",
    *"0.|, |. |a.|a,|I |my |is |and |that |not |I like |I am |you |Mr. |'s ".split("|"),
    *("on ", "1-", "2024-", "$5 ", "last week ", "before ", "https://", "a@b", "my sister ", "called "),
    *("我", "他", "的", "是", "我喜欢", "我住在", "昨天", "\u0301", "é", "😀", "\u200b", "ก"),
)


def test_add_and_search_take_linear_time() -> None:
    """`"I like tea" + "." * 20_000 + "x"` took 12 seconds."""
    with Memory(":memory:") as memory:
        slow = [
            unit
            for number, unit in enumerate(REPEATED)
            for call in (add_to(memory), lambda text: memory.search(text, user_id="u"))
            if not is_linear(call, lambda size: ("I like tea", "我喜欢")[number % 2] + unit * (size // len(unit)) + "x")  # noqa: B023
        ]
    assert not slow


def add_to(memory: Memory) -> Callable[[str], object]:
    def add(text: str) -> None:
        memory.add(text, user_id="u")
        memory.delete_all(user_id="u")

    return add


REPLIES: Final = {
    "names": lambda size: "{" + ",".join(f'"k{i}":1' for i in range(size // 8)) + f',"k{size // 8 - 1}":1}}',
    "opened": lambda size: "[" * size,
    "objects": lambda size: '{"a":' * (size // 5),
    "quoted": lambda size: '{"facts": ["' + '\\"' * size,
    "thoughts": lambda size: "<think>" * (size // 7),
    "thought": lambda size: "<think>" * (size // 7) + "</think>",
    "ends": lambda size: "</think>" * (size // 8) + "{}",
    "commas": lambda size: '{"facts": [' + "," * size + "]}",
    "spaces": lambda size: '{"facts": [' + " " * size,
    "comments": lambda size: '{"facts": [' + "/*" * (size // 2),
    "lists": lambda size: '["a"] ' * (size // 6),
    "backslashes": lambda size: '{"a": "' + "\\" * size,
    "braces in prose": lambda size: "{ x " * (size // 4),
    "letters": lambda size: "{" + "a" * size,
}


def test_replies_of_models_are_read_in_linear_time() -> None:
    """A reply of 209 KB with one name twice took ten seconds."""

    def read(text: str) -> None:
        with suppress(UnusableReplyError):
            json_values(text)

    assert [name for name, make in REPLIES.items() if not is_linear(read, make)] == []
