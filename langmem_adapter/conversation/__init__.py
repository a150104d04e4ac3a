"""Memory of a conversation, or of a role in one: MetaGPT's three memories (seed 002), and experiences.

`working` is an ordered log of messages, `long_term` turns messages that a role watches into memories, `brain` makes summaries
and titles; `experience` keeps requests with responses and scores, and summarises what is known about a person.
"""

from langmem_adapter.conversation.brain import BrainMemory
from langmem_adapter.conversation.experience import Experience, ExperienceMemory, Reflection, Score, areflect, reflect
from langmem_adapter.conversation.long_term import LongTermMemory
from langmem_adapter.conversation.working import WorkingMemory, latest
from langmem_adapter.records.envelope import Carried, carried, register, stamp

__all__ = [
    "BrainMemory",
    "Carried",
    "Experience",
    "ExperienceMemory",
    "LongTermMemory",
    "Reflection",
    "Score",
    "WorkingMemory",
    "areflect",
    "carried",
    "latest",
    "reflect",
    "register",
    "stamp",
]
