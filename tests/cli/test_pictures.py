import random

from langmem_adapter.cli.pictures import word_diff


def test_the_longest_memories_are_compared_at_once() -> None:
    letters = random.Random(1)
    for words in ([f"w{number} " for number in range(5000)], [chr(0x4E00 + number) for number in range(300)]):
        old, new = ("".join(letters.choices(words, k=100_000))[:100_000] for _ in range(2))
        told = word_diff(f"Begins {old}.", f"Begins {new}.", marks=True).plain
        assert told.startswith("Begins [-") and told.endswith("+}.") and "-]{+" in told


def test_a_diff_begins_and_ends_with_whole_words_that_both_have() -> None:
    for old, new, told in (
        ("has a dog and a cat", "has two dogs and a fish", "has [-a dog and a cat-]{+two dogs and a fish+}"),
        ("likes tea", "likes green tea", "likes {+green +}tea"),
        ("tea tea tea", "tea tea", "tea tea[- tea-]"),
        ("喜欢喝绿茶", "喜欢喝红茶", "喜欢喝[-绿-]{+红+}茶"),
        ("likes tea", "", "[-likes tea-]"),
        ("", "likes tea", "likes tea"),
        ("likes tea", "likes tea", "likes tea"),
    ):
        assert word_diff(old, new, marks=True).plain == told
