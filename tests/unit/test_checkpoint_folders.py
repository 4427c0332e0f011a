"""Rules of checkpoints: the moments at which they are due, the time that they take, and the folder they lie in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.clusters.rules.choosing import LOSS_EVERY_S, Timing, ends_before_next, is_due_by_young, timing_of
from app.clusters.rules.deciding import Deed, NodeState, SeenInstance, SeenNode, View
from app.clusters.rules.reconciling import decide
from app.clusters.rules.wanted import cluster_of_toml
from app.clusters.rules.writing import Measured, Predicted, fits, predict
from app.domain.inputs import InputError
from app.managing.checkpointing.folders import BrokenImage, Busy, JobFolder, Manifest, sealed

FILE = """\
name = "lab"
shared = "/srv/lab"
[[pools]]
name = "own"
cloud = "north"
flavor = "small"
"""


def truth(memory: float) -> float:
    return 0.3 + 0.011 * memory / 1e6


def test_writing_is_foretold_for_all_sizes_after_one_checkpoint_of_each() -> None:
    measured = [Measured(memory, truth(memory)) for memory in (10e6, 100e6, 1e9)]
    for memory in (10e6, 30e6, 100e6, 300e6, 1e9):
        assert predict(measured, memory).mean_s == pytest.approx(truth(memory), rel=0.1)


def test_the_newest_measurements_count_most() -> None:
    slow = [Measured(100e6, 10.0)] * 20
    assert predict([*slow, *[Measured(100e6, 2.0)] * 10], 100e6).mean_s == pytest.approx(2.0, rel=0.3)


@given(
    st.lists(st.tuples(st.floats(0, 1e12), st.floats(0.001, 1e4)), max_size=60), st.floats(0, 1e12), st.floats(0, 1e12)
)
def test_a_prediction_is_positive_and_grows_with_the_memory(
    pairs: list[tuple[float, float]], one: float, other: float
) -> None:
    measured = [Measured(*pair) for pair in pairs]
    less, more = (predict(measured, memory) for memory in sorted((one, other)))
    assert 0.0 < less.mean_s <= more.mean_s * (1 + 1e-9)
    assert less.sigma_s >= 0.0


@pytest.mark.parametrize(("left_s", "fit"), [(21.0, True), (20.9, False), (0.0, False)])
def test_a_checkpoint_fits_if_three_standard_deviations_do(left_s: float, fit: bool) -> None:
    assert fits(Predicted(10.0, 2.0), left_s, 5.0) == fit


@pytest.mark.parametrize(
    ("policy", "grace_s", "timing"),
    [
        ("none", 60.0, Timing.NEVER),
        ("notice", 60.0, Timing.NEVER),
        ("auto", 60.0, Timing.YOUNG),
        ("auto", 6.0, Timing.HAZARD),
        ("auto", None, Timing.YOUNG),
        ("hazard", 60.0, Timing.HAZARD),
        ("hazard", None, Timing.YOUNG),
        ("young", 60.0, Timing.YOUNG),
    ],
)
def test_what_times_checkpoints(policy: str, grace_s: float | None, timing: Timing) -> None:
    assert timing_of(policy, grace_s, Predicted(2.0, 0.1), 5.0) is timing


def test_young_and_the_end_of_a_lifetime() -> None:
    interval_s = (2 * 8.0 * LOSS_EVERY_S) ** 0.5
    assert not is_due_by_young(interval_s - 31, 8.0, 1 / LOSS_EVERY_S)
    assert is_due_by_young(interval_s - 29, 8.0, 1 / LOSS_EVERY_S)
    assert [ends_before_next(left_s, Predicted(2.0, 0.0), 5.0) for left_s in (60.0, 9.1, 8.9, 0.0)] == [
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ('policy = "often"', "checkpoint.policy 'often' is none of auto, notice"),
        ('driver = "blcr"', "checkpoint.driver 'blcr' is none of criu"),
        ("margin_s = 3", "checkpoint.margin_s is not from 4"),
        ("keep = 0", "checkpoint.keep is not from 1"),
        ("every_s = 3", "unknown: checkpoint.every_s"),
    ],
)
def test_the_section_of_the_cluster_file(lines: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        cluster_of_toml(f"{FILE}[checkpoint]\n{lines}\n")
    kept = cluster_of_toml(FILE).checkpoint
    assert (kept.policy, kept.driver, kept.margin_s, kept.keep) == ("auto", "criu", 5, 2)


@pytest.mark.parametrize(("is_safe", "deeds"), [(False, [Deed.DRAIN]), (True, [Deed.DESTROY, Deed.DROP, Deed.CONFIRM])])
def test_a_node_under_notice_goes_once_its_jobs_are_safe(is_safe: bool, deeds: list[Deed]) -> None:
    name = "lab-own-1"
    node = SeenNode(NodeState.BUSY, is_safe=is_safe)
    view = View({name: SeenInstance(60.0, None, 20.0)}, frozenset({name}), {name: node}, [])
    assert [action.deed for action in decide(cluster_of_toml(FILE), view)] == deeds


def manifest(folder: JobFolder, generation: int) -> Manifest:
    return Manifest(
        job=folder.job,
        generation=generation,
        at=1.0,
        why="asked",
        driver="criu",
        tool="criu 4",
        kernel="6",
        flags="fpu",
        memory_bytes=10,
        image_bytes=5,
        pause_s=0.1,
        write_s=0.2,
        is_stopped=False,
        outputs={"/tmp/out": 3},
        files=sealed(folder.images(generation)),
    )


def made(folder: JobFolder) -> int:
    generation = folder.begin()
    (folder.images(generation) / "pages.img").write_bytes(b"abcde")
    folder.publish(manifest(folder, generation))
    return generation


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    found = JobFolder(tmp_path / "7")
    found.prepare()
    return found


def test_generations_are_published_kept_and_refused(folder: JobFolder) -> None:
    assert (folder.last(), folder.published()) == (None, [])
    assert [made(folder) for _ in range(3)] == [1, 2, 3]
    assert (folder.last(), folder.published()) == (3, [3, 2, 1])
    unfinished = folder.begin()
    assert (folder.unpublished(), folder.last()) == ([unfinished], 3)
    folder.drop(unfinished)
    folder.prune(2)
    assert folder.published() == [3, 2]
    folder.refuse(3, "spoilt")
    assert folder.published() == [2]
    assert folder.checked(2).files["pages.img"][0] == 5
    assert made(folder) == 4


def test_what_is_not_as_its_manifest_says_is_broken(folder: JobFolder) -> None:
    image, where = folder.images(made(folder)) / "pages.img", folder.path / "1/manifest.json"
    good = json.loads(where.read_text())
    image.write_bytes(b"abcdX")
    with pytest.raises(BrokenImage, match="damaged"):
        folder.checked(1)
    image.write_bytes(b"abcd")
    with pytest.raises(BrokenImage, match="another size"):
        folder.checked(1)
    for text in (
        "",
        "[]",
        '{"job": 1}',
        json.dumps(good | {"files": {"../x": [1, "a"]}}),
        json.dumps(good | {"files": 3}),
        json.dumps(good | {"outputs": {"/x": -1}}),
        json.dumps(good | {"generation": 2}),
        "[" * 100_000,
    ):
        where.write_text(text)
        with pytest.raises(BrokenImage):
            folder.checked(1)


def test_one_checkpoint_at_a_time(folder: JobFolder) -> None:
    with folder.locked():
        assert folder.is_locked()
        with pytest.raises(Busy), folder.locked():
            pass
    assert not folder.is_locked()


def test_what_is_told_is_taken_once_and_in_order(folder: JobFolder) -> None:
    folder.tell("job_restored", generation=1)
    folder.tell("job_from_start")
    (folder.path / "told/0.json").write_text("{")
    assert [one["kind"] for one in folder.take_told()] == ["job_restored", "job_from_start"]
    assert [*folder.take_told()] == []
