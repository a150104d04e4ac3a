"""What statements make of each other: mentions, ends, spans, opposites; nothing else is touched."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import func, select

from langmem_adapter.records.graph import Triple
from langmem_adapter.records.results import Change
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.tables import entities, entity_names, relation_memories, relations
from tests.storage.graph.small_graph import Graph, triple, year

# A name, statements with their dates (and when they hold, or that they are over), and what is current afterwards.
STATEMENTS = """
one may like two things:
  2019 user likes pizza; 2021 user likes burgers
  > alice likes burgers 2021-; alice likes pizza 2019-
one home ends where the next begins:
  2019 user lives_in Paris; 2021 user lives_in Berlin
  > alice lives_in Berlin 2021-; alice lives_in Paris 2019-2021
it begins when it is said to, not when it is said:
  2019 user lives_in Paris; 2022 user lives_in Berlin from=2021
  > alice lives_in Berlin 2021-; alice lives_in Paris 2019-2021
a late message bounds itself:
  2021 user lives_in Berlin; 2019 user lives_in Paris
  > alice lives_in Berlin 2021-; alice lives_in Paris 2019-2021
a late message between two bounds itself and ends the earlier:
  2018 user lives_in Rome; 2021 user lives_in Berlin; 2019 user lives_in Paris
  > alice lives_in Berlin 2021-; alice lives_in Paris 2019-2021; alice lives_in Rome 2018-2019
who comes back has lived there twice:
  2019 user lives_in Paris; 2021 user lives_in Berlin; 2023 user lives_in Paris
  > alice lives_in Berlin 2021-2023; alice lives_in Paris 2019-2021; alice lives_in Paris 2023-
who says it again says nothing new:
  2019 user lives_in Paris; 2021 user lives_in paris.
  > alice lives_in Paris 2019-
said to have begun earlier, it began earlier:
  2021 user lives_in Paris; 2022 user lives_in Paris from=2018
  > alice lives_in Paris 2018-
an earlier beginning ends what was there before:
  2010 user lives_in Rome; 2021 user lives_in Paris; 2022 user lives_in Paris from=2018
  > alice lives_in Paris 2018-; alice lives_in Rome 2010-2018
the last one to contradict at the same moment is believed:
  2021 user lives_in Paris; 2021 user lives_in Berlin
  > alice lives_in Berlin 2021-
a time within another time parts it:
  2015 user lives_in Paris; 2022 user lives_in Rome from=2018 to=2019
  > alice lives_in Paris 2015-2018; alice lives_in Paris 2019-; alice lives_in Rome 2018-2019
a visit that is planned begins when it is said:
  2015 user lives_in Paris; 2020 user lives_in Rome to=2022
  > alice lives_in Paris 2015-2020; alice lives_in Paris 2022-; alice lives_in Rome 2020-2022
of a past without a beginning what was known before stays:
  2005 user lives_in Rome to=2008; 2020 user lives_in Paris to=2010
  > alice lives_in Paris 2008-2010; alice lives_in Rome 2005-2008
a past that is over by a date moves the beginning of the next:
  2005 user lives_in Rome; 2020 user lives_in Paris to=2010
  > alice lives_in Paris -2010; alice lives_in Rome 2010-
dates the wrong way round are not believed:
  2020 user lives_in Rome from=2015 to=2010
  > alice lives_in Rome 2015-
what is over ends, and nothing else:
  2019 user likes tea; 2019 user likes jazz; 2019 user drinks tea; 2021 user likes tea ended
  > alice drinks tea 2019-; alice likes jazz 2019-; alice likes tea 2019-2021
what is over by a date ends then:
  2019 user works_at Acme; 2022 user works_at Acme to=2021 ended
  > alice works_at Acme 2019-2021
what is over and was known to be stays as it is:
  2019 user works_at Acme to=2020; 2022 user works_at Acme ended
  > alice works_at Acme 2019-2020
what is over and was never known becomes a past:
  2021 user works_at Acme ended
  > alice works_at Acme -2021
of a past that was never known what is known is left alone:
  2015 user works_at Bell; 2021 user works_at Acme ended
  > alice works_at Acme -2015; alice works_at Bell 2015-
a past with both dates is taken at its word:
  2020 user works_at Acme; 2022 user works_at Acme from=2015 to=2021 ended
  > alice works_at Acme 2015-2021
what is over when it begins was never:
  2021 user works_at Acme; 2021 user works_at Acme ended
  >
news from before it began end nothing:
  2021 user works_at Acme; 2019 user works_at Acme ended
  > alice works_at Acme -2019; alice works_at Acme 2021-
who dislikes it likes it no longer:
  2019 user likes tea; 2021 user dislikes tea; 2023 user likes tea
  > alice dislikes tea 2021-2023; alice likes tea 2019-2021; alice likes tea 2023-
a late message gives way to an opposite, too:
  2021 user dislikes tea; 2019 user likes tea
  > alice dislikes tea 2021-; alice likes tea 2019-2021
in Chinese as well:
  2019 user 住在 北京; 2021 user 居住在 上海; 2019 user 喜欢 茶; 2021 user 讨厌 茶
  > alice 不喜欢 茶 2021-; alice 住在 上海 2021-; alice 住在 北京 2019-2021; alice 喜欢 茶 2019-2021
friends are friends of each other:
  2019 Ann friend_of Bea; 2021 Bea friends_with Ann
  > Ann friend_of Bea 2019-
a friendship ends from either side:
  2019 Ann friend_of Bea; 2021 Bea friend_of Ann ended
  > Ann friend_of Bea 2019-2021
one has many friends:
  2019 Ann friend_of Bea; 2021 Cid friend_of Ann
  > Ann friend_of Bea 2019-; Cid friend_of Ann 2021-
one is married to one at a time, from either side:
  2010 Ann married_to Bob; 2020 Cid wife_of Bob; 2022 Dan married_to Ann
  > Ann married_to Bob 2010-2020; Cid married_to Bob 2020-; Dan married_to Ann 2022-
one has one home, a home has many:
  2010 Ann lives_in Rome; 2020 Bob lives_in Rome
  > Ann lives_in Rome 2010-; Bob lives_in Rome 2020-
it can be said that there is one at a time:
  2010 user drives Fiat; 2020 user drives Audi single
  > alice drives Audi 2020-; alice drives Fiat 2010-2020
it can be said that there are several:
  2010 user works_at Acme; 2020 user works_at Bell several
  > alice works_at Acme 2010-; alice works_at Bell 2020-
of several, one that is said again ends the others from then on only:
  2010 user works_at Acme; 2015 user works_at Bell several; 2020 user works_at Acme
  > alice works_at Acme 2010-; alice works_at Bell 2015-2020
nothing is related to itself:
  2010 Ann knows ANN; 2010 user likes me
  > alice likes me 2010-
names that look alike are the same:
  2010 Ann visited The_Louvre; 2020 ＡＮＮ visited louvre.
  > Ann visited The_Louvre 2010-
numbers and ids never join others:
  2010 Ann owns 0e37df36-976; 2010 Ann owns 0e37df36-977; 2010 Ann owns 12; 2010 Ann owns 1.2; 2010 Ann owns .12
  > Ann owns .12 2010-; Ann owns 0e37df36-976 2010-; Ann owns 0e37df36-977 2010-; Ann owns 1.2 2010-; Ann owns 12 2010-
"""


def parse_step(step: str) -> tuple[str, int, dict[str, Any]]:
    """The text, the year and the fields of a triple."""
    when, source, relation, target, *more = step.split()
    fields: dict[str, Any] = {}
    for word in more:
        name, _, value = word.partition("=")
        fields |= {f"valid_{name}": year(int(value))} if value else FLAGS[name]
    return f"{source} {relation} {target}", int(when), fields


FLAGS: dict[str, dict[str, bool]] = {"ended": {"ended": True}, "single": {"single": True}, "several": {"single": False}}
CASES = {
    name: ([parse_step(step) for step in steps.split("; ")], current.split("; ") if current else [])
    for name, steps, current in re.findall(r"^(\S.*):\n  (.*)\n  > ?(.*)$", STATEMENTS, re.MULTILINE)
}


@pytest.mark.parametrize("case", CASES)
def test_relate_makes_the_current_relations_one_by_one(graph: Graph, case: str) -> None:
    steps, current = CASES[case]
    for text, when, fields in steps:
        graph.said(text, when, **fields)
    assert graph.now() == current


@pytest.mark.parametrize("case", CASES)
def test_apply_of_the_same_relations_in_one_write_gives_the_same(graph: Graph, case: str) -> None:
    steps, current = CASES[case]
    graph.apply(
        *(
            graph.decision("ADD", f"{graph.scope.user_id}/{place}", f"fact {place}", triple(text, **fields), when=when)
            for place, (text, when, fields) in enumerate(steps)
        )
    )
    assert graph.now() == current


# ── what is told of it ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_relate_reports_every_event_and_the_relation_itself_last(graph: Graph) -> None:
    assert graph.said("user lives_in Paris", 2019) == ["ADD alice lives_in Paris 2019-"]
    assert graph.said("user lives_in paris", 2020) == ["NONE alice lives_in Paris 2019-"]
    assert graph.said("user lives_in Paris", 2020, valid_from=year(2018)) == ["UPDATE alice lives_in Paris 2018-"]
    assert graph.said("user lives_in Rome", 2021) == [
        "END alice lives_in Paris 2018-2021",
        "ADD alice lives_in Rome 2021-",
    ]
    visit = graph.said("user lives_in Oslo", 2022, valid_to=year(2023))
    assert visit == [
        "END alice lives_in Rome 2021-2022",
        "ADD alice lives_in Rome 2023-",
        "ADD alice lives_in Oslo 2022-2023",
    ]
    assert graph.said("user lives_in Bonn", 2023) == [
        "DELETE alice lives_in Rome 2023-",
        "ADD alice lives_in Bonn 2023-",
    ]
    assert graph.said("user lives_in Bonn", 2024, ended=True) == ["END alice lives_in Bonn 2023-2024"]
    assert graph.said("user lives_in Bonn", 2025, ended=True) == []
    assert graph.said("user knows user", 2025) == []


def test_decision_reports_each_relation_once(graph: Graph) -> None:
    memory = graph.add("Lives in Paris", "user lives_in Paris", when=2019)
    change = graph.decide(
        "UPDATE", memory, "Moved to Rome in 2020", triple("user lives_in Rome", valid_from=year(2020)), when=2021
    )
    assert graph.told(change.relations) == ["END alice lives_in Paris 2019-2020", "ADD alice lives_in Rome 2020-"]
    both = graph.decide("ADD", "2", "Lives in Bonn or Oslo", "user lives_in Bonn", "user lives_in Oslo", when=2022)
    assert graph.told(both.relations) == ["END alice lives_in Rome 2020-2022", "ADD alice lives_in Oslo 2022-"]
    with graph.ledger.database.read() as connection:  # nothing is left of what came and went
        said = set(connection.execute(select(relation_memories.c.relation_id)).scalars())
        assert said <= set(connection.execute(select(relations.c.id)).scalars())


def test_known_at_keeps_older_relations(graph: Graph) -> None:
    graph.said("user lives_in Paris", 2019)
    then = datetime.now(UTC)
    graph.said("user lives_in Berlin", 2021)
    between = datetime.now(UTC)
    graph.said("user lives_in Rome", 2020)
    assert graph.known(then) == ["alice lives_in Paris 2019-"]
    assert graph.known(between) == ["alice lives_in Berlin 2021-", "alice lives_in Paris 2019-2021"]
    assert graph.now() == [
        "alice lives_in Berlin 2021-",
        "alice lives_in Paris 2019-2020",
        "alice lives_in Rome 2020-2021",
    ]


def test_relation_id_stays_at_the_end_and_is_new_when_it_holds_again(graph: Graph) -> None:
    graph.said("user lives_in Paris", 2019)
    first = graph.ids()["alice lives_in Paris 2019-"]
    graph.said("user lives_in Berlin", 2021)
    assert graph.ids()["alice lives_in Paris 2019-2021"] == first
    graph.said("user lives_in Paris", 2023)
    assert graph.ids()["alice lives_in Paris 2023-"] != first


def test_mentions_types_and_best_confidence_of_a_relation(graph: Graph) -> None:
    graph.said("Ann works_at Acme", 2019, confidence=0.5, target_type="company")
    graph.said("Ann works_at acme", 2018, confidence=0.9, source_type="person", target_type="school")
    graph.said("Ann works_at Acme", 2020, confidence=0.1)
    (row,) = [row for row in graph.rows() if row.retired_at is None]
    assert (row.mentions, row.confidence, row.valid_from) == (3, 0.9, year(2018))
    with graph.ledger.database.read() as connection:
        query = select(entities.c.type, entities.c.mentions, entities.c.updated_at)
        assert connection.execute(query.where(entities.c.pk == row.source_pk)).one() == ("person", 3, year(2020))
        assert connection.execute(query.where(entities.c.pk == row.target_pk)).one() == ("company", 3, year(2020))


# ── whose it is ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("scope", "ends"),
    [
        (Scope(user_id="The Ann", agent_id="bot"), ("The Ann", "bot")),
        (Scope(user_id="Ann"), ("Ann", "assistant")),
        (Scope(agent_id="bot"), ("user", "bot")),
        (Scope(run_id="r1"), ("user", "assistant")),
    ],
)
def test_relate_takes_user_and_assistant_from_the_scope(graph: Graph, scope: Scope, ends: tuple[str, str]) -> None:
    (change,) = graph.ledger.relate(scope, [Triple("user", "trusts", "assistant")])
    assert (change.relation.source, change.relation.target) == ends
    assert change.relation.scope == scope


def test_relations_contradict_within_the_scopes_of_one_user(graph: Graph) -> None:
    user = str(graph.scope.user_id)
    work = Graph(graph.ledger, Scope(user_id=user, run_id="work"))
    other = Graph(graph.ledger)
    for each in (work, other):
        each.add("Lives in Paris", Triple("Ann", "lives_in", "Paris"), when=2019)
        each.add("Likes tea", Triple("Ann", "likes", "tea"), when=2019)
    here = graph.add("Lives in Rome", Triple("Ann", "lives_in", "Rome"), Triple("Ann", "likes", "tea"), when=2021)
    assert other.now() == ["Ann lives_in Paris 2019-", "Ann likes tea 2019-"][::-1]
    assert graph.now() == ["Ann likes tea 2019-", "Ann lives_in Paris 2019-2021", "Ann lives_in Rome 2021-"]
    assert here in graph.sayers(graph.ids()["Ann likes tea 2019-"])


def test_relations_of_two_scopes_stay_in_both(graph: Graph) -> None:
    user = str(graph.scope.user_id)
    runs = [Graph(graph.ledger, Scope(user_id=user, run_id=name)) for name in ("one", "two")]
    for run in runs:
        run.add("Likes tea", "Ann likes tea", when=2019)
    graph.add("Likes tea, still", "Ann likes tea", when=2021)
    believed = [row for row in graph.rows() if row.retired_at is None]
    assert len({row.scope_id for row in believed}) == len(believed) == 2


def test_relate_ends_one_of_two_hundred_relations(graph: Graph) -> None:
    near = [
        triple(f"user {verb} {name}")
        for verb in ("visited", "likes", "knows", "born_in")
        for name in ("Paris", "Lyon_2")
    ]
    near += [triple(f"{name} lives_in Paris") for name in ("Ann", "Bob", "Paris_Hilton", "user2", "alice_2")]
    near += [triple(f"{name} married_to {name}_2") for name in ("Ann", "Bob")]
    near += [triple(f"user visited city_{place}") for place in range(90)]
    near += [triple(f"friend_{place} lives_in city_{place}") for place in range(200 - len(near) - 1)]
    graph.apply(
        graph.decision("ADD", "m" + str(graph.scope.user_id), "much", *near, triple("user lives_in Paris"), when=2019)
    )
    before = graph.ids()
    assert len(before) >= 190
    graph.said("user lives_in Lyon", 2021)
    after = graph.ids()
    assert set(before) - set(after) == {"alice lives_in Paris 2019-"}
    assert set(after) - set(before) == {"alice lives_in Paris 2019-2021", "alice lives_in Lyon 2021-"}
    assert all(after[words] == before[words] for words in set(after) & set(before))


# ── size ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

WIDE = ["北京大学" * 50, "👩‍👩‍👧‍👦" * 18 + "🏳️‍🌈", "مدينة نيويورك " * 14, "é" * 200, "x" * 200]


@pytest.mark.parametrize("name", WIDE, ids=["chinese", "emoji", "arabic", "accents", "letters"])
def test_relate_keeps_long_names_of_every_script(graph: Graph, name: str) -> None:
    for when in (2019, 2020):
        graph.ledger.relate(graph.scope, [Triple("user", "likes", name)], time=year(when))
    (row,) = graph.rows()
    assert (row.target, row.mentions) == (name.strip(), 2)


def test_relate_of_a_thousand_relations_in_one_write(graph: Graph) -> None:
    triples = [
        Triple(f"person {place}", "lives_in" if place % 2 else "likes", f"city {place % 70}") for place in range(1_000)
    ]
    assert len(graph.ledger.relate(graph.scope, triples, time=year(2019))) == 1_000
    again = graph.ledger.relate(graph.scope, triples, time=year(2020))
    assert [change.event for change in again] == ["NONE"] * 1_000
    assert len(graph.rows()) == 1_000


# ── a repeated run, and none at all ─────────────────────────────────────────────────────────────────────────────────────


def test_idempotency_key_repeats_no_relation(graph: Graph) -> None:
    old = graph.add("Lives in Paris", "user lives_in Paris", when=2019)
    decisions = (
        graph.decision("UPDATE", old, "Lives in Rome", "user lives_in Rome", when=2021),
        graph.decision(
            "ADD",
            None,
            "Likes tea",
            triple("user likes tea", valid_from=year(2000), confidence=0.25),
            when=2021,
        ),
    )
    key = f"run-{old}"
    first = graph.apply(*decisions, key=key)
    rows = graph.rows()
    assert graph.apply(*decisions, key=key) == first == graph.ledger.finished(graph.scope, key)
    assert graph.rows() == rows
    assert [len(change.relations) for change in first] == [2, 1]
    assert [Change.from_json(change.to_json()) for change in first] == list(first)


def test_apply_that_fails_leaves_no_relation(graph: Graph) -> None:
    graph.add("Lives in Paris", "user lives_in Paris", when=2019)
    rows = graph.rows()
    missing = graph.decision("DELETE", "nobody", None)
    with pytest.raises(LookupError):
        graph.apply(
            graph.decision("ADD", f"x{graph.scope.user_id}", "Lives in Rome", "user lives_in Rome", when=2021), missing
        )
    assert graph.rows() == rows
    with graph.ledger.database.read() as connection:
        assert (
            connection.execute(
                select(func.count()).where(entity_names.c.key == "rome", entity_names.c.scope_id == rows[0].scope_id)
            ).scalar()
            == 0
        )
