"""Head and tail of what a command writes. The rest is read and dropped: a container whose output nobody reads can't be killed."""

from collections import deque


class Capped:
    """Keeps the first and the last `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """One more piece, of any size."""
        room = self._limit - len(self._head)
        self._head += chunk[:room]
        rest = chunk[room:]
        if rest:
            self._tail.append(rest[-self._limit :])
            self._dropped += len(rest) - len(self._tail[-1])
            self._tail_size += len(self._tail[-1])
        while self._tail_size > self._limit and self._tail_size - len(self._tail[0]) >= self._limit:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self._dropped += gone

    def text(self) -> str:
        """At most twice the limit and one line that says what was left out."""
        tail = b"".join(self._tail)
        cut = tail[-self._limit :]
        dropped = self._dropped + len(tail) - len(cut)
        gap = f"\n[{dropped} bytes left out]\n".encode() if dropped else b""
        return (bytes(self._head) + gap + cut).decode(errors="replace")
