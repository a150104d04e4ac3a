"""What a conversation, or a role of one, keeps of what was said: MetaGPT's three memories (seed 002), finished.

`working` is an ordered log of messages, `long_term` remembers what a role watches for good, `brain` makes summaries and titles;
`experience` keeps requests with their answers and scores (`appraisal` says what is made of them), `acquaintance` says what
is known about somebody.
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
