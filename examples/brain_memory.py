"""A conversation of any length within a fixed number of tokens: older messages are summed up, none is lost."""

from langmem_adapter import Memory
from langmem_adapter.conversation import BrainMemory
from langmem_adapter.conversation.summaries import about_tokens

with Memory() as memory:  # Memory(model="openai:gpt-5-mini") sums up in words of its own
    brain = BrainMemory(memory, "monday", user_id="ann@example.com")
    for day in range(1, 101):
        brain.add_talk(f"Today I walked {day} miles along the Loire, and saw {day % 7} herons.")
        brain.add_answer(f"That makes {day * (day + 1) // 2} miles in all.")
        context = brain.context(max_tokens=1_000)  # for the chat model

    print(about_tokens(context), "tokens for", 200, "messages")
    print(*context[0].text.splitlines()[:4], "...", sep="\n")
    print(context[-1].text)
    last = brain.notes("summary")[-1]
    print(f"summed up: messages {last.covers_from} to {last.covers_to}, by {last.made_by}")
    print("title:", brain.get_title())
