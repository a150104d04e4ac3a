"""The log of a team of roles: speakers, causes, and which messages are new; in the database or in RAM."""

from langchain_core.messages import AIMessage, HumanMessage

from langmem_adapter import Memory
from langmem_adapter.conversation import WorkingMemory, carried, stamp

with Memory() as memory:  # without memory=memory the log is in RAM
    log = WorkingMemory(watch=["UserRequirement"], memory=memory, session_id="snake", user_id="ann@example.com")
    wish = stamp(HumanMessage("Write a command line snake game.", id="1"), cause_by="UserRequirement")
    plan = stamp(
        AIMessage("Goals: fun, short.", id="2"), cause_by="WritePRD", label="Product manager", send_to=["Engineer"]
    )
    print("new:", log.add_batch([wish, plan, wish]))

    print("watched:", [message.text for message in log.important_memory()])
    for message in log.get_by_actions(["WritePRD", "UserRequirement"]):
        print(f"{carried(message).label or 'user'}: {message.text}")
    print("news:", [message.text for message in log.find_news([plan, HumanMessage("Make it red.", id="3")])])
