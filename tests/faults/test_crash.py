"""Nothing acknowledged is lost and nothing unasked for appears, whenever a process is killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.campaign import Campaign
from tests.faults.conftest import LONG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.faults.conftest import Bound

FAILING = 0.03  # of the commits fail as on a broken disk, while others are killed
PER_DATABASE = 10
RESTORE = 4  # after each so many rounds an older backup is put back under the newer snapshot


@pytest.mark.timeout(1200)
def test_writers_a_forking_one_and_a_reader_killed_at_random_moments(
    tmp_path: Path, bound: Bound, measured: Callable[[str], None]
) -> None:
    rounds, campaigns = bound(4, long=240), []
    for start in range(0, rounds, PER_DATABASE):
        folder = tmp_path / str(start)
        (folder / "db").mkdir(parents=True)
        campaign = Campaign(str(folder / "db" / "memory.db"), folder / "notes", failing=FAILING)
        campaigns.append(campaign)
        for number in range(1, min(PER_DATABASE, rounds) + 1):
            restoring = number % RESTORE == 0
            assert (campaign.round_and_restore() if restoring else campaign.round()) == [], campaign
    forks = sum(campaign.forks for campaign in campaigns)
    kills = sum(campaign.kills for campaign in campaigns) + forks
    acknowledged = sum(campaign.acknowledged() for campaign in campaigns)
    restored = sum(campaign.restored for campaign in campaigns)
    assert kills >= 4 * rounds
    measured(
        f"SQLite: {kills} processes killed in {rounds} rounds, {forks} of them forked by others, {restored} backups "
        f"restored, {acknowledged} operations acknowledged: 0 lost, 0 phantoms, 0 differences"
    )


@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_add_on_postgres_by_clients_killed_at_random(
    postgres_url: str, tmp_path: Path, bound: Bound, measured: Callable[[str], None]
) -> None:
    campaign = Campaign(postgres_url, tmp_path / "notes", failing=FAILING)
    for _ in range(bound(1, long=25)):
        assert campaign.round() == [], campaign
    measured(
        f"Postgres: {campaign.kills} clients killed in {campaign.rounds} rounds, {campaign.acknowledged()} operations "
        "acknowledged: 0 lost, 0 phantoms, 0 differences"
    )


SEEN_AS: dict[str, Any] = {
    "acknowledge before commit": "lost: ",
    "index before commit": "index",
    "deletes not replayed": "index",
    "no lineage check": "index",
    "no look before a search": "a search did not find",
    "forks unguarded": "lost: ",
}
ROUNDS = 40  # a mutant that survives these has not been caught


@pytest.mark.skipif(not LONG, reason="how soon it is caught is a matter of chance: make faults")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", SEEN_AS)
def test_verify_catches_an_engine_that_breaks_a_promise(
    mutant: str, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    (tmp_path / "db").mkdir()
    failing = 0.2 if mutant == "index before commit" else 0.0  # it takes a transaction that is undone
    campaign = Campaign(str(tmp_path / "db" / "memory.db"), tmp_path / "notes", mutant, failing)
    seen: list[str] = []
    while campaign.rounds < ROUNDS and not any(SEEN_AS[mutant] in problem for problem in seen):
        seen = campaign.round_and_restore() if mutant == "no lineage check" else campaign.round()
    assert any(SEEN_AS[mutant] in problem for problem in seen), seen
    measured(f"mutant '{mutant}': caught in round {campaign.rounds}")
