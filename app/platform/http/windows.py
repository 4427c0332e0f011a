"""The windows of rate limits, by a clock that is never set: the library's own follow the machine's wall clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from limits.storage import Storage

_SWEPT_AT = 1000


@dataclass(slots=True)
class _Window:
    ends_s: float
    count: int


class Windows(Storage):
    """Counters in this process's memory. `ticks_s` has to go on evenly, wherever it begins.

    Windows that have ended are swept out whenever their number has doubled, so memory stays in proportion to the
    callers of one window.
    """

    def __init__(self, ticks_s: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._ticks_s = ticks_s
        self._windows: dict[str, _Window] = {}
        self._sweep_at = _SWEPT_AT

    @property
    def base_exceptions(self) -> type[Exception]:
        """Return the errors of this storage: none is its own."""
        return ValueError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count, and return the window's count. A window begins with the first count after the last one has ended."""
        now_s = self._ticks_s()
        window = self._windows.get(key)
        if window is None or window.ends_s <= now_s:
            self._sweep(now_s)
            window = self._windows[key] = _Window(now_s + expiry, 0)
        window.count += amount
        return window.count

    def get(self, key: str) -> int:
        """Return the count of the present window."""
        window = self._windows.get(key)
        return 0 if window is None or window.ends_s <= self._ticks_s() else window.count

    def get_expiry(self, key: str) -> float:
        """Return the end of the present window, on this storage's clock."""
        window = self._windows.get(key)
        return self._ticks_s() if window is None else window.ends_s

    def check(self) -> bool:
        """Return True: memory is always there."""
        return True

    def reset(self) -> int:
        """Forget every window; return how many there were."""
        count = len(self._windows)
        self._windows.clear()
        return count

    def clear(self, key: str) -> None:
        """Forget one window."""
        self._windows.pop(key, None)

    def _sweep(self, now_s: float) -> None:
        if len(self._windows) >= self._sweep_at:
            self._windows = {key: window for key, window in self._windows.items() if window.ends_s > now_s}
            self._sweep_at = max(_SWEPT_AT, 2 * len(self._windows))
