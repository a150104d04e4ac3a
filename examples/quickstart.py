"""Add memories, change one, search: without a key and without a network.

Run it with: python examples/quickstart.py
It writes to the default database; LANGMEM_ADAPTER_DATABASE=some.db selects another one.
"""

from langmem_adapter import Memory

with Memory() as memory:
    print(f"mode: {memory.mode}, data: {memory.location}")
    for text in ("My name is Ada and I live in Kyoto.", "I love jazz.", "I live in Lyon now."):
        for change in memory.add(text, user_id="ada").results:
            print(f"{change.event:<7} {change.text}")

    for hit in memory.search("Where does she live?", user_id="ada", k=1):
        print(f"\nWhere does she live? {hit.text}")
        for revision in memory.history(hit.id, user_id="ada"):
            print(f"  v{revision.revision} {revision.event}: {revision.old_text} -> {revision.new_text}")
