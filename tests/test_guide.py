"""README and guide are true: their blocks run, their commands parse, their links resolve, and generated parts are current."""

from __future__ import annotations

import re
import shlex
import tomllib
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final

import pytest
import typer
import typer.main
from chromadb.api.shared_system_client import SharedSystemClient

from langmem_adapter._version import DISTRIBUTION
from langmem_adapter.cli.app import app
from tests.cases import each
from tests.guide import GUIDE, NOTEBOOK, REFERENCE, ROOT, blocks, fill, fill_notebook, parse_command

if TYPE_CHECKING:
    from pathlib import Path

README: Final = ROOT / "README.md"
PAGES: Final = (README, *sorted(GUIDE.glob("*.md")))
WRITTEN: Final = tuple(path for path in PAGES if path.name not in REFERENCE)


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run_and_print_what_it_shows(page: Path) -> None:
    SharedSystemClient.clear_system_cache()  # Chroma keeps a client for each relative path, "chroma" among them
    assert fill(page).splitlines() == text_of(page).splitlines(), "run: make docs"


def test_the_notebook_runs_and_prints_what_it_shows() -> None:
    assert fill_notebook(NOTEBOOK) == NOTEBOOK.read_text(encoding="utf-8"), "run: make docs"


@each("page", WRITTEN)
def test_a_block_that_does_not_run_says_why(page: Path) -> None:
    for block in blocks(text_of(page)):
        assert block.mark in {"", "run", "raises", "prints", "file", "program", "output", "not run"}, block
        assert block.argument or block.mark in {"", "run", "raises", "prints"}, block


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@each("page", PAGES)
def test_each_langmem_adapter_command_of_a_page_parses(page: Path) -> None:
    root = typer.main.get_command(app)
    for block in blocks(text_of(page)):
        if block.language == "console":
            for _, line in block.commands:
                for command in re.findall(r"(?:^|[\s($])langmem-adapter ([^|)]*)", line):
                    with suppress(typer.Exit):  # of --version
                        parse_command(root, shlex.split(re.sub(r" [12]?> .*$| &&.*$", "", command)))


@each("page", PAGES)
def test_each_make_target_of_a_page_exists(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"^\$ make ([\w-]+)", text_of(page), re.MULTILINE)) <= targets


# ── links ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@each("page", PAGES)
def test_each_link_and_anchor_of_a_page_resolves(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@cache
def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_each_file_that_the_readme_links_is_in_the_sdist() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    included = build["targets"]["sdist"]["include"]
    links = re.findall(r"\]\(([^)\s#]+)[^)]*\)", text_of(README))
    assert [link for link in links if "://" not in link and link.split("/")[0] not in included] == []


def test_the_readme_of_the_built_package_links_no_file_of_the_checkout() -> None:
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["metadata"]
    text = text_of(README)
    for rule in metadata["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert links and all(link.startswith("https://") for link in links)


# ── what must be there ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_readme_is_short_and_its_first_command_is_make_demo() -> None:
    assert blocks(text_of(README))[0].code.startswith("$ make demo")
    assert len(text_of(README).splitlines()) <= 220
    assert len(text_of(README).split()) <= 1_600


def test_the_guide_has_at_most_forty_short_pages_and_an_index_of_all() -> None:
    pages = PAGES[1:]
    assert len(pages) <= 40
    assert [page.name for page in pages if page in WRITTEN and len(text_of(page).splitlines()) > 200] == []
    links = re.findall(r"\]\(([\w-]+\.md)\)", text_of(GUIDE / "README.md"))
    assert sorted({*links, "README.md"}) == sorted(page.name for page in pages)
    assert len(links) == len(set(links))


@each("name", REFERENCE)
def test_a_generated_page_is_current(name: str) -> None:
    assert (GUIDE / name).read_text(encoding="utf-8") == REFERENCE[name](), "run: make docs"


def test_what_is_installed_is_ours_and_for_the_demo_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == DISTRIBUTION == "langchain-langmem-adapter"  # `langmem-adapter` is somebody else's
    texts = [path.read_text(encoding="utf-8") for path in (*PAGES, *(ROOT / "langmem_adapter").rglob("*.py"))]
    assert [text for text in texts if re.search(r"pip install [^\n]*(?<!langchain-)langmem-adapter", text)] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (installs,) = re.findall(r"\$\(DEMO\)/bin/python -m pip install (.*)", makefile)
    assert installs.endswith(" --editable .") and "--group" not in installs
