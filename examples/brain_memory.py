"""A conversation of any length within a fixed number of tokens: a summary replaces older messages, none is lost."""

from langchain_core.messages.utils import count_tokens_approximately

from langmem_adapter import Memory
from langmem_adapter.conversation import BrainMemory

with Memory() as memory:  # Memory(model="openai:gpt-5-mini") writes summaries with the model
    brain = BrainMemory(memory, "monday", user_id="ann@example.com")
    for day in range(1, 101):
        brain.add_talk(f"Today I walked {day} miles along the Loire, and saw {day % 7} herons.")
        brain.add_answer(f"That makes {day * (day + 1) // 2} miles in all.")
        context = brain.context(max_tokens=1_000)  # for the chat model

    print(count_tokens_approximately(context), "tokens for", 200, "messages")
    print(*context[0].text.splitlines()[:4], "...", sep="\n")
    print(context[-1].text)
    last = brain.notes("summary")[-1]
    print(f"summarized: messages {last.covers_from} to {last.covers_to}, by {last.made_by}")
    print("title:", brain.get_title())
