"""Answers over HTTP that are given up in time, however slowly they come, and before they are too large to hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

LARGEST = 8 << 20
"""Bytes of an answer. A page of a thousand nodes takes about half a mebibyte."""
_CHUNK = 1024
"""A chunk is waited for as a whole. So a small one lets go of a dripping answer soon."""
_MOST = 64
"""Questions in hand at a time, those that were given up and have not ended yet among them."""
ReadAnswer = tuple[Any, bytes]
"""An answer of requests, and its content."""


class GaveUp(Exception):
    """An answer did not come in time, or is too large."""


class AnswerWait:
    """Waits for answers for `longest_s` seconds each. Threads may share it.

    Time limits of sockets begin anew with each byte. So a question has a thread of its own, which is left behind when
    its time is over, and ends when the next chunk has come or the connection is over.
    """

    def __init__(self, longest_s: float, most: int = _MOST) -> None:
        self._longest_s = longest_s
        self._free = threading.Semaphore(most)

    def wait(self, ask: Callable[[], Any]) -> ReadAnswer:
        """Return the answer to `ask`, which is one of requests whose content was not read. Raises GaveUp.

        Raises what `ask` raises, too.
        """
        until_s = time.monotonic() + self._longest_s
        if not self._free.acquire(timeout=self._longest_s):
            raise GaveUp("too many questions are open")
        question = _BoundedQuestion(ask, until_s, self._free.release)
        threading.Thread(target=question.run, name="tenure-question", daemon=True).start()
        return question.wait()


class _BoundedQuestion:
    """One question."""

    def __init__(self, ask: Callable[[], Any], until_s: float, over: Callable[[], None]) -> None:
        self._ask, self._until_s, self._over = ask, until_s, over
        self._ended = threading.Event()
        self._answer: ReadAnswer | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            answer = self._ask()
            try:
                self._answer = answer, self._read(answer)
            finally:
                answer.close()
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            self._error = error
        finally:
            self._over()
            self._ended.set()

    def wait(self) -> ReadAnswer:
        if not self._ended.wait(max(self._until_s - time.monotonic(), 0.0)):
            raise GaveUp("its answer takes too long")
        if self._error is not None:
            raise self._error
        assert self._answer is not None
        return self._answer

    def _read(self, answer: Any) -> bytes:  # noqa: ANN401 - of requests
        content = bytearray()
        for chunk in answer.iter_content(_CHUNK):
            content += chunk
            if len(content) > LARGEST:
                raise GaveUp(f"its answer is larger than {LARGEST >> 20} MiB")
            if time.monotonic() > self._until_s:
                raise GaveUp("its answer takes too long")
        return bytes(content)
