"""Names that may mean the same although they are spelt otherwise: what they have in common, and by which keys they meet.

Only letters are compared. A name with a digit or a symbol in it (an id, a version, a date, C++) means itself alone: there a
single sign makes another thing. Nor are two names alike because letters are: Jesica and Jessica are two people.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple

from langmem_adapter.caches import remembered
from langmem_adapter.text import is_cjk

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["INITIALS", "LEGAL_FORM", "SPELLING", "Written", "are_initials", "is_business", "is_person", "written"]

SPELLING: Final = "the same name in another spelling"
LEGAL_FORM: Final = "the same name with the legal form of a company"
INITIALS: Final = "the same name with initials"

_MARKS: Final = frozenset(" .,'’‘´`\"“”-‐‑–—·・&()_!?:;，。、！？（）《》")
"""Signs that say nothing of whom a name means; with any other a name is exact."""
_APOSTROPHES: Final = re.compile("['’‘´`]")
_WITH: Final = re.compile(r"^LATIN SMALL LETTER (\w) WITH ")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_INITIAL: Final = re.compile(r"\b[^\W\d_]\.")
_FORMS: Final = {
    **dict.fromkeys(("inc", "incorporated"), "inc"),
    **dict.fromkeys(("corp", "corporation"), "corp"),
    **dict.fromkeys(("ltd", "limited"), "ltd"),
    **{form: form for form in "llc llp plc gmbh ag kgaa sarl srl spa".split()},
    **{form.replace(".", " "): form.replace(".", "") for form in ("s.a", "n.v", "b.v", "s.p.a", "s.r.l")},
}
"""Legal forms at the end of a name; one that is written in two ways has one value."""
_COMPANY: Final = {"co": "co", "company": "co"}
"""Those that are words of the language as well: an insurance company is no insurance, so both names must have one."""
_CJK_FORMS: Final = ("股份有限公司", "有限责任公司", "有限公司", "株式会社", "주식회사")
_BUSINESS: Final = frozenset(
    "company organization organisation business corporation firm employer enterprise startup 公司 企业 组织 机构".split()
)
_PERSON: Final = frozenset({"person", "人", "人物"})
_TITLES: Final = frozenset({"mr", "mrs", "ms", "miss", "dr", "prof", "st"})


class Written(NamedTuple):
    """A name as it is compared, without case, accents and punctuation."""

    words: tuple[str, ...]
    split: tuple[str, ...]  # where inner capitals begin a word: `GitHub` as `git hub`
    stem: tuple[str, ...]  # without a legal form
    form: str  # empty where it has none
    plain: bool  # the form is a word of the language as well
    dotted: bool  # it has an initial with a dot

    @property
    def spellings(self) -> set[tuple[str, ...]]:
        """The ways to read it, of which one is enough to be the same; Chinese letters may stand apart or not."""
        whole = "".join(self.words)
        return {self.words, self.split, (whole,) if is_cjk(whole) else self.words}

    @property
    def ends(self) -> Iterator[tuple[str, str]]:
        """Keys by which names with the same initials meet."""
        if len(self.words) > 1:
            first, last = self.words[0], self.words[-1]
            yield f"{first[0]}.", last
            yield first, f"{last[0]}."


@remembered(4096)
def written(name: str) -> Written | None:
    """How a name is compared; `None` where it means itself alone.

    Example:
        >>> written("Nestlé S.A.").stem, written("GitHub").split, written("GPT-4")
        (('nestle',), ('git', 'hub'), None)
    """
    text = unicodedata.normalize("NFKC", name).replace("_", " ")
    if not all(sign in _MARKS or unicodedata.category(sign)[0] in "LMZ" for sign in text):
        return None
    words = _words(text)
    if not words:
        return None
    stem, form, plain = _formed(words)
    return Written(words, _words(_CAMEL.sub(" ", text)), stem, form, plain, bool(_INITIAL.search(text)))


def _words(text: str) -> tuple[str, ...]:
    folded = _APOSTROPHES.sub("", text).casefold()
    bare = folded if folded.isascii() else _unaccented("".join(map(_bare, folded)))
    return tuple(re.findall(r"\w+", bare))


def _unaccented(text: str) -> str:
    """Greek goes without its accents, too. Other scripts keep their marks, which make other letters (が, й)."""
    kept, base = "", " "
    for sign in unicodedata.normalize("NFD", text):
        if not unicodedata.combining(sign):
            base = sign
        elif unicodedata.name(base, "").startswith(("GREEK", "LATIN")):
            continue
        kept += sign
    return unicodedata.normalize("NFC", kept)


def _bare(letter: str) -> str:
    """A Latin letter without its accent or stroke."""
    found = _WITH.match(unicodedata.name(letter, ""))
    return letter if found is None else found[1].casefold()


def _formed(words: tuple[str, ...]) -> tuple[tuple[str, ...], str, bool]:
    """A name's stem, its legal form, and whether that is a common word."""
    for size in (3, 2, 1):
        form = _FORMS.get(" ".join(words[-size:]))
        if form is not None and len(words) > size and len("".join(words[:-size])) > 1:
            return words[:-size], form, False
    if words[-1] in _COMPANY and len(words) > 1:
        return words[:-1], _COMPANY[words[-1]], True
    for form in _CJK_FORMS:
        whole = "".join(words)
        stem = whole.removesuffix(form).removeprefix(form)
        if len(stem) > 1 and stem != whole:
            return (stem,), form, False
    return words, "", False


def is_business(kind: str) -> bool:
    """Whether something of this type may have a legal form; also where nobody said what it is."""
    return not kind or kind.casefold() in _BUSINESS


def is_person(kind: str) -> bool:
    """Whether this type says that it is a person."""
    return kind.casefold() in _PERSON


def are_initials(one: Written, other: Written) -> bool:
    """Whether one name is the other with initials for some of its words, or without those of its middle."""
    if 1 in {len(one.words), len(other.words)} or one.words == other.words:
        return False
    (first, *inner, last), (other_first, *other_inner, other_last) = one.words, other.words
    ends = ((first, other_first), (last, other_last))
    if not all(_fits(*end) for end in ends) or not any(a == b and len(a) > 1 for a, b in ends):
        return False
    if len(inner) == len(other_inner):
        return all(_fits(*pair) for pair in zip(inner, other_inner, strict=True))
    shortened = any(a != b for a, b in ends)
    return not (inner and other_inner) and (shortened or all(map(_is_initial, (*inner, *other_inner))))


def _fits(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (_is_initial(short) and long.startswith(short) and long not in _TITLES)


def _is_initial(word: str) -> bool:
    return len(word) == 1 and not is_cjk(word)
