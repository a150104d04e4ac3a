"""The knowledge graph: relations that messages state, with their dates, and how two entities are connected."""

from langmem_adapter import Memory

with Memory(":memory:", graph=True) as memory:
    memory.add("I live in Kyoto. My sister Mia works at Bosch.", user_id="ada", timestamp="2024-05-01")
    result = memory.add("I moved to Lyon.", user_id="ada", timestamp="2026-02-01")
    print("ended:", *(relation.text for relation in result.relations.ended))

    for relation in memory.graph.relations(user_id="ada"):
        print(f"{relation.text}, since {relation.valid_from:%Y-%m-%d}")
    for relation in memory.graph.relations(user_id="ada", relation="lives in", as_of="2025-01-01"):
        print("in 2025:", relation.text)

    memory.graph.add("Mia", "married to", "Tom", user_id="ada")
    print("Tom:", " -> ".join(relation.text for relation in memory.graph.path("ada", "Tom", user_id="ada")))
    print(memory.graph.draw(user_id="ada", entity="Mia", hops=1), end="")
