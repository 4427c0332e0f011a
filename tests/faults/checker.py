"""The checker: the record of all operations against the final log. It knows the documentation and none of the code.

Rules, by the names under which findings are told:

- `capacity`, `on-demand`, `rejection`, `placement`, `victims`, `cause`, `removal`, `promise`, `grace`, `hand-over`,
  `seq`, `time`, `log`, `decided once`, `wholly`: of the log alone (`fold.py`);
- `answer`: what an answer claims was true at no moment between the request and the answer (stale, false, or lost);
- `status`: an answer that the service does not have for such a request, 500 among them;
- `unasked`, `order`: an event that nobody asked for, or that stands behind one asked for after it was acknowledged;
- `same answer`: the same start was answered in two ways;
- `stream`: a follower missed an event, had one twice, out of order, or with another content.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faults.claims import claims_of
from faults.fold import read_log
from faults.order import Order, batches_of
from faults.record import SURELY_NOT, SURELY_NOT_CODES, Attempt, Follow
from faults.timeline import Past
from faults.violations import Findings, Violation

Log = list[dict[str, Any]]


def check(attempts: Iterable[Attempt], logs: Mapping[str, Log], follows: Iterable[Follow] = ()) -> list[Violation]:
    """All violations, cloud by cloud."""
    attempts, follows = list(attempts), list(follows)
    found: list[Violation] = []
    for cloud, log in logs.items():
        findings = Findings(cloud)
        _Check(log, [one for one in attempts if one.cloud == cloud], findings).run()
        _check_follows([one for one in follows if one.cloud == cloud], log, findings)
        found += findings.found
    return found


class _Check:
    """The check of one cloud."""

    def __init__(self, log: Log, attempts: Sequence[Attempt], findings: Findings) -> None:
        self._findings = findings
        self._attempts = attempts
        self._past: Past = read_log(log, findings)
        self._order = Order(self._past, attempts, findings)

    def run(self) -> None:
        self._check_batches()
        self._check_repetitions()
        for attempt in self._attempts:
            if attempt.status is not None:
                self._check_answer(attempt)

    def _wrong(self, rule: str, what: str, *attempts: Attempt, events: Sequence[Mapping[str, Any]] = ()) -> None:
        self._findings.add(rule, what, attempts, events)

    def _check_answer(self, attempt: Attempt) -> None:
        claims = claims_of(self._past, attempt)
        if claims is None:
            if not _is_put_off(attempt):
                self._wrong("status", "the service has no such answer to this request", attempt)
            return
        first, last = self._order.window(attempt)
        for claim in claims:
            if not any(claim.holds(value) for value in claim.timeline.during(first, last)):
                what = f"not true at any moment from seq {first} to {last}: {claim.says}"
                self._wrong("answer", what, attempt, events=self._near(claim.timeline.changes()))
        if attempt.is_done and attempt.what in _SPECIAL:
            _SPECIAL[attempt.what](self, attempt, first, last)

    def _near(self, changes: Iterable[tuple[int, Any]]) -> list[dict[str, Any]]:
        """The newest events that concern it."""
        return [self._past.log[seq - 1] for seq, _ in list(changes)[-3:] if seq]

    def _check_cloud(self, attempt: Attempt, first: int, last: int) -> None:
        answer, past = attempt.answer, self._past
        seq = answer["seq"]
        if not first <= seq <= last:
            self._wrong("answer", f"its seq does not lie between {first} and {last}", attempt)
            return
        if seq in past.inside:
            self._wrong("wholly", f"it was read {past.inside[seq]}", attempt, events=past.log[seq - 1 : seq + 1])
        so = (past.policy.at(seq), past.counts.at(seq), past.log[seq - 1]["at"], past.log[0]["at"])
        if (answer["policy"], answer["counts"], answer["at"], answer["created_at"]) != so:
            self._wrong("answer", f"the cloud at this seq was {so}", attempt)

    def _check_running(self, attempt: Attempt, first: int, last: int) -> None:
        """A page of one status may be short, so only who ran all the time must be in it."""
        told = {one["id"] for one in attempt.answer["instances"]}
        ran = list(self._past.running.during(first, last))
        wrong = (told - frozenset().union(*ran)) | (frozenset.intersection(*ran) - told if ran else frozenset())
        if wrong:
            what = f"{sorted(wrong)} wrongly in or not in what runs between seq {first} and {last}"
            events = [event for name in wrong for event in self._near(self._past.instances[name].changes())]
            self._wrong("answer", what, attempt, events=events)

    def _check_removal(self, attempt: Attempt, first: int, last: int) -> None:
        removed = [
            event
            for event in self._past.log[first:last]
            if event["kind"] == "node_removed" and event["node"] == attempt.asked["name"]
        ]
        told = [victim["id"] for victim in attempt.answer["victims"]]
        if not any(self._victims(event) == told for event in removed):
            self._wrong("answer", "no removal with these victims", attempt, events=removed)

    def _victims(self, cause: Mapping[str, Any]) -> list[str]:
        before = self._past.log[: cause["seq"] - 1]
        evicted = [one for one in before[-100:] if one["kind"] == "instance_evicted"]
        return [one["id"] for one in evicted if one["cause_seq"] == cause["seq"]]

    def _check_events(self, attempt: Attempt, first: int, last: int) -> None:
        after, events = attempt.asked["after_seq"], attempt.answer["events"]
        end = after + len(events)
        if events != self._past.log[after:end]:
            self._wrong("answer", "the page is not what the log holds after this seq", attempt)
        elif end > last or (len(events) < attempt.asked["limit"] and end < first):
            self._wrong("answer", f"the log's end is told as {end}, but lay between {first} and {last}", attempt)

    def _check_batches(self) -> None:
        for ids, attempts in batches_of(self._attempts):
            decided = [self._past.decided[name]["seq"] for name in ids if name in self._past.decided]
            if decided and len(decided) < len(ids):
                self._wrong("wholly", f"{len(decided)} of {len(ids)} starts of a batch are in the log", *attempts)
            elif decided != sorted(decided):
                self._wrong("order", "the batch was not decided in its order", *attempts)
            for seq in range(min(decided, default=0), max(decided, default=0)):
                self._past.inside[seq] = "within a batch"

    def _check_repetitions(self) -> None:
        answers: dict[str, Attempt] = {}
        for one in self._attempts:
            if one.what == "start" and one.is_done:
                earlier = answers.setdefault(one.asked["id"], one)
                if earlier.asked == one.asked and earlier.answer != one.answer:
                    self._wrong("same answer", "the same start was answered in two ways", earlier, one)


_SPECIAL = {
    "show_cloud": _Check._check_cloud,
    "change_policy": _Check._check_cloud,
    "list_running": _Check._check_running,
    "remove_node": _Check._check_removal,
    "list_events": _Check._check_events,
}


def _is_put_off(attempt: Attempt) -> bool:
    """Return True if the request was refused for now, or its outcome is unknown."""
    return attempt.status in SURELY_NOT or attempt.status == 503 or attempt.code in SURELY_NOT_CODES


def _check_follows(follows: Sequence[Follow], log: Log, findings: Findings) -> None:
    told = [(event["seq"], json.dumps(event, sort_keys=True)) for event in log]
    for follow in follows:
        if follow.frames == told:
            continue
        place = next((n for n, (a, b) in enumerate(zip(follow.frames, told, strict=False)) if a != b), None)
        if place is None:
            findings.add("stream", f"a follower had {len(follow.frames)} of {len(told)} events")
        else:
            findings.add("stream", f"a follower was sent {follow.frames[place]}", events=[log[place]])
