"""Jobs made by the recipe have the counts and means of EXFed's Table I."""

from __future__ import annotations

import io

import pytest

from app.domain.inputs import InputError
from app.federation.rules.jobs import read_jobs
from app.workbench.federation.synthesis import SEGMENTS, synthesize_jobs, write_jobs

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
