"""Turning the one description of an operation into a method of both clients, each with its own type.

On a client that waits, a method gives the answer, and a list is an iterator; on an asynchronous one it gives something
to await, and an asynchronous iterator. Type checkers see both (decision 31).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from tenure_client.calls import Call, Listing

P = ParamSpec("P")
T = TypeVar("T")


class Waiting(Protocol):
    """A client that waits for answers."""

    def send(self, call: Call[T]) -> T:
        """The answer."""

    def every(self, listing: Listing[T]) -> Iterator[T]:
        """All items of a list, page by page."""


class Awaiting(Protocol):
    """A client whose answers are awaited."""

    async def asend(self, call: Call[T]) -> T:
        """The answer."""

    def aevery(self, listing: Listing[T]) -> AsyncIterator[T]:
        """All items of a list, page by page."""


class Method(Generic[P, T]):
    """A method that sends one call."""

    def __init__(self, describe: Callable[P, Call[T]]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Method[P, T]: ...
    @overload
    def __get__(self, client: Waiting, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Waiting | Awaiting | None, owner: type) -> object:
        if client is None:
            return self
        send = client.send if hasattr(client, "send") else client.asend
        describe = self.describe

        @wraps(describe)
        def method(*args: P.args, **kwargs: P.kwargs) -> object:
            return send(describe(*args, **kwargs))

        return method


class ListMethod(Generic[P, T]):
    """A method that reads a list, of as many pages as are wanted."""

    def __init__(self, describe: Callable[P, Listing[T]]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> ListMethod[P, T]: ...
    @overload
    def __get__(self, client: Waiting, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, AsyncIterator[T]]: ...

    def __get__(self, client: Waiting | Awaiting | None, owner: type) -> object:
        if client is None:
            return self
        every = client.every if hasattr(client, "every") else client.aevery
        describe = self.describe

        @wraps(describe)
        def method(*args: P.args, **kwargs: P.kwargs) -> object:
            return every(describe(*args, **kwargs))

        return method
