"""What somebody does on the page: searches as she types, walks with the keys, logs in and out, tries the first sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from langmem_adapter.records.scope import Scope
from langmem_adapter.server.app import create_app
from langmem_adapter.storage import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from langmem_adapter.memory.memory import Memory


def test_page_search_runs_while_typing(memory: Memory, served: Callable[..., str], visit: Callable[..., Any]) -> None:
    for text in ("Lives in Lyon", "Likes jazz", "Is vegetarian"):
        memory.add(text, user_id="ada", infer=False)
    visitor = visit()
    page = visitor.page
    page.goto(f"{served(create_app(memory, auth='local'))}/ui/memories")
    expect(page.get_by_role("article")).to_have_count(3)
    page.keyboard.press("/")
    page.keyboard.type("jazz music")
    expect(page.get_by_role("status")).to_contain_text("of 3 memories")
    expect(page.get_by_role("article").first).to_contain_text("Likes jazz")
    expect(page).to_have_url(re.compile(r"q=jazz"))
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("jazz music")
    assert visitor.said == []


def test_page_keyboard_moves_through_the_list(
    memory: Memory, served: Callable[..., str], visit: Callable[..., Any]
) -> None:
    for text in ("Likes tea", "Likes jazz"):
        memory.add(text, user_id="ada", infer=False)
    page = visit().page
    page.goto(f"{served(create_app(memory, auth='local'))}/ui/memories")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="Likes jazz")).to_be_focused()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="Likes tea")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/ui/memories/[0-9a-f-]{36}"))


def test_page_theme_is_kept(memory: Memory, served: Callable[..., str], visit: Callable[..., Any]) -> None:
    memory.add("Likes tea", user_id="ada", infer=False)
    page = visit(color_scheme="light").page
    page.goto(f"{served(create_app(memory, auth='local'))}/ui/memories")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="dark theme").click()
    expect(page.get_by_role("button", name="dark theme")).to_have_attribute("aria-pressed", "true")
    assert page.evaluate(background) != light
    page.reload()
    assert page.evaluate(background) != light


def test_page_login_and_logout(memory: Memory, served: Callable[..., str], visit: Callable[..., Any]) -> None:
    memory.add("Likes tea", user_id="ada", infer=False)
    _, key = memory.parts.database.write(lambda c: keys.create(c, "page", Scope(user_id="ada"), ["read"]))
    visitor = visit()
    page = visitor.page
    page.goto(f"{served(create_app(memory, auth='keys'))}/ui/memories?q=tea")
    page.get_by_role("textbox", name="Key").fill("lma_nothing")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not valid here")
    page.get_by_role("textbox", name="Key").fill(key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("article")).to_contain_text("Likes tea")
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.go_back()
    page.reload()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_page_start_screen_adds_an_example(
    memory: Memory, served: Callable[..., str], visit: Callable[..., Any]
) -> None:
    visitor = visit()
    page = visitor.page
    page.goto(f"{served(create_app(memory, auth='local'))}/ui")
    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing is remembered yet")
    page.get_by_role("button", name="I live in Kyoto").click()
    expect(page).to_have_url(re.compile(r"/ui/traces/"))
    expect(page.get_by_role("main")).to_contain_text("Is vegetarian")
    assert visitor.said == []
