"""A consumer of a cloud's events, as a process of its own: keeps what it got in a file, and resumes from there.

Its file is its only memory. A last line that was not finished when it was killed is thrown away, so that what stands
in the file is what it has taken, and the id of the last whole line is where it goes on.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import httpx2


def main(url: str, token: str, file: Path) -> None:
    whole = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
    lines = whole.splitlines(keepends=False)
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    last = int(lines[-1].split()[0]) if lines else 0
    while True:
        try:
            last = follow(url, token, file, last)
        except httpx2.TransportError:
            time.sleep(0.1)


def follow(url: str, token: str, file: Path, last: int) -> int:
    headers = {"X-Auth-Token": token, "Last-Event-ID": str(last)}
    with httpx2.stream("GET", url, headers=headers, timeout=30) as response, file.open("ab", buffering=0) as out:
        for line in response.iter_lines():
            if line.startswith("data: "):
                data = line.removeprefix("data: ")
            elif line.startswith("id: "):
                last = int(line.removeprefix("id: "))
                out.write(f"{last} {data}\n".encode())
    return last


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
