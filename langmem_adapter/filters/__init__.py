"""The filter language: one reading of LangGraph's and Mem0's filters, the same for every index and database.

A filter is a mapping; all its entries must hold. Operators may be written with or without a leading `$`:

    {"topic": "food"}                     equal, like {"topic": {"eq": "food"}}
    {"topic": ["food", "home"]}           one of these (Mem0), or this very list (LangGraph)
    {"tags": "food"}                      holds for the tags ["food", "home"], too
    {"topic": "*"}                        has a value (Mem0), like {"topic": {"exists": True}}; the text itself is {"eq": "*"}
    {"age": {"gte": 18, "lt": 65}}        every operator holds
    {"address": {"city": "Oslo"}}         an object whose city is Oslo, whatever else it holds (LangGraph)
    {"address.city": "Oslo"}              the same, unless there is a key "address.city", which comes first
    {"age": {"gtee": 18}}                 an error: it looks like an operator; a key of that name is "age.gtee"
    {"AND": [{…}, {…}]}                   every one holds
    {"OR": [{…}, {…}]}                    at least one holds
    {"NOT": {…}} or {"NOT": [{…}, {…}]}   none of them holds

What an operator asks of a value *v*, and what it says of null. A key that is missing reads as null.

    operator            holds where                                                              null or missing
    eq x      ne x      v equals x, or is a list with a member that does; or not                 equals `None` only
    in […]    nin […]   the same, of one of them; or of none of them                             equals `None` only
    gt gte lt lte x     both are numbers, both are times, or both are texts, in this order       never
    contains x          x is a part of the text v, or equals an element of the list v            never
    icontains x         the same for a text x, whatever the case                                 never
    exists True/False   v is there and not null, or the contrary                                 False

Equality is that of JSON: 1 equals 1.0, `True` is no number, lists and objects are compared as a whole. Times are datetimes
and texts like `2024-05-01T12:00:00+02:00`; without a zone they are UTC. A day (`2024-05-01`, or a `date`) is its start at the
UTC offset of the time that it is compared with: the day of who spoke. Two texts are ordered as times if both are times, else by
code point, and they are equal only letter by letter.

A filter of memories reads the memory's own fields (`FIELDS`) before the metadata. `metadata.role` names a key of the
metadata that shares its name with one of them. A field that is not set is null.

Filters are evaluated here, in Python, since databases disagree on what equal JSON values are (1, 1.0, true, nested
objects) and vector stores know part of the operators only; no key and no value ever becomes a part of an SQL text.
"""

from __future__ import annotations

from langmem_adapter.filters.operators import is_day, moment
from langmem_adapter.filters.parser import LOGIC, parse
from langmem_adapter.filters.tree import EVERYTHING, FIELDS, TIMES, Condition, Filter, values_of

__all__ = ["EVERYTHING", "FIELDS", "LOGIC", "TIMES", "Condition", "Filter", "is_day", "moment", "parse", "values_of"]
