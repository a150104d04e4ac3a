"""Writes the generated parts of README and guide: `make docs`. The tests compare them.

The pages `reference-*.md` are generated as a whole. In the others, `fill` runs the blocks of a page in order, in one folder.
The comment above a block says what to do with it:

- none: `python` runs, and each `print(…)  # TEXT` must print the text (also on the next line); `console` is only parsed
- `<!-- run -->`: the commands run on a terminal, and their output is filled in; `run: quiet` shows no output,
  `run: exit 1` expects that code
- `<!-- raises -->`: `python` runs, and ends with an error or a warning
- `<!-- prints -->`: what the `python` block above printed or raised is filled in
- `<!-- file: NAME -->`: the block is written to a file for later commands
- `<!-- program: PATH -->`: the file of that path is filled in
- `<!-- output: PATH -->`: what that program prints offline is filled in
- `<!-- not run: REASON -->`
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import os
import pty
import re
import shlex
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import typer.main

from langmem_adapter import Memory, Settings
from langmem_adapter.cli.app import app
from langmem_adapter.server.app import create_app
from tests.programs import COMMAND, Program, python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

__all__ = [
    "GUIDE",
    "NOTEBOOK",
    "REFERENCE",
    "ROOT",
    "Block",
    "blocks",
    "fill",
    "fill_notebook",
    "normalize",
    "parse_command",
]

ROOT: Final = Path(__file__).parents[1]
GUIDE: Final = ROOT / "examples" / "guide"
NOTEBOOK: Final = ROOT / "examples" / "quickstart.ipynb"
_DAY: Final = "2026-11-26"  # stands in outputs for the day on which a program ran
_FENCE: Final = re.compile(
    r"^(?P<head>(?:<!-- (?P<mark>[^>]+?) -->\n+)?```(?P<language>\w+)\n)(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
_CHANGES: Final = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "…"),
    (r"\b\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z)?\b", "00:00"),
    (r"\b[\d,.]+ ms\b *", "… ms  "),
    (r"\b[\d,]+ bytes\b", "… bytes"),
    (r"--after [\w=-]+", "--after …"),
    (r"(?:/[\w.-]+)+/([\w-]+\.(?:db|toml))\b", r"…/\1"),
)
_FORMAT: Final = ROOT / "langmem_adapter" / "storage" / "lossless" / "FORMAT.md"
_SECTIONS: Final = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Examples):\n", re.MULTILINE)
_MODULES: Final = (
    "langmem_adapter",
    "langmem_adapter.adapters.nodes",
    "langmem_adapter.adapters.retriever",
    "langmem_adapter.adapters.tools",
    "langmem_adapter.adapters.chat_history",
    "langmem_adapter.adapters.classic",
    "langmem_adapter.adapters.store",
    "langmem_adapter.adapters.checkpointer",
    "langmem_adapter.adapters.serving",
    "langmem_adapter.adapters.summarizing",
    "langmem_adapter.adapters.roles",
    "langmem_adapter.adapters.mem0",
    "langmem_adapter.adapters.metagpt",
    "langmem_adapter.conversation",
    "langmem_adapter.server.app",
    "langmem_adapter.testing",
)


def settings_page() -> str:
    """Every setting with its default and its meaning."""
    meanings = dict(_parameters(_sections(Settings)["Args"]))
    rows = [
        f"| `{name}` | `{_default(field.default)}` | {_cell(meanings[name])} |"
        for name, field in Settings.model_fields.items()
    ]
    intro = (
        "An argument overrides the environment, the environment overrides a settings file, and a file overrides the default.",
        "In the environment, the setting `model` is `LANGMEM_ADAPTER_MODEL`.",
        "A settings file is `langmem_adapter.toml` in your configuration folder (on Linux `~/.config/langmem_adapter/`).",
        "In Python, pass `Memory(settings=Settings(model=…))`.",
    )
    return _page("Settings", [*intro, "", "| setting | default | meaning |", "| --- | --- | --- |", *rows])


def commands_page() -> str:
    """Every command of the command line with its options."""
    root: Any = typer.main.get_command(app)
    lines = ["`langmem-adapter --help` lists the commands."]
    commands = dict(_commands(root, ()))
    shared = [option for option in commands["list"].params if option.rich_help_panel is not None]
    lines += [
        "",
        "## Shared options",
        "",
        "A command takes those that have a meaning for it.",
        "",
        *_option_table(shared),
    ]
    for name, command in commands.items():
        lines += ["", f"## `{name}`", "", *_help_lines(command.help or "")]
        own = [option for option in command.params if option.opts not in [each.opts for each in shared]]
        if own:
            lines += ["", *_option_table(own)]
    return _page("Commands", lines)


def _option_table(options: list[Any]) -> list[str]:
    rows = [_option_row(option) for option in options if option.name != "help" and not getattr(option, "hidden", False)]
    return ["| option | value | meaning |", "| --- | --- | --- |", *rows]


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if not hasattr(command, "commands"):
            yield " ".join((*path, name)), command
            continue
        if command.params and command.help:
            yield " ".join((*path, name)), command
        yield from _commands(command, (*path, name))


def _help_lines(text: str) -> list[str]:
    lines: list[str] = []
    examples: list[str] = []
    for line in inspect.cleandoc(re.sub(r"\[/?bold\]", "", text)).replace("\\[", "[").splitlines():
        if line.strip() == "Examples":
            continue
        if line.lstrip().startswith("$"):
            examples.append(re.sub(r"\s{3,}(?=\S)", "   # ", line.strip()))
        else:
            lines.append(line.strip())
    return [*"\n".join(lines).strip().splitlines(), *(["", "```console", *examples, "```"] if examples else [])]


def _option_row(option: Any) -> str:
    names = [*option.opts, *option.secondary_opts] if option.param_type_name == "option" else [option.name.upper()]
    kind = "" if getattr(option, "is_flag", False) else option.metavar or option.type_descriptor.annotation.__name__
    return f"| {' '.join(f'`{name}`' for name in names)} | {_cell(kind)} | {_cell(getattr(option, 'help', '') or '')} |"


def rest_page() -> str:
    """Every route of the server with its parameters and the fields of its body."""
    with Memory(":memory:") as memory:
        schema = create_app(memory, auth="keys").openapi()
    models = schema["components"]["schemas"]
    lines = [
        "The server shows the same at `/docs`, where you can try the routes. See [REST](rest.md) for how to start it."
    ]
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            lines += [
                "",
                f"## `{method.upper()} {path}`",
                "",
                *(route.get("description") or route["summary"]).splitlines(),
            ]
            rows = [
                f"| `{each['name']}` | {each['in']} | {_cell(each.get('description', ''))} |"
                for each in route.get("parameters", ())
            ]
            content = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            rows += [
                f"| `{name}` | body | {_cell(field.get('description', ''))} |"
                for name, field in models.get(content.get("$ref", "").rpartition("/")[2], {})
                .get("properties", {})
                .items()
            ]
            if rows:
                lines += ["", "| name | in | meaning |", "| --- | --- | --- |", *rows]
    return _page("REST", lines)


def export_page() -> str:
    """The format of an export."""
    text = _FORMAT.read_text(encoding="utf-8").replace("# The lines of an export\n", "", 1)
    return _page("Export format", text.strip().splitlines())


def api_page() -> str:
    """Every public name with its signature and its docstring."""
    lines = ["Every method of `Memory` has an async twin with an `a` in front of its name: `await memory.aadd(…)`."]
    for path in _MODULES:
        module = import_module(path)
        lines += ["", f"## `{path}`"]
        for name in _public_names(module):
            thing = getattr(module, name)
            if inspect.isroutine(thing) or inspect.isclass(thing):
                lines += ["", f"### `{name}`", "", *_api_lines(name, thing)]
                if inspect.isclass(thing):
                    lines += _method_lines(name, thing)
    with Memory(":memory:") as memory:
        lines += ["", "## `Memory.graph`", "", *_method_lines("Memory.graph", type(memory.graph))[1:]]
    return _page("API", lines)


def _public_names(module: ModuleType) -> list[str]:
    """The names in `__all__`, or what the module defines."""
    defined = [name for name, thing in vars(module).items() if getattr(thing, "__module__", None) == module.__name__]
    return getattr(module, "__all__", [name for name in defined if not name.startswith("_")])


def _method_lines(path: str, owner: type) -> list[str]:
    """The public methods and properties of a class and its private bases, without the async twins."""
    public = {
        id(getattr(import_module(each), name)) for each in _MODULES for name in _public_names(import_module(each))
    }
    ours = [base for base in owner.__mro__ if base.__module__.startswith("langmem_adapter")]
    ours = [base for base in ours if base is owner or id(base) not in public]
    names = sorted({name for base in ours for name in vars(base) if not name.startswith("_")})
    lines: list[str] = []
    for name in names:
        value = inspect.getattr_static(owner, name)
        method = value.fget if isinstance(value, property) else getattr(owner, name)
        if (inspect.isroutine(method) or isinstance(value, property)) and not (name[0] == "a" and name[1:] in names):
            lines += ["", f"#### `{path}.{name}`", "", *_api_lines(name, method)]
    return lines


def _api_lines(name: str, thing: Any) -> list[str]:
    sections = _sections(thing)
    lines = [*_signature(name, thing), *sections.pop("").strip().splitlines()]
    for title, text in sections.items():
        if title.startswith("Example"):
            lines += ["", "```pycon", *inspect.cleandoc(text).splitlines(), "```"]
        elif parameters := _parameters(text):
            lines += ["", *([f"{title}:", ""] if title == "Raises" else [])]
            lines += [f"- `{each}`: {_cell(meaning)}" for each, meaning in parameters]
        else:
            lines += ["", f"{title}: {_cell(inspect.cleandoc(text))}"]
    return lines


def _signature(name: str, thing: Any) -> list[str]:
    with contextlib.suppress(ValueError, TypeError):
        parameters: list[str] = []
        for each in inspect.signature(thing).parameters.values():
            if each.name == "self" or each.name.startswith("_"):
                continue
            stars = "*" * (each.kind == each.VAR_POSITIONAL) + "**" * (each.kind == each.VAR_KEYWORD)
            if each.kind == each.KEYWORD_ONLY and "*" not in "".join(parameters):
                parameters.append("*")
            parameters.append(
                f"{stars}{each.name}" + ("" if each.default is each.empty else f"={_default(each.default)}")
            )
        return [f"`{name}({', '.join(parameters)})`", ""]
    return []


def _sections(thing: Any) -> dict[str, str]:
    first, *rest = _SECTIONS.split(f"{inspect.getdoc(thing) or ''}\n")
    return {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def _parameters(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^ {4}\*{0,2}([\w.]+)(?: \([^)]*\))?: (.*?)(?=^ {4}\S|\Z)", text, re.MULTILINE | re.DOTALL)


def _default(value: Any) -> str:
    if inspect.isclass(value):
        return value.__name__
    text = repr(value)
    return "…" if " at 0x" in text or len(text) > 40 else text.replace('"', "'").replace("'", '"')


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _page(title: str, lines: list[str]) -> str:
    text = "\n".join([f"# {title}", "", "<!-- made by `make docs`: do not edit -->", "", *lines])
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.splitlines())) + "\n"


REFERENCE: Final[dict[str, Callable[[], str]]] = {
    "reference-settings.md": settings_page,
    "reference-commands.md": commands_page,
    "reference-rest.md": rest_page,
    "reference-export.md": export_page,
    "reference-api.md": api_page,
}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page.

    Attributes:
        line: The line of the page on which its code begins.
        mark: The kind of the comment above it, or empty.
        argument: What follows the kind: a name, a path, or a reason.
    """

    line: int
    language: str
    code: str
    mark: str
    argument: str

    @property
    def commands(self) -> list[tuple[str, str]]:
        """The commands of a console block as they are written, and to run."""
        parts = re.split(r"^\$ ", self.code, flags=re.MULTILINE)[1:]
        written = [re.match(r"(?:.*\\\n)*.*\n", part)[0] for part in parts]  # type: ignore[index]
        return [(line, re.sub(r"\s{2,}# .*$", "", line.replace("\\\n", " ").strip())) for line in written]


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    return [_block(page, match) for match in _FENCE.finditer(page)]


def _block(page: str, match: re.Match[str]) -> Block:
    mark, _, argument = (match["mark"] or "").partition(":")
    line = page.count("\n", 0, match.start("code")) + 1
    return Block(line, match["language"], match["code"], mark, argument.strip())


def fill(path: Path) -> str:
    """A page with programs and outputs as they are today; its blocks run in order, in one new folder."""
    page = path.read_text(encoding="utf-8")
    path_of_commands = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    runner = _Runner(path)
    with _new_folder(), patch.dict(os.environ, {"PATH": path_of_commands}):
        return _FENCE.sub(lambda match: match["head"] + runner.run(_block(page, match)) + "```", page)


@contextlib.contextmanager
def _new_folder() -> Iterator[Path]:
    """A working directory with a short path, so that no line of a command's output is broken because of it."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield Path(folder)


def fill_notebook(path: Path) -> str:
    """A notebook with the outputs of today; its cells run in order, in a new folder."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with _new_folder():
        for number, cell in enumerate(cells, 1):
            cell |= {"execution_count": number, "outputs": _outputs("".join(cell["source"]), names, number)}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """What Jupyter shows below a cell: what it prints, and the value of its last line."""
    body = ast.parse(source).body
    last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None  # type: ignore[attr-defined]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102 - our own notebook
        value = None if last is None else eval(compile(last, "cell", "eval"), names)  # noqa: S307 - the same
    outputs: list[dict[str, Any]] = []
    if text := normalize(printed.getvalue()):
        outputs.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": [normalize(repr(value)).rstrip()]}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = normalize(value._repr_html_()).splitlines(keepends=True)
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


class _Runner:
    """Runs the blocks of one page; each call gives what stands in the block then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._printed = ""

    def run(self, block: Block) -> str:
        match block.mark:
            case "program":
                return (ROOT / block.argument).read_text(encoding="utf-8")
            case "output":
                return _run_program(block.argument)
            case "file":
                Path(block.argument).write_text(block.code, encoding="utf-8")
            case "run":
                code = int(block.argument.removeprefix("exit ")) if block.argument.startswith("exit") else 0
                outputs = [(line, _run_command(command, code)) for line, command in block.commands]
                if block.argument != "quiet":
                    return "".join(f"$ {line}{output}" for line, output in outputs)
            case "prints":
                return self._printed
            case "" | "raises" if block.language == "python":
                self._run_python(block)
        return block.code

    def _run_python(self, block: Block) -> None:
        code = compile("\n" * (block.line - 1) + block.code, str(self._path), "exec", dont_inherit=True)
        errors: list[str] = []
        with contextlib.redirect_stdout(io.StringIO()) as output, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always" if block.mark else "ignore")
            try:
                exec(code, {"__name__": "__page__"})  # noqa: S102 - our own pages
            except Exception as error:
                if block.mark != "raises":
                    raise
                errors.append(f"{type(error).__name__}: {error}")
        errors += [f"{each.category.__name__}: {each.message}" for each in caught]
        self._printed = normalize(output.getvalue() + "\n".join(errors))
        promises = re.findall(r"^ *print\(.*\)(?:  |\n *)# (.+)$", block.code, re.MULTILINE)
        missing = [text for text in promises if text not in self._printed.splitlines()]
        assert not missing, f"{self._path.name}, line {block.line}: prints {self._printed}, not {missing}"
        assert bool(errors) == (block.mark == "raises"), f"{self._path.name}, line {block.line}: {errors}"


def _run_program(name: str) -> str:
    with tempfile.TemporaryDirectory() as data, _new_folder() as folder:
        done = python(ROOT / name, LANGMEM_ADAPTER_DATABASE=f"{data}/memory.db", PYTHONWARNINGS="error")
        assert not list(folder.iterdir()), f"{name} leaves files"
    return normalize(done.stdout)


def _run_command(command: str, code: int) -> str:
    program, *arguments = shlex.split(command)
    if program == "export":
        name, _, value = arguments[0].partition("=")
        os.environ[name] = value
        return ""
    if program == "langmem-adapter":
        arguments = [*COMMAND, *arguments]
    elif arguments[0] == "-m":
        arguments[:2] = ["-c", f"import runpy; runpy.run_module({arguments[1]!r}, run_name='__main__')"]
    return normalize(_on_a_terminal(arguments, code))


def _on_a_terminal(arguments: list[str], code: int) -> str:
    ours, theirs = pty.openpty()
    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(_read, ours)
        looks = {"COLUMNS": "88", "TERM": "xterm-256color", "NO_COLOR": "1"}
        done = Program(*arguments, terminal=os.ttyname(theirs), **looks).end()
        os.close(theirs)
    os.close(ours)
    assert done.returncode == code, reading.result()
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", reading.result()).replace("\r\n", "\n")


def _read(terminal: int) -> str:
    read = b""
    with contextlib.suppress(OSError):  # Linux raises it when the other end is closed
        while part := os.read(terminal, 65536):
            read += part
    return read.decode()


def parse_command(command: Any, arguments: list[str], parent: Any = None) -> None:
    """Read a command line as far as its last command, which does not run."""
    context = command.make_context(command.name, [*arguments], parent=parent)
    if hasattr(command, "resolve_command"):
        _, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        parse_command(inner, rest, context)


def normalize(output: str) -> str:
    """An output without what changes from run to run: days, ids, times, paths, and the space after them."""
    now = datetime.now(UTC)
    for day in (now, now.astimezone()):
        output = output.replace(f"{day:%Y-%m-%d}", _DAY)
    for pattern, text in _CHANGES:
        output = re.sub(pattern, text, output)
    lines = [line.rstrip() for line in output.splitlines()]
    return "\n".join(lines).rstrip() + "\n" * bool(lines)


def main() -> None:
    """Write what is generated."""
    GUIDE.mkdir(exist_ok=True)
    for name, make in REFERENCE.items():
        (GUIDE / name).write_text(make(), encoding="utf-8")
    for name in [name for name in os.environ if name.startswith(("LANGMEM_ADAPTER_", "OPENAI_", "LANGSMITH_"))]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"XDG_DATA_HOME": home, "XDG_CONFIG_HOME": home}
        for path in (ROOT / "README.md", *sorted(GUIDE.glob("*.md"))):
            if path.name not in REFERENCE:
                path.write_text(fill(path), encoding="utf-8")
        NOTEBOOK.write_text(fill_notebook(NOTEBOOK), encoding="utf-8")


if __name__ == "__main__":
    main()
