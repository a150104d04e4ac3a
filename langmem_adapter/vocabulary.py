"""Word lists: what the rules of a language cannot tell. English and Chinese; everything else works without them.

They are data for `text`, `languages` and `names`, kept as text: a name and its words, continued by indented lines. A change of
`STOPWORDS`, `STOPWORDS_CJK`, `CLITICS`, `ELIDED`, `IRREGULAR`, `TIMES`, or a new word in `TOPICS`, changes the words that are
stored: raise `text.TOKENIZER` with it; the others are only used when a search is made.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

__all__ = ["ASKING_CJK", "CLITICS", "ELIDED", "HAPPENING", "HAPPENING_CJK", "IRREGULAR", "KIN", "LIGHT", "PHRASE"]
__all__ += ["RELATED", "STOPWORDS", "STOPWORDS_CJK", "TALK", "TALK_CJK", "TIMES", "TOPICS", "WHEN", "entries"]


def entries(file: Path) -> dict[str, str]:
    """The entries of a file, `name: text` each, continued by indented lines, which keep their ends.

    Example:
        >>> entries(Path(__file__).with_name("words.txt"))["CLITICS"]
        's t d m re ve ll'
    """
    found = re.findall(r"^(\w+): ?(.*(?:\n +.*)*)", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: re.sub(r"\n +", "\n", text).strip("\n") for name, text in found}


_LISTS: Final = entries(Path(__file__).with_name("words.txt"))

STOPWORDS: Final = frozenset(_LISTS["STOPWORDS"].split())
"""Stems that mark grammar, hardly meaning."""
STOPWORDS_CJK: Final = frozenset(_LISTS["STOPWORDS_CJK"].split())
"""Chinese particles and pronouns; as parts of pairs of letters they still count."""
CLITICS: Final = frozenset(_LISTS["CLITICS"].split())
"""What stands after an apostrophe and is no word: Anna's, don't, we'll."""
ELIDED: Final = frozenset(_LISTS["ELIDED"].split())
"""What French, Italian and Catalan leave of a word before an apostrophe: l'avion, dell'anno, d'aigua."""
IRREGULAR: Final = {form: verb for verb, *forms in map(str.split, _LISTS["IRREGULAR"].split(";")) for form in forms}
"""English forms that no stemmer brings together, by the form."""
TIMES: Final = frozenset(_LISTS["TIMES"].split())
"""Words that tell a time."""
WHEN: Final = tuple(words.replace("_", " ") for words in _LISTS["WHEN"].split())
"""How a question for a time begins, in English; Chinese ones hold 什么时候, 几点, 哪天, 哪年, 多久."""
RELATED: Final = tuple(_LISTS["RELATED"].split("\n"))
"""Words that a search takes for each other, to some degree; the first one names the group."""
TOPICS: Final = {
    topic: tuple(words.split()) for topic, words in entries(Path(__file__).with_name("topics.txt")).items()
}
"""Words that speak of a topic, by its name. A broad net, in which a new fact finds the memories it may concern: "called off the
wedding" and "engaged to Marek" share no word and, without a model, no direction. Of a longer Chinese word its last two letters
count."""
KIN: Final = frozenset(_LISTS["KIN"].split())
"""Whom a statement may speak of besides the one who makes it."""
LIGHT: Final = frozenset(_LISTS["LIGHT"].split())
"""Verbs that say little of what a statement is about."""
ASKING_CJK: Final = frozenset(_LISTS["ASKING_CJK"].split())
"""Signs of Chinese question words, and 里, which ends one of them."""
TALK: Final = frozenset(_LISTS["TALK"].split())
"""English words of talk that ask for nothing, also when they stand alone."""
PHRASE: Final = frozenset(_LISTS["PHRASE"].split())
"""Those that ask for nothing in a phrase ("have a nice day"), and for something when they stand alone ("day")."""
TALK_CJK: Final = frozenset(_LISTS["TALK_CJK"].split())
"""Chinese words of talk that ask for nothing."""
HAPPENING: Final = frozenset(_LISTS["HAPPENING"].split())
"""English words that ask what happened or was said in a time, and nothing else."""
HAPPENING_CJK: Final = frozenset(_LISTS["HAPPENING_CJK"].split())
"""The same in Chinese."""
