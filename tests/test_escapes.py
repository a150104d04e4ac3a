"""What differs between two texts."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.records.escapes import differences

TEXTS = st.text(st.sampled_from("ab 中文,\n"), max_size=40)


@given(TEXTS, TEXTS)
def test_the_parts_are_the_two_texts_again(old: str, new: str) -> None:
    parts = differences(old, new)
    assert "".join(text for kind, text in parts if kind != "came") == old
    assert "".join(text for kind, text in parts if kind != "gone") == new
    assert all(one[0] != other[0] for one, other in pairwise(parts))
