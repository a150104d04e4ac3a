"""A role that remembers what it watches: a wish like an earlier one is no news, even after a restart."""

from langchain_core.messages import HumanMessage

from langmem_adapter import Memory
from langmem_adapter.conversation import LongTermMemory, stamp

DAYS = {"Monday": ["Write a snake game", "画一只猫"], "Tuesday": ["Write a snake game!", "Write a 2048 game"]}

for day, wishes in DAYS.items():
    with Memory() as memory:
        role = LongTermMemory(memory, watch=["UserRequirement"], user_id="ann@example.com")
        first, known = role.recover_memory("engineer")
        print(f"{day}: {'the first time' if first else f'{known} messages known'}")
        news = role.find_news([stamp(HumanMessage(wish), cause_by="UserRequirement") for wish in wishes])
        for seen in news.seen:
            print(f"  no news, {seen.why} to one of before: {seen.message.text}")
        print("  news:", [message.text for message in news])
        role.add_batch(news)
