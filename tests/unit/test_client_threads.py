"""Threads that share the client read the first answers of a form at once."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, threading
from tenure_client import exchange
from tenure_client.forms.instances import InstancesAnswer

sys.setswitchinterval(1e-6)
TEXT = b'''{"links": [], "instances": [{"id": "a", "seq": 1, "status": "running", "market": "spot", "flavor": "x",
"at": "2026-11-23T17:29:14.180364Z", "lifetime_s": 1, "eviction_probability": null, "node": "n", "reason": null,
"quote": null, "ended_at": null, "cause_seq": null, "ready_at": "2026-11-23T17:29:14.180364Z"}]}'''
gate, found = threading.Barrier(8), []

class Answer:
    content, url = TEXT, "http://x"

def read():
    gate.wait()
    try:
        found.append(exchange._decoded(InstancesAnswer, Answer))
    except exchange.AnswerUnreadable:
        found.append(None)

threads = [threading.Thread(target=read) for _ in range(8)]
[one.start() for one in threads]
[one.join() for one in threads]
assert len(found) == 8
"""
TRIES = 5


def test_a_form_is_read_for_the_first_time_by_one_thread() -> None:
    """Without a lock msgspec 0.22 ended nine of ten such processes by a fault of memory."""
    for _ in range(TRIES):
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
