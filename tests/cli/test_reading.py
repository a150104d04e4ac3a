import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.cli.inputs import Item, items_of, joined
from langmem_adapter.errors import InvalidInputError

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1)


@given(texts=st.lists(TEXTS, min_size=1), ascii_only=st.booleans(), wrapped=st.booleans())
def test_items_of_json_lines_and_conversations_keep_their_order(
    *, texts: list[str], ascii_only: bool, wrapped: bool
) -> None:
    messages = [{"role": "user", "content": text} for text in texts]
    lines = "\n".join(json.dumps(message, ensure_ascii=ascii_only) for message in messages)
    whole = items_of(json.dumps({"messages": messages} if wrapped else messages))
    for items in (items_of(lines, lines=True), whole):
        assert [item.messages for item in items] == messages
        assert [item.first for item in items] == list(range(1, len(texts) + 1))


@given(st.lists(st.sampled_from(["free", "whole", "bad"])), st.integers(1, 5))
def test_joined_keeps_order_and_never_mixes_conversations(kinds: list[str], most: int) -> None:
    items = [
        Item("line", n, n, n, whole=kind == "whole", error=InvalidInputError("x") if kind == "bad" else None)
        for n, kind in enumerate(kinds, 1)
    ]
    groups = list(joined(items, most))
    assert [n for group in groups for n in range(group.first, group.last + 1)] == list(range(1, len(items) + 1))
    assert all(group.last - group.first < most for group in groups)
    assert all(group.first == group.last for group in groups if group.whole or group.error)
    assert sum(group.size for group in groups) == len(items)


@given(st.text(min_size=1))
def test_items_of_any_text_or_a_typed_error(text: str) -> None:
    try:
        items = items_of(text)
    except InvalidInputError:
        return
    assert items
    assert all((item.messages is None) == (item.error is not None) for item in items)


@pytest.mark.parametrize("text", ["[laughs] I moved to Lyon", "{so} it is", "42", '"quoted"', "[1]"])
def test_items_of_text_that_looks_like_json(text: str) -> None:
    (item,) = items_of(text)
    assert item.messages == text


@pytest.mark.parametrize("text", ['{"role": "user", "content": "x"', '[{"role": "user"},', '{"temperature": 21}'])
def test_items_of_broken_json_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="JSON"):
        items_of(text)


def test_items_of_unknown_keys_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="model"):
        items_of('{"messages": [{"role": "user", "content": "x"}], "model": "m"}')


def test_items_of_lines_with_unicode_separators_and_conversations() -> None:
    line = '{"role": "user", "content": "one\u2028two\\u000bthree"}'
    (item,) = items_of(line, lines=True)
    assert item.messages["content"] == "one\u2028two\x0bthree"
    first, second = items_of(f"[{line}]\n[{line}]")
    assert first.whole and second.where == "line 2"
