import random
from datetime import UTC, datetime

from langmem_adapter import Memory
from langmem_adapter.cli.pictures import changed, hits_table, word_diff
from langmem_adapter.records.results import Change


def test_changed_shows_valid_to_and_hits_table_the_score_with_explain() -> None:
    late = Change("1", "Lives in Kyoto", "ADD", valid_to=datetime(2026, 5, 1, tzinfo=UTC))
    assert changed(late, marks=True).plain == "Lives in Kyoto (held until 2026-05-01 00:00)"
    with Memory(":memory:") as memory:
        memory.add("I like tea", user_id="a")
        for explain in (False, True):
            columns = hits_table(memory.search("tea", user_id="a", explain=explain)).columns
            assert ("score" in str([*columns[1].cells])) is explain


def test_word_diff_of_long_texts() -> None:
    letters = random.Random(1)
    for words in ([f"w{number} " for number in range(5000)], [chr(0x4E00 + number) for number in range(300)]):
        old, new = ("".join(letters.choices(words, k=100_000))[:100_000] for _ in range(2))
        told = word_diff(f"Begins {old}.", f"Begins {new}.", marks=True).plain
        assert told.startswith("Begins [-") and told.endswith("+}.") and "-]{+" in told


def test_word_diff_marks_whole_words() -> None:
    for old, new, told in (
        ("has a dog and a cat", "has two dogs and a fish", "has [-a dog-]{+two dogs+} and a [-cat-]{+fish+}"),
        ("likes tea", "likes green tea", "likes {+green +}tea"),
        ("tea tea tea", "tea tea", "tea tea[- tea-]"),
        ("喜欢喝绿茶", "喜欢喝红茶", "喜欢喝[-绿-]{+红+}茶"),
        ("lives in Lyon", "has a red car", "[-lives in Lyon-]{+has a red car+}"),
        ("likes tea", "", "[-likes tea-]"),
        ("", "likes tea", "likes tea"),
        ("likes tea", "likes tea", "likes tea"),
    ):
        assert word_diff(old, new, marks=True).plain == told
