"""The private server and the processes that share it: real processes, really killed."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import psutil
import psycopg
import pytest
from private_servers import Holder, ask, server_pid, temporary_data_dir
from sqlalchemy import create_engine

from app.domain.inputs import InputError, NoDatabase
from app.platform.database import embedded
from app.platform.database.database import parse_url
from app.platform.database.embedded import embedded_url
from app.platform.database.signals import _libpq_url


@pytest.fixture
def fresh_dir() -> Iterator[Path]:
    """A data directory that does not exist yet, and neither does its parent."""
    with temporary_data_dir() as path:
        yield path


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    """One data directory for all tests that end with a stopped server."""
    with temporary_data_dir() as path:
        yield path


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any server."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has the server run as another user")
def test_as_root_the_folders_above_are_opened_to_the_server_alone(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    data_dir = closed / "deep" / "data"
    data_dir.mkdir(parents=True)
    (closed / "private").write_text("nobody else's")
    for folder in (closed, closed / "deep"):
        folder.chmod(0o700)
    before = {folder: folder.stat().st_mode & 0o007 for folder in data_dir.parents}
    with embedded_url(data_dir) as url:
        assert ask(url, "SELECT 1") == 1
        assert {folder: folder.stat().st_mode & 0o007 for folder in data_dir.parents} == before
        for user, what in [("nobody", "cat"), ("nobody", "ls"), ("pgserver", "ls")]:
            place = closed / "private" if what == "cat" else closed
            assert _run_as(user, what, place).returncode != 0


def _run_as(user: str, *command: object) -> subprocess.CompletedProcess[bytes]:
    group = pwd.getpwnam(user).pw_gid
    return subprocess.run([str(word) for word in command], user=user, group=group, capture_output=True, check=False)


def test_the_server_is_not_told_what_the_service_was(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_ADMIN_TOKEN", "tnr_of-nobodys-business")
    monkeypatch.setenv("PGPASSWORD", "neither-is-this")
    with embedded_url(data_dir):
        server = int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
        known = psutil.Process(server).environ()
    assert "PATH" in known
    assert not {"tnr_of-nobodys-business", "neither-is-this"} & set(known.values())
    assert not [name for name in known if name.startswith("TENURE_")]


def test_started_shared_within_a_process_and_stopped(data_dir: Path) -> None:
    with embedded_url(data_dir) as url:
        assert ask(url, "SELECT current_database()") == "tenure"
        assert ask(url, "SHOW fsync") == "on"
        assert ask(url, "SHOW synchronous_commit") == "on"
        assert ask(url, "SHOW listen_addresses") == ""
        with embedded_url(data_dir) as second:
            assert second == url
        assert ask(url, "SELECT 1") == 1
    assert server_pid(data_dir) is None
    with embedded_url(data_dir) as url:
        assert ask(url, "SELECT 1") == 1


@pytest.mark.parametrize("longer", ["", "x" * 120], ids=["short", "too long for a socket"])
def test_a_path_of_any_letters(fresh_dir: Path, longer: str) -> None:
    data_dir = fresh_dir / f'it\'s a "b" é 100%41 $HOME `id` \\ & + ?#{longer}'
    for _ in range(2):
        with embedded_url(data_dir) as url:
            assert ask(url, "SHOW data_directory") == str(data_dir / "postgres")
            assert ask(_libpq_url(parse_url(url)), "SELECT 1") == 1
            with create_engine(parse_url(url)).connect() as connection:
                assert connection.exec_driver_sql("SELECT 1").scalar() == 1
                connection.engine.dispose()
        assert server_pid(data_dir) is None


def test_a_path_with_a_comma_is_refused(fresh_dir: Path) -> None:
    with pytest.raises(InputError, match="comma"), embedded_url(fresh_dir / "a,b"):
        pass
    assert not fresh_dir.exists()


def test_a_data_directory_that_was_deleted_is_a_sentence(fresh_dir: Path) -> None:
    with pytest.raises(NoDatabase, match="is gone"), embedded_url(fresh_dir):  # noqa: PT012 - it fails at its end
        pid = server_pid(fresh_dir)
        shutil.rmtree(fresh_dir)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_the_last_process_to_leave_stops_it(data_dir: Path) -> None:
    service, worker = Holder(data_dir), Holder(data_dir)
    assert service.url() == worker.url() != ""
    service.leave()
    assert server_pid(data_dir) is not None
    worker.leave()
    assert server_pid(data_dir) is None


def test_a_killed_process_leaves_it_running_and_the_next_one_finds_it(data_dir: Path) -> None:
    killed = Holder(data_dir)
    url = killed.url()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
    killed.kill()
    pid = server_pid(data_dir)
    assert pid is not None
    following = Holder(data_dir)
    assert ask(following.url(), "SELECT seven FROM kept") == 7
    assert server_pid(data_dir) == pid
    following.leave()
    assert server_pid(data_dir) is None


def test_a_process_killed_beside_another_does_not_keep_it_running(data_dir: Path) -> None:
    killed, other = Holder(data_dir), Holder(data_dir)
    assert killed.url() == other.url()
    killed.kill()
    other.leave()
    assert server_pid(data_dir) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes users")
def test_one_process_of_the_machine_at_a_time_makes_the_servers_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a fresh machine two first starts at once gave it two numbers, and one of them a directory of a stranger's."""
    made = Event()
    monkeypatch.setattr(embedded, "ensure_user_exists", lambda _: made.set())
    machine = os.open("/etc", os.O_RDONLY)
    fcntl.flock(machine, fcntl.LOCK_EX)
    thread = Thread(target=embedded._make_user)
    thread.start()
    assert not made.wait(0.5)
    os.close(machine)
    assert made.wait(30)
    thread.join()


def crash(holder: Holder, data_dir: Path) -> None:
    """Write something, then kill its holder, which would start it again, and the server itself."""
    with psycopg.connect(holder.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE crashed AS SELECT 7 AS seven")
    holder.kill()
    pid = server_pid(data_dir)
    assert pid is not None
    processes = [psutil.Process(pid), *psutil.Process(pid).children()]
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # the server's own end may be quicker
            process.kill()
    psutil.wait_procs(processes, timeout=10)


def test_after_a_crash_of_the_server_itself_the_data_are_there(data_dir: Path) -> None:
    crash(Holder(data_dir), data_dir)
    with embedded_url(data_dir) as url:
        assert ask(url, "SELECT seven FROM crashed") == 7


def test_a_server_that_is_killed_is_started_again_at_the_same_address(fresh_dir: Path) -> None:
    service, other = Holder(fresh_dir), Holder(fresh_dir)
    url = service.url()
    assert other.url() == url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
    for _ in range(2):
        pid = server_pid(fresh_dir)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for_another(fresh_dir, url, pid)
        assert ask(url, "SELECT seven FROM kept") == 7
    service.leave()
    assert ask(url, "SELECT seven FROM kept") == 7
    other.leave()
    assert server_pid(fresh_dir) is None


def wait_for_another(data_dir: Path, url: str, killed: int) -> None:
    """Wait until another server than the killed one runs, and answers."""
    deadline = time.monotonic() + 60
    while True:
        if server_pid(data_dir) not in (None, killed):
            with suppress(psycopg.OperationalError):
                psycopg.connect(url).close()
                return
        assert time.monotonic() < deadline, "it is not started again"
        time.sleep(0.2)


def held_by_nobody(data_dir: Path) -> Holder:
    """Hold the server as the user nobody, in a directory of its own."""
    python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if not Path(python).exists():
        pytest.skip(f"no {python}: user nobody may not run root's own Python")
    data_dir.parent.parent.chmod(0o755)
    data_dir.parent.mkdir(exist_ok=True)
    shutil.chown(data_dir.parent, "nobody")
    path = os.pathsep.join([str(Path(__file__).parents[2]), sysconfig.get_path("purelib")])
    return Holder(data_dir, python, user="nobody", cwd="/", env={"PYTHONPATH": path})


@pytest.mark.skipif(os.geteuid() != 0, reason="without root every test here is this one")
def test_another_user_than_root(fresh_dir: Path) -> None:
    holder = held_by_nobody(fresh_dir)
    assert ask(holder.url(), "SELECT 1") == 1
    pid = server_pid(fresh_dir)
    assert pid is not None
    assert psutil.Process(pid).username() == "nobody"
    holder.leave()
    assert server_pid(fresh_dir) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can reach another user's server")
def test_root_uses_another_users_server_and_takes_nothing_away(fresh_dir: Path) -> None:
    holder = held_by_nobody(fresh_dir)
    url = holder.url()
    before = owners(fresh_dir)
    with embedded_url(fresh_dir, create=False) as found:
        assert found == url
        assert ask(found, "SELECT 1") == 1
    assert owners(fresh_dir) == before
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE still_its_own AS SELECT 7 AS seven")
    holder.leave()
    assert server_pid(fresh_dir) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be in the way of another user")
@pytest.mark.parametrize("create", [True, False])
def test_another_users_stopped_server_is_left_alone(fresh_dir: Path, create: bool) -> None:
    holder = held_by_nobody(fresh_dir)
    holder.url()
    holder.leave()
    before = owners(fresh_dir)
    with pytest.raises(NoDatabase, match="sudo -u nobody tenure"), embedded_url(fresh_dir, create=create):
        pass
    assert owners(fresh_dir) == before
    again = held_by_nobody(fresh_dir)
    assert ask(again.url(), "SELECT 1") == 1
    again.leave()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hold a server in front of another user")
def test_roots_server_is_not_for_another_user(data_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with embedded_url(data_dir) as url:
        before = owners(data_dir)
        data_dir.parent.parent.chmod(0o755)
        assert held_as_nobody_fails(data_dir, capfd)
        assert owners(data_dir) == before
        assert ask(url, "SELECT 1") == 1


def held_as_nobody_fails(data_dir: Path, capfd: pytest.CaptureFixture[str]) -> bool:
    owner = data_dir.parent.stat()
    try:
        holder = held_by_nobody(data_dir)
        assert holder.url() == ""
    finally:
        os.chown(data_dir.parent, owner.st_uid, owner.st_gid)
    return "NoDatabase" in capfd.readouterr().err


def owners(data_dir: Path) -> dict[str, tuple[int, int]]:
    """The owner and mode of the directory, and of what lies in the first two floors of it."""
    found = [data_dir, *data_dir.glob("*"), *data_dir.glob("postgres/[a-zA-Z]*")]
    lasting = [path for path in found if not path.name.startswith("postmaster")]
    return {str(path): (path.stat().st_uid, path.stat().st_mode) for path in lasting}


def test_first_starts_at_once_do_not_race(fresh_dir: Path) -> None:
    holders = [Holder(fresh_dir) for _ in range(4)]
    assert len({holder.url() for holder in holders} - {""}) == 1
    for holder in holders:
        holder.leave()
    assert server_pid(fresh_dir) is None


def test_after_a_crash_a_process_with_the_number_of_the_dead_server_is_left_alone(
    fresh_dir: Path, bystander: subprocess.Popen[bytes]
) -> None:
    crash(Holder(fresh_dir), fresh_dir)
    left = fresh_dir / "postgres" / "postmaster.pid"
    _, *rest = left.read_text().splitlines()
    for lines in ([str(bystander.pid), *rest], [str(bystander.pid), *rest[:2]], []):
        left.write_text("".join(f"{line}\n" for line in lines))
        with embedded_url(fresh_dir) as url:
            assert ask(url, "SELECT seven FROM crashed") == 7
    assert bystander.poll() is None
