"""The words that everyone in this house speaks: small frozen records, no I/O.

Times are timezone-aware datetimes, in UTC or at the UTC offset of who spoke. Records that travel through the pipeline's state
(`Turn`, `Fact`, `Decision`, `Change`, `Triple`) have `to_json` / `from_json`: the state of a LangGraph graph holds plain JSON
types only, so that any checkpointer and any strict serializer can keep it.
"""
