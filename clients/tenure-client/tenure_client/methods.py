"""Methods of both clients, each with its own type, made from the one description of a call.

In the waiting client a method returns the answer, and a list is an iterator. In the asynchronous one it returns an
awaitable or an asynchronous iterator. Type checkers see both (docs/decisions/0031-one-client-twice.md).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from tenure_client.endpoints import Call, Listing

P = ParamSpec("P")
T = TypeVar("T")
Waited = TypeVar("Waited")
Awaited = TypeVar("Awaited")


class Waiting(Protocol):
    """A client that waits for answers."""

    def send(self, call: Call[T]) -> T:
        """Return the answer."""

    def every(self, listing: Listing[T]) -> Iterator[T]:
        """Yield all items of a list, page by page."""


class Awaiting(Protocol):
    """A client whose answers are awaited."""

    def send(self, call: Call[T]) -> Coroutine[Any, Any, T]:
        """Return the answer."""

    def every(self, listing: Listing[T]) -> AsyncIterator[T]:
        """Yield all items of a list, page by page."""


class Method(Generic[P, Waited, Awaited]):
    """A method that sends one call, or reads as many pages of a list as are needed."""

    @overload
    def __init__(self: Method[P, T, Coroutine[Any, Any, T]], describe: Callable[P, Call[T]]) -> None: ...
    @overload
    def __init__(self: Method[P, Iterator[T], AsyncIterator[T]], describe: Callable[P, Listing[T]]) -> None: ...

    def __init__(self, describe: Callable[P, Any]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Method[P, Waited, Awaited]: ...
    @overload
    def __get__(self, client: Waiting, owner: type) -> Callable[P, Waited]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, Awaited]: ...

    def __get__(self, client: Waiting | Awaiting | None, owner: type) -> object:
        if client is None:
            return self
        describe = self.describe

        @wraps(describe)
        def method(*args: P.args, **kwargs: P.kwargs) -> object:
            described = describe(*args, **kwargs)
            return client.every(described) if isinstance(described, Listing) else client.send(described)

        return method
