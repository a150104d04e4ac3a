"""Records: the frozen dataclasses that all packages share, and checks of input.

Times are timezone-aware datetimes, in UTC or at the UTC offset of the speaker. Records that travel through the pipeline's state
(`Turn`, `Fact`, `Decision`, `Change`, `Triple`) have `to_json` / `from_json`: the state of a LangGraph graph holds plain JSON
types only, so that any checkpointer and any strict serializer can keep it.
"""
