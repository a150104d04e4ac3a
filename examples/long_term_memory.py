"""A role that remembers the messages that it watches: one like an earlier one is not new, also after a restart."""

from langchain_core.messages import HumanMessage

from langmem_adapter import Memory
from langmem_adapter.conversation import LongTermMemory, stamp

DAYS = {"Monday": ["Write a snake game", "画一只猫"], "Tuesday": ["Write a snake game!", "Write a 2048 game"]}

for day, wishes in DAYS.items():
    with Memory() as memory:
        role = LongTermMemory(memory, watch=["UserRequirement"], user_id="ann@example.com")
        first, count = role.recover_memory("engineer")
        print(f"{day}: {'the first time' if first else f'{count} messages in memory'}")
        news = role.find_news([stamp(HumanMessage(wish), cause_by="UserRequirement") for wish in wishes])
        for seen in news.seen:
            print(f"  not new, {seen.why} to an earlier one: {seen.message.text}")
        print("  new:", [message.text for message in news])
        role.add_batch(news)
