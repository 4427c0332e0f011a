"""A computation without any code for checkpoints: a chain of hashes over a large state, a line for each link.

    chain.py MEGABYTES LINKS SECONDS [saves]

It lasts SECONDS for each link. With `saves` it saves itself when it is asked, as the driver `signal` wants it.
"""

import hashlib
import os
import pickle
import signal
import sys
import time
from pathlib import Path

megabytes, links, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
state, link, number = bytearray(b"x" * (megabytes * 1_000_000)), b"0", 0
if "TENURE_RESTORE" in os.environ:
    state, link, number = pickle.loads(Path(os.environ["TENURE_RESTORE"]).read_bytes())
is_asked = False


def ask(*_: object) -> None:
    """Note that a checkpoint is wanted; it is taken between two links."""
    global is_asked  # noqa: PLW0603 - the handler of a signal
    is_asked = True


if sys.argv[4:] == ["saves"]:
    signal.signal(signal.SIGUSR1, ask)
while number < links:
    for at in range(0, len(state), 4096 * 64):
        state[at] = (state[at] + link[0]) % 256
    link = hashlib.sha256(link + bytes(state[::65536])).digest()
    print(number, link.hex()[:16], flush=True)
    number += 1
    time.sleep(seconds)
    if is_asked:
        is_asked = False
        Path(os.environ["TENURE_SAVE"]).write_bytes(pickle.dumps((state, link, number)))
        os.kill(os.getpid(), signal.SIGSTOP)
print("done", flush=True)
