"""Word lists: what the rules of a language cannot tell. English and Chinese; everything else works without them.

They are data for `text`, `languages` and `names`, in files of text beside this module. A change of `STOPWORDS`,
`STOPWORDS_CJK`, `CLITICS`, `ELIDED`, `IRREGULAR`, `TIMES` or `TOPICS` changes the words that are stored: raise
`text.TOKENIZER` with it; the others are only asked when a search is made.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

__all__ = ["CHANGES", "CHANGES_CJK", "CLITICS", "ELIDED", "IRREGULAR", "KIN", "LIGHT", "RELATED", "STOPWORDS"]
__all__ += ["STOPWORDS_CJK", "TIMES", "TOPICS", "WHEN", "entries"]


def entries(file: Path) -> dict[str, str]:
    """The entries of a file, `NAME: text` each, continued by indented lines, which keep their ends.

    Example:
        >>> entries(Path(__file__).with_name("vocabulary.txt"))["CLITICS"]
        's t d m re ve ll'
    """
    found = re.finditer(r"^([A-Z][A-Z_0-9]*): (.*(?:\n[ ]+.*)*)", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {entry[1]: re.sub(r"\n +", "\n", entry[2]) for entry in found}


_LISTED: Final = entries(Path(__file__).with_name("vocabulary.txt"))

STOPWORDS: Final = frozenset(_LISTED["STOPWORDS"].split())
"""Stems that mark grammar, hardly meaning."""
STOPWORDS_CJK: Final = frozenset(_LISTED["STOPWORDS_CJK"].split())
"""Chinese particles and pronouns; as parts of pairs of letters they still count."""
CLITICS: Final = frozenset(_LISTED["CLITICS"].split())
"""What stands after an apostrophe and is no word: Anna's, don't, we'll."""
ELIDED: Final = frozenset(_LISTED["ELIDED"].split())
"""What French, Italian and Catalan leave of a word before an apostrophe: l'avion, dell'anno, d'aigua."""
IRREGULAR: Final = {form: verb for verb, *forms in map(str.split, _LISTED["IRREGULAR"].split(";")) for form in forms}
"""English forms that no stemmer brings together, by the form."""
TIMES: Final = frozenset(_LISTED["TIMES"].split())
"""Words that tell a time."""
WHEN: Final = ("when ", "how long ", "what date", "which date", "what day", "which day", "what year", "which year")
"""How a question for a time begins, in English; Chinese ones hold 什么时候, 几点, 哪天, 哪年, 多久."""
RELATED: Final = tuple(_LISTED["RELATED"].split("\n"))
"""Words that a search takes for each other, to some degree; the first one names the group."""
TOPICS: Final = Path(__file__).with_name("topics.txt")
"""A file of words that speak of a topic, behind its name. A broad net, in which a new fact finds the memories it may concern:
"called off the wedding" and "engaged to Marek" share no word and, without a model, no direction. Of a longer Chinese word the
last two letters count."""
KIN: Final = frozenset(_LISTED["KIN"].split())
"""Whom a statement may speak of besides the one who makes it."""
LIGHT: Final = frozenset(_LISTED["LIGHT"].split())
"""Verbs that say little of what a statement is about."""
CHANGES: Final = frozenset(_LISTED["CHANGES"].split())
"""English words of statements that something is no longer as it was, as they are written."""
CHANGES_CJK: Final = tuple(_LISTED["CHANGES_CJK"].split())
"""The same in Chinese."""
