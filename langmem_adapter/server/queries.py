"""What the query string of a request may say: each name once."""

from collections import Counter

from fastapi import Request
from fastapi.exceptions import RequestValidationError

__all__ = ["once"]


async def once(request: Request) -> None:
    """Refuse a name that is given more than once: all but one would be overlooked, and it may say whose memories are meant.

    Args:
        request: Whose query string it is.

    Raises:
        RequestValidationError: It gives a name twice.
    """
    given = Counter(name for name, _ in request.query_params.multi_items())
    repeated = [name for name, times in given.items() if times > 1]
    if repeated:
        told = {"msg": "Give it once", "type": "repeated"}
        raise RequestValidationError([{"loc": ("query", name), **told} for name in repeated])
