"""The counters of jobs: each end once, where and how, and what became of outputs."""

from __future__ import annotations

from app.domain.events import Event, JobCollected, JobEnded, JobOutputsLost, Recorded
from app.domain.jobs import AwayEnd, DataFault
from app.platform.telemetry.metrics import PROCESS, CloudMeter, count_jobs


def ended(attempt: int, end: AwayEnd, *, is_last: bool = True) -> JobEnded:
    return JobEnded(at_us=1, job="j", attempt=attempt, end=end, is_last=is_last)


def recorded(*events: Event) -> list[Recorded]:
    return [Recorded(seq, event) for seq, event in enumerate(events, start=1)]


def counted(name: str, **labels: str) -> float:
    return PROCESS.get_sample_value(name, {"cloud": "counted-jobs", **labels}) or 0


def test_ends_are_counted_where_they_were_and_attempts_are_not() -> None:
    events = recorded(
        ended(0, AwayEnd.REJECTED),
        ended(1, AwayEnd.PREEMPTED, is_last=False),
        ended(2, AwayEnd.COMPLETED),
        ended(1, AwayEnd.COMPLETED),
    )
    count_jobs("counted-jobs", events)
    assert counted("tenure_jobs_total", where="home", outcome="rejected") == 1
    assert counted("tenure_jobs_total", where="peer", outcome="completed") == 2
    assert counted("tenure_jobs_total", where="peer", outcome="preempted") == 0
    meter = CloudMeter("counted-jobs", lambda: 0)
    meter.committed(iter(events))
    meter.close()
    assert counted("tenure_jobs_total", where="peer", outcome="completed") == 4
    assert counted("tenure_log_appends_total", outcome="committed") == 1


def test_outputs_are_counted_by_what_became_of_them() -> None:
    lost = [JobOutputsLost(at_us=1, job="j", attempt=1, reason=fault) for fault in (DataFault.GONE, DataFault.MISSING)]
    count_jobs("counted-jobs", recorded(JobCollected(at_us=1, job="i", attempt=1), *lost))
    assert counted("tenure_job_outputs_total", outcome="collected", reason="none") == 1
    assert counted("tenure_job_outputs_total", outcome="lost", reason="data_gone") == 1
    assert counted("tenure_job_outputs_total", outcome="lost", reason="data_missing") == 1
