"""`Results` and `Row`: a dict for today's programs, a list of rows for those of Mem0 0.0.x."""

from __future__ import annotations

import copy
import io
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from langmem_adapter.adapters.mem0 import Results, Row

TEXTS = st.lists(st.text(max_size=8), max_size=4)


def rows(*texts: str) -> list[Row]:
    return [Row(id=str(place), memory=text) for place, text in enumerate(texts)]


class Model(BaseModel):
    given: dict[str, Any]
    anything: Any


@given(TEXTS)
def test_it_is_walked_and_counted_as_rows_and_read_as_a_dict(texts: list[str]) -> None:
    held = rows(*texts)
    result = Results(held)
    walked: list[Any] = list(result)
    assert walked == held == result["results"] == result.get("results")
    assert [row["text"] for row in result] == texts
    assert len(result) == len(texts)
    assert result == {"results": held} and result == held
    assert result not in ([*held, 1], {})
    assert list(result.keys()) == ["results"] and list(result.items()) == [("results", held)]
    assert isinstance(result, dict) and "results" in result and "relations" not in result
    other: Any = {"id": "x"}
    assert all(result.__contains__(row) for row in held) and other not in result
    assert result[:1] == held[:1]
    assert all(result[place] is row for place, row in enumerate(held))


@given(TEXTS)
def test_every_copy_and_every_encoder_sees_the_one_key(texts: list[str]) -> None:
    held = rows(*texts)
    result = Results(held)
    plain = {"results": [{"id": row["id"], "memory": row["memory"]} for row in held]}
    assert json.loads(json.dumps(result)) == plain
    assert json.loads(json.dumps(result, indent=2, sort_keys=True)) == plain
    file = io.StringIO()
    json.dump(result, file)
    assert json.loads(file.getvalue()) == plain
    assert dict(result) == plain == {**result} == (result | {}) == copy.copy(result) == copy.deepcopy(result)
    again = pickle.loads(pickle.dumps(result))  # noqa: S301 - our own bytes
    assert type(again) is Results and again == result
    model = Model(given=result, anything=result)
    assert model.given == plain
    assert json.loads(model.model_dump_json()) == {"given": plain, "anything": plain}


def test_an_empty_result_is_true_like_mem0s_dict_and_has_no_length() -> None:
    empty = Results([])
    assert bool(empty) and len(empty) == 0 and empty == [] and empty == {"results": []}
    assert json.dumps(empty, indent=None) == '{"results": []}'


def test_a_row_answers_to_its_old_name_without_having_it() -> None:
    row = Row(id="1", memory="Likes tea")
    assert row["text"] == row.get("text") == row["memory"] == "Likes tea"
    assert "text" not in row and set(row) == {"id", "memory"} and json.loads(json.dumps(row)) == dict(row)
    assert row.get("score") is None and row.get("score", 3) == 3
    with pytest.raises(KeyError, match="data"):
        row["data"]


def test_a_result_knows_no_other_key_and_no_place_behind_the_last() -> None:
    with pytest.raises(KeyError):
        Results(rows("a"))["relations"]
    with pytest.raises(IndexError):
        Results(rows("a"))[1]
