"""What statements make of each other: mentions, ends, spans, opposite_relation; nothing else is touched."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, select

from langmem_adapter.records.graph import Triple
from langmem_adapter.records.results import Change
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.tables import entities, entity_names, relation_memories, relations
from tests.storage.graph.small_graph import Graph, triple, year

if TYPE_CHECKING:
    from collections.abc import Sequence

# Steps, each a statement, its date and more of the triple; then what is believed.
TOLD: dict[str, tuple[Sequence[Any], list[str]]] = {
    "one may like two things": (
        [("user likes pizza", 2019), ("user likes burgers", 2021)],
        ["alice likes burgers 2021-", "alice likes pizza 2019-"],
    ),
    "one home ends where the next begins": (
        [("user lives_in Paris", 2019), ("user lives_in Berlin", 2021)],
        ["alice lives_in Berlin 2021-", "alice lives_in Paris 2019-2021"],
    ),
    "it begins when it is said to, not when it is said": (
        [("user lives_in Paris", 2019), ("user lives_in Berlin", 2022, {"valid_from": year(2021)})],
        ["alice lives_in Berlin 2021-", "alice lives_in Paris 2019-2021"],
    ),
    "a late message bounds itself": (
        [("user lives_in Berlin", 2021), ("user lives_in Paris", 2019)],
        ["alice lives_in Berlin 2021-", "alice lives_in Paris 2019-2021"],
    ),
    "a late message between two bounds itself and ends the earlier": (
        [("user lives_in Rome", 2018), ("user lives_in Berlin", 2021), ("user lives_in Paris", 2019)],
        ["alice lives_in Berlin 2021-", "alice lives_in Paris 2019-2021", "alice lives_in Rome 2018-2019"],
    ),
    "who comes back has lived there twice": (
        [("user lives_in Paris", 2019), ("user lives_in Berlin", 2021), ("user lives_in Paris", 2023)],
        ["alice lives_in Berlin 2021-2023", "alice lives_in Paris 2019-2021", "alice lives_in Paris 2023-"],
    ),
    "who says it again says nothing new": (
        [("user lives_in Paris", 2019), ("user lives_in paris.", 2021)],
        ["alice lives_in Paris 2019-"],
    ),
    "said to have begun earlier, it began earlier": (
        [("user lives_in Paris", 2021), ("user lives_in Paris", 2022, {"valid_from": year(2018)})],
        ["alice lives_in Paris 2018-"],
    ),
    "an earlier beginning ends what was there before": (
        [
            ("user lives_in Rome", 2010),
            ("user lives_in Paris", 2021),
            ("user lives_in Paris", 2022, {"valid_from": year(2018)}),
        ],
        ["alice lives_in Paris 2018-", "alice lives_in Rome 2010-2018"],
    ),
    "the last one to contradict at the same moment is believed": (
        [("user lives_in Paris", 2021), ("user lives_in Berlin", 2021)],
        ["alice lives_in Berlin 2021-"],
    ),
    "a time within another time parts it": (
        [
            ("user lives_in Paris", 2015),
            ("user lives_in Rome", 2022, {"valid_from": year(2018), "valid_to": year(2019)}),
        ],
        ["alice lives_in Paris 2015-2018", "alice lives_in Paris 2019-", "alice lives_in Rome 2018-2019"],
    ),
    "a visit that is planned begins when it is said": (
        [("user lives_in Paris", 2015), ("user lives_in Rome", 2020, {"valid_to": year(2022)})],
        ["alice lives_in Paris 2015-2020", "alice lives_in Paris 2022-", "alice lives_in Rome 2020-2022"],
    ),
    "of a past without a beginning what was known before stays": (
        [
            ("user lives_in Rome", 2005, {"valid_to": year(2008)}),
            ("user lives_in Paris", 2020, {"valid_to": year(2010)}),
        ],
        ["alice lives_in Paris 2008-2010", "alice lives_in Rome 2005-2008"],
    ),
    "a past that is over by a date moves the beginning of the next": (
        [("user lives_in Rome", 2005), ("user lives_in Paris", 2020, {"valid_to": year(2010)})],
        ["alice lives_in Paris -2010", "alice lives_in Rome 2010-"],
    ),
    "dates the wrong way round are not believed": (
        [("user lives_in Rome", 2020, {"valid_from": year(2015), "valid_to": year(2010)})],
        ["alice lives_in Rome 2015-"],
    ),
    "what is over ends, and nothing else": (
        [
            ("user likes tea", 2019),
            ("user likes jazz", 2019),
            ("user drinks tea", 2019),
            ("user likes tea", 2021, {"ended": True}),
        ],
        ["alice drinks tea 2019-", "alice likes jazz 2019-", "alice likes tea 2019-2021"],
    ),
    "what is over by a date ends then": (
        [("user works_at Acme", 2019), ("user works_at Acme", 2022, {"ended": True, "valid_to": year(2021)})],
        ["alice works_at Acme 2019-2021"],
    ),
    "what is over and was known to be stays as it is": (
        [("user works_at Acme", 2019, {"valid_to": year(2020)}), ("user works_at Acme", 2022, {"ended": True})],
        ["alice works_at Acme 2019-2020"],
    ),
    "what is over and was never known becomes a past": (
        [("user works_at Acme", 2021, {"ended": True})],
        ["alice works_at Acme -2021"],
    ),
    "of a past that was never known what is known is left alone": (
        [("user works_at Bell", 2015), ("user works_at Acme", 2021, {"ended": True})],
        ["alice works_at Acme -2015", "alice works_at Bell 2015-"],
    ),
    "a past with both dates is taken at its word": (
        [
            ("user works_at Acme", 2020),
            ("user works_at Acme", 2022, {"ended": True, "valid_from": year(2015), "valid_to": year(2021)}),
        ],
        ["alice works_at Acme 2015-2021"],
    ),
    "what is over when it begins was never": (
        [("user works_at Acme", 2021), ("user works_at Acme", 2021, {"ended": True})],
        [],
    ),
    "news from before it began end nothing": (
        [("user works_at Acme", 2021), ("user works_at Acme", 2019, {"ended": True})],
        ["alice works_at Acme -2019", "alice works_at Acme 2021-"],
    ),
    "who dislikes it likes it no longer": (
        [("user likes tea", 2019), ("user dislikes tea", 2021), ("user likes tea", 2023)],
        ["alice dislikes tea 2021-2023", "alice likes tea 2019-2021", "alice likes tea 2023-"],
    ),
    "a late message gives way to an opposite, too": (
        [("user dislikes tea", 2021), ("user likes tea", 2019)],
        ["alice dislikes tea 2021-", "alice likes tea 2019-2021"],
    ),
    "in Chinese as well": (
        [("user 住在 北京", 2019), ("user 居住在 上海", 2021), ("user 喜欢 茶", 2019), ("user 讨厌 茶", 2021)],
        ["alice 不喜欢 茶 2021-", "alice 住在 上海 2021-", "alice 住在 北京 2019-2021", "alice 喜欢 茶 2019-2021"],
    ),
    "friends are friends of each other": (
        [("Ann friend_of Bea", 2019), ("Bea friends_with Ann", 2021)],
        ["Ann friend_of Bea 2019-"],
    ),
    "a friendship ends from either side": (
        [("Ann friend_of Bea", 2019), ("Bea friend_of Ann", 2021, {"ended": True})],
        ["Ann friend_of Bea 2019-2021"],
    ),
    "one has many friends": (
        [("Ann friend_of Bea", 2019), ("Cid friend_of Ann", 2021)],
        ["Ann friend_of Bea 2019-", "Cid friend_of Ann 2021-"],
    ),
    "one is married to one at a time, from either side": (
        [("Ann married_to Bob", 2010), ("Cid wife_of Bob", 2020), ("Dan married_to Ann", 2022)],
        ["Ann married_to Bob 2010-2020", "Cid married_to Bob 2020-", "Dan married_to Ann 2022-"],
    ),
    "one has one home, a home has many": (
        [("Ann lives_in Rome", 2010), ("Bob lives_in Rome", 2020)],
        ["Ann lives_in Rome 2010-", "Bob lives_in Rome 2020-"],
    ),
    "it can be said that there is one at a time": (
        [("user drives Fiat", 2010), ("user drives Audi", 2020, {"single": True})],
        ["alice drives Audi 2020-", "alice drives Fiat 2010-2020"],
    ),
    "it can be said that there are several": (
        [("user works_at Acme", 2010), ("user works_at Bell", 2020, {"single": False})],
        ["alice works_at Acme 2010-", "alice works_at Bell 2020-"],
    ),
    "of several, one that is said again ends the others from then on only": (
        [("user works_at Acme", 2010), ("user works_at Bell", 2015, {"single": False}), ("user works_at Acme", 2020)],
        ["alice works_at Acme 2010-", "alice works_at Bell 2015-2020"],
    ),
    "nothing is related to itself": (
        [("Ann knows ANN", 2010), ("user likes me", 2010)],
        ["alice likes me 2010-"],
    ),
    "names that look alike are the same": (
        [("Ann visited The_Louvre", 2010), ("ＡＮＮ visited louvre.", 2020)],
        ["Ann visited The_Louvre 2010-"],
    ),
    "numbers and ids never join others": (
        [
            ("Ann owns 0e37df36-f698-11e6-8dd4-cb9ced3df976", 2010),
            ("Ann owns 0e37df36-f698-11e6-8dd4-cb9ced3df977", 2010),
            ("Ann owns 12", 2010),
            ("Ann owns 1.2", 2010),
            ("Ann owns .12", 2010),
        ],
        [
            "Ann owns .12 2010-",
            "Ann owns 0e37df36-f698-11e6-8dd4-cb9ced3df976 2010-",
            "Ann owns 0e37df36-f698-11e6-8dd4-cb9ced3df977 2010-",
            "Ann owns 1.2 2010-",
            "Ann owns 12 2010-",
        ],
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_what_is_said_makes_what_is_believed(graph: Graph, case: str) -> None:
    steps, believed = TOLD[case]
    for text, when, *more in steps:
        graph.said(text, when, **(more[0] if more else {}))
    assert graph.now() == believed


@pytest.mark.parametrize("case", TOLD)
def test_said_in_one_write_it_is_the_same(graph: Graph, case: str) -> None:
    steps, believed = TOLD[case]
    decisions = [
        graph.decision(
            "ADD",
            f"{graph.scope.user_id}/{place}",
            f"fact {place}",
            triple(text, **(more[0] if more else {})),
            when=when,
        )
        for place, (text, when, *more) in enumerate(steps)
    ]
    graph.apply(*decisions)
    assert graph.now() == believed


# ── what is told of it ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_event_is_told_and_the_relation_itself_last(graph: Graph) -> None:
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


def test_one_decision_tells_what_became_of_a_relation_once(graph: Graph) -> None:
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


def test_what_was_believed_then_and_what_is_known_now(graph: Graph) -> None:
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


def test_a_relation_that_ends_keeps_its_id_and_one_that_holds_again_gets_another(graph: Graph) -> None:
    graph.said("user lives_in Paris", 2019)
    first = graph.ids()["alice lives_in Paris 2019-"]
    graph.said("user lives_in Berlin", 2021)
    assert graph.ids()["alice lives_in Paris 2019-2021"] == first
    graph.said("user lives_in Paris", 2023)
    assert graph.ids()["alice lives_in Paris 2023-"] != first


def test_mentions_types_and_the_best_confidence_are_kept(graph: Graph) -> None:
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
def test_user_and_assistant_are_those_of_the_scope(graph: Graph, scope: Scope, ends: tuple[str, str]) -> None:
    (change,) = graph.ledger.relate(scope, [Triple("user", "trusts", "assistant")])
    assert (change.relation.source, change.relation.target) == ends
    assert change.relation.scope == scope


def test_scopes_of_one_user_contradict_each_other_and_other_users_never(graph: Graph) -> None:
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


def test_what_two_scopes_say_stays_with_both(graph: Graph) -> None:
    user = str(graph.scope.user_id)
    runs = [Graph(graph.ledger, Scope(user_id=user, run_id=name)) for name in ("one", "two")]
    for run in runs:
        run.add("Likes tea", "Ann likes tea", when=2019)
    graph.add("Likes tea, still", "Ann likes tea", when=2021)
    believed = [row for row in graph.rows() if row.retired_at is None]
    assert len({row.scope_id for row in believed}) == len(believed) == 2


def test_of_two_hundred_relations_one_contradiction_ends_one(graph: Graph) -> None:
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
def test_long_names_of_every_script_are_kept_and_found_again(graph: Graph, name: str) -> None:
    for when in (2019, 2020):
        graph.ledger.relate(graph.scope, [Triple("user", "likes", name)], time=year(when))
    (row,) = graph.rows()
    assert (row.target, row.mentions) == (name.strip(), 2)


def test_a_thousand_relations_in_one_write(graph: Graph) -> None:
    triples = [
        Triple(f"person {place}", "lives_in" if place % 2 else "likes", f"city {place % 70}") for place in range(1_000)
    ]
    assert len(graph.ledger.relate(graph.scope, triples, time=year(2019))) == 1_000
    again = graph.ledger.relate(graph.scope, triples, time=year(2020))
    assert [change.event for change in again] == ["NONE"] * 1_000
    assert len(graph.rows()) == 1_000


# ── a repeated run, and none at all ─────────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_is_repeated_changes_nothing_in_the_graph(graph: Graph) -> None:
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


def test_a_write_that_fails_leaves_nothing_of_the_graph(graph: Graph) -> None:
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
