"""Jobs made by the recipe have the counts and means of EXFed's Table I."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from app.domain.inputs import InputError
from app.federation.rules.jobs import read_jobs
from app.workbench.federation.grouping import jobs_of_trace
from app.workbench.federation.joblines import JobLine, write_jobs
from app.workbench.federation.synthesis import SEGMENTS, synthesize_jobs
from app.workbench.workload import TraceInstance, read_trace
from tests.unit.test_federation_evaluation import tenure

HOUR_US = 3_600_000_000


@pytest.mark.parametrize("segment", SEGMENTS)
def test_counts_and_means_are_those_of_the_table(segment: str) -> None:
    row, file = SEGMENTS[segment], io.StringIO()
    write_jobs(synthesize_jobs(segment, 3), file)
    jobs = read_jobs(file.getvalue().splitlines())
    assert 0.98 * row.jobs <= len(jobs) <= row.jobs
    assert sum(job.count for job in jobs) == pytest.approx(row.instances, rel=0.1)
    assert max(job.count for job in jobs) <= 16
    assert min(job.lifetime_us for job in jobs) > HOUR_US
    mean_h = sum(job.lifetime_us for job in jobs) / len(jobs) / HOUR_US
    assert mean_h == pytest.approx(row.mean_h, rel=0.35 if segment == "C2" else 0.15)
    terabytes = sum(job.input_bytes + job.output_bytes for job in jobs) / 1e12
    assert terabytes == pytest.approx(row.terabytes, rel=0.35)
    assert jobs[-1].start_us < row.weeks * 7 * 24 * HOUR_US


def test_a_seed_makes_the_same_jobs_again_and_another_seed_others() -> None:
    assert synthesize_jobs("B1", 1) == synthesize_jobs("B1", 1)
    assert synthesize_jobs("B1", 1) != synthesize_jobs("B1", 2)


def test_days_of_a_are_busier_than_its_nights_and_weekends() -> None:
    starts = [job.start_s for job in synthesize_jobs("A1", 1)]
    by_day = sum(8 <= at / 3600 % 24 < 18 for at in starts)
    assert by_day > 0.7 * len(starts)
    assert sum(at / 86_400 % 7 >= 5 for at in starts) < 0.2 * len(starts)


def test_an_unknown_segment_is_refused() -> None:
    with pytest.raises(InputError, match="none of A1"):
        synthesize_jobs("D1", 0)


TRACES = Path(__file__).parents[3] / "shared/traces/eucalyptus"


@pytest.mark.skipif(not TRACES.is_dir(), reason=f"the recorded instances are not in {TRACES}")
@pytest.mark.parametrize(
    ("trace", "jobs", "largest"), [("DS2", 311, 17), ("DS3", 901, 20), ("DS5", 357, 101), ("DS6", 283, 13)]
)
def test_recorded_instances_make_the_jobs_that_were_counted_elsewhere(trace: str, jobs: int, largest: int) -> None:
    found = jobs_of_trace(read_trace(TRACES / f"{trace}-trace.txt"))
    assert (len(found), max(one.instances for one in found)) == (jobs, largest)


def test_instances_of_equal_cores_that_start_together_are_a_job() -> None:
    rows = [(0, 2, 1), (500_000, 3, 1), (600_000, 2, 4), (1_400_000, 1, 1), (2_500_000, 5, 1), (2_600_000, 0, 1)]
    instances = [TraceInstance(str(at), start, hours * HOUR_US, cores) for at, (start, hours, cores) in enumerate(rows)]
    assert jobs_of_trace(instances, 1_000) == [
        JobLine(0.0, 3 * 3600.0, 1, 3, 7200, 1800),
        JobLine(0.6, 2 * 3600.0, 4, 1, 1600, 400),
        JobLine(2.5, 5 * 3600.0, 1, 1, 4000, 1000),
    ]
    with pytest.raises(InputError, match="ran for an hour"):
        jobs_of_trace(instances[-1:])


def test_the_command_writes_jobs_that_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("start_s,lifetime_s,cores\n0,7200,2\n60,3600,1\n61,3600,1\n")
    assert tenure("trace", "jobs", str(trace), "--data", "1KB") == 0
    jobs = read_jobs(capsys.readouterr().out.splitlines())
    assert [(job.cores, job.count, job.input_bytes + job.output_bytes) for job in jobs] == [(2, 1, 2000), (1, 2, 2000)]
    assert tenure("trace", "jobs", str(trace), "--skip", "60s") == 0
    assert len(read_jobs(capsys.readouterr().out.splitlines())) == 1
    assert tenure("trace", "jobs", str(trace), "--data", "much") == 2
    assert "no number of bytes" in capsys.readouterr().err
