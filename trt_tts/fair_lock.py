"""A lock that serves threads in the order in which they came, and tells whether somebody waits."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class FairLock:
    """Not reentrant. A holder that goes on for long may look at `wanted` and let go now and then."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiting: deque[threading.Lock] = deque()

    @property
    def wanted(self) -> bool:
        """Whether another thread waits for it."""
        return bool(self._waiting)

    def __enter__(self) -> None:
        with self._guard:
            if not self._held:
                self._held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire()  # released by the holder before: the lock is handed over
        except BaseException:  # Ctrl-C while waiting
            self._give_up(turn)
            raise

    def take_if_free(self) -> bool:
        """Take it without waiting for anything; `release` gives it back."""
        if not self._guard.acquire(blocking=False):
            return False
        try:
            taken = not self._held
            self._held = True
        finally:
            self._guard.release()
        return taken

    def release(self) -> None:
        """Hand it over to who waits longest."""
        with self._guard:
            self._hand_over()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _hand_over(self) -> None:
        if self._waiting:
            self._waiting.popleft().release()
        else:
            self._held = False

    def _give_up(self, turn: threading.Lock) -> None:
        with self._guard:
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:
                self._hand_over()  # it had come already
