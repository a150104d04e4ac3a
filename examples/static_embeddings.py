"""Find memories by other words: static embeddings, without a model, a key or a network.

Run it with: python examples/static_embeddings.py    (needs the extra `static`)
"""

from langmem_adapter import Memory

TEXTS = (
    "Our puppy chewed the sofa again.",
    "The car is at the garage.",
    "Dinner was pasta, as ever.",
    "We painted the hall.",
)

for embeddings in ("hash:512", "static"):
    with Memory(":memory:", embeddings=embeddings) as memory:
        for text in TEXTS:
            memory.add(text, user_id="ada", infer=False)
        hit = memory.search("Has she got a dog?", user_id="ada", k=1)[0]
        print(f"{embeddings:<9} {hit.relevance:.2f} {hit.text}")
