"""Tables, runs, notices, locks and tokens against a real PostgreSQL."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest

from app.domain.events import CloudCreated, Recorded
from app.domain.values import Policy, RunCause
from app.forecasts.rules import RunStatus, TableSummary
from app.forecasts.store.runs import Runs
from app.forecasts.store.tables import EpochTaken, Tables
from app.identity.service import TokenKeeper
from app.identity.store import AdminOrigin, AdminToken, Tokens, hash_token
from app.platform.database.database import Database
from app.platform.database.lockids import MIGRATION_LOCK, TOKEN_LOCK, forecast_lock, log_lock
from app.platform.database.locks import Locks
from app.platform.database.signals import Resync, RunRequested, Signal, TablePublished, listen
from app.scheduling.store.clouds import Clouds

pytestmark = pytest.mark.anyio

_names = count(1)


@pytest.fixture
async def cloud_id(database: Database) -> int:
    return await Clouds(database).create(f"rest-{next(_names)}", Recorded(1, CloudCreated(at_us=0, policy=Policy())))


async def publish(database: Database, cloud_id: int, epoch: int) -> None:
    data = f"table {epoch}".encode()
    await Tables(database).publish(cloud_id, epoch=epoch, epoch_us=epoch * 1000, seq=epoch * 7, data=data, wall_s=0.5)


@asynccontextmanager
async def listening(database: Database) -> AsyncIterator[AsyncIterator[Signal]]:
    notices = listen(database)
    assert await anext(notices) == Resync()
    yield notices
    await notices.aclose()


async def next_of(notices: AsyncIterator[Signal]) -> Signal:
    return await asyncio.wait_for(anext(notices), 5)


class TestTables:
    async def test_a_published_table_is_read_back(self, database: Database, cloud_id: int) -> None:
        tables = Tables(database)
        assert await tables.newest(cloud_id) is None
        for epoch in (1, 2, 3):
            await publish(database, cloud_id, epoch)
        newest, second = await tables.newest(cloud_id), await tables.get(cloud_id, 2)
        assert newest is not None
        assert second is not None
        assert (newest.epoch, newest.epoch_us, newest.seq, newest.wall_s) == (3, 3000, 21, 0.5)
        assert (second.epoch, second.data) == (2, b"table 2")
        assert await tables.get(cloud_id, 4) is None

    async def test_pages_go_back_from_the_newest(self, database: Database, cloud_id: int) -> None:
        tables = Tables(database)
        for epoch in (1, 2, 3):
            await publish(database, cloud_id, epoch)
        page = await tables.page(cloud_id, 2)
        assert [summary.epoch for summary in page] == [3, 2]
        assert isinstance(page[0], TableSummary)
        assert [summary.epoch for summary in await tables.page(cloud_id, 2, before_epoch=2)] == [1]

    async def test_an_epoch_is_published_once(self, database: Database, cloud_id: int) -> None:
        await publish(database, cloud_id, 1)
        with pytest.raises(EpochTaken):
            await publish(database, cloud_id, 1)

    async def test_publishing_is_announced(self, database: Database, cloud_id: int) -> None:
        async with listening(database) as notices:
            await publish(database, cloud_id, 1)
            assert await next_of(notices) == TablePublished(cloud_id, 1)


class TestRuns:
    async def test_a_run_from_request_to_table(self, database: Database, cloud_id: int) -> None:
        runs = Runs(database)
        async with listening(database) as notices:
            run = await runs.request(cloud_id, RunCause.SCHEDULED, 60)
            assert await next_of(notices) == RunRequested(cloud_id, run.id)
        assert (run.status, run.due_us, run.attempts, run.cause) == (RunStatus.PENDING, 60, 0, RunCause.SCHEDULED)
        assert run in await runs.pending()
        started_at = await runs.start(run.id)
        assert started_at is not None
        await runs.finish(run.id, started_at, 4)
        done = await runs.get(cloud_id, run.number)
        assert done is not None
        assert (done.status, done.epoch, done.attempts) == (RunStatus.SUCCEEDED, 4, 1)
        assert done.started_at is not None
        assert not await runs.start(run.id)
        assert done not in await runs.pending()

    async def test_the_same_request_while_pending_is_one_run(self, database: Database, cloud_id: int) -> None:
        runs = Runs(database)
        first = await runs.request(cloud_id, RunCause.SCHEDULED, None)
        assert (await runs.request(cloud_id, RunCause.REQUESTED, None)).id == first.id
        assert (await runs.request(cloud_id, RunCause.REQUESTED, 60)).id != first.id
        await runs.start(first.id)
        assert (await runs.request(cloud_id, RunCause.REQUESTED, None)).id != first.id

    async def test_a_failed_run_waits_and_in_the_end_gives_up(self, database: Database, cloud_id: int) -> None:
        runs = Runs(database)
        run = await runs.request(cloud_id, RunCause.REQUESTED, None)
        before = run.created_at
        for attempt in range(1, 6):
            started_at = await runs.start(run.id)
            assert started_at is not None
            await runs.fail(run.id, before, "it is another worker's")
            await runs.finish(run.id, before, 4)
            await runs.fail(run.id, started_at, "it broke")
            before = started_at
            failed = await runs.get(cloud_id, run.number)
            assert failed is not None
            assert (failed.status, failed.error, failed.attempts) == (RunStatus.FAILED, "it broke", attempt)
            assert not await runs.start(run.id)
            await database.execute("UPDATE forecast_run SET retry_at = now() WHERE retry_at > now()")
        assert failed.retry_at is None
        assert run.id not in {waiting.id for waiting in await runs.pending()}

    async def test_a_run_of_a_dead_worker_is_taken_up_again(self, database: Database, cloud_id: int) -> None:
        runs = Runs(database)
        run = await runs.request(cloud_id, RunCause.REQUESTED, None)
        for _ in range(5):
            assert await runs.start(run.id)
            assert run.id in {waiting.id for waiting in await runs.pending()}
        assert not await runs.start(run.id)
        buried = await runs.get(cloud_id, run.number)
        assert buried is not None
        assert (buried.status, buried.error) == (RunStatus.FAILED, "the worker died in the last attempt")

    async def test_attempts_that_the_database_ended_do_not_count(self, database: Database, cloud_id: int) -> None:
        runs = Runs(database)
        run = await runs.request(cloud_id, RunCause.REQUESTED, None)
        for _ in range(7):
            started_at = await runs.start(run.id)
            assert started_at is not None
            await runs.disturb(run.id, started_at, "the database was away", 0)
            disturbed = await runs.get(cloud_id, run.number)
            assert disturbed is not None
            assert (disturbed.status, disturbed.error, disturbed.attempts) == ("failed", "the database was away", 0)

    async def test_nor_do_they_where_another_worker_was_faster(self, database: Database, cloud_id: int) -> None:
        """It took the run up before the database could be told, and may have given it up."""
        runs = Runs(database)
        run = await runs.request(cloud_id, RunCause.REQUESTED, None)
        begun = [await runs.start(run.id) for _ in range(6)]
        assert begun.pop() is None
        for started_at in begun[:2]:
            assert started_at is not None
            await runs.disturb(run.id, started_at, "the database was away", 0)
        revived = await runs.get(cloud_id, run.number)
        assert revived is not None
        assert (revived.attempts, revived.error) == (3, "the worker died in the last attempt")
        started_at = await runs.start(run.id)
        assert started_at is not None
        assert begun[2] is not None
        await runs.disturb(run.id, begun[2], "the database was away", 0)
        running = await runs.get(cloud_id, run.number)
        assert running is not None
        assert (running.status, running.attempts) == ("running", 3)
        await runs.finish(run.id, started_at, 4)
        await runs.disturb(run.id, started_at, "its answer was lost", 0)
        done = await runs.get(cloud_id, run.number)
        assert done is not None
        assert (done.status, done.attempts) == ("succeeded", 3)

    async def test_pages_go_back_from_the_newest(self, database: Database, cloud_id: int) -> None:
        runs = Runs(database)
        ids = [(await runs.request(cloud_id, RunCause.REQUESTED, due_us)).number for due_us in (1, 2, 3)]
        assert [run.number for run in await runs.page(cloud_id, 2)] == ids[:0:-1]
        assert [run.number for run in await runs.page(cloud_id, 2, before=ids[1])] == ids[:1]
        assert await runs.get(cloud_id + 1000, ids[0]) is None

    async def test_each_cloud_numbers_its_runs_without_gaps(self, database: Database, cloud_id: int) -> None:
        """The numbers of one cloud tell nothing of another's, whichever process asks at the same time."""
        runs = Runs(database)
        other = await Clouds(database).create(
            f"rest-{next(_names)}", Recorded(1, CloudCreated(at_us=0, policy=Policy()))
        )
        asked = await asyncio.gather(
            *(runs.request(of, RunCause.REQUESTED, due_us) for due_us in range(1, 7) for of in (cloud_id, other))
        )
        again = await asyncio.gather(*(runs.request(cloud_id, RunCause.REQUESTED, due_us) for due_us in range(1, 7)))
        assert {run.number for run in again} == set(range(1, 7))
        for of in (cloud_id, other):
            assert sorted(run.number for run in asked if run.cloud_id == of) == [*range(1, 7)]
        assert (await runs.request(other, RunCause.REQUESTED, 99)).number == 7


class TestNotices:
    async def test_listening_goes_on_after_the_connection_is_lost(self, database: Database, cloud_id: int) -> None:
        async with listening(database) as notices:
            await database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'tenure-listen' AND datname = current_database()"
            )
            assert await next_of(notices) == Resync()
            await publish(database, cloud_id, 1)
            assert await next_of(notices) == TablePublished(cloud_id, 1)

    async def test_notices_that_cannot_be_read_are_left_out(self, database: Database, cloud_id: int) -> None:
        async with listening(database) as notices:
            for payload in ("no json", '{"type":"of_the_future"}'):
                await database.execute("SELECT pg_notify('tenure', %(payload)s)", {"payload": payload})
            await Runs(database).request(cloud_id, RunCause.REQUESTED, None)
            assert isinstance(await next_of(notices), RunRequested)


class TestLocks:
    async def test_one_holder_at_a_time_and_cloud(self, database: Database, cloud_id: int) -> None:
        locks, others = Locks(database), Locks(database)
        async with locks.held(forecast_lock(cloud_id)) as held, others.held(forecast_lock(cloud_id)) as second:
            assert held
            assert not second
            async with others.held(forecast_lock(cloud_id + 1000)) as elsewhere:
                assert elsewhere
        async with others.held(forecast_lock(cloud_id)) as held:
            assert held

    async def test_the_lock_is_free_after_an_error(self, database: Database, cloud_id: int) -> None:
        async def fail() -> None:
            async with Locks(database).held(forecast_lock(cloud_id)):
                raise RuntimeError

        with pytest.raises(RuntimeError):
            await fail()
        async with Locks(database).held(forecast_lock(cloud_id)) as held:
            assert held

    async def test_a_lost_connection_frees_the_lock(self, database: Database, cloud_id: int) -> None:
        async with Locks(database).held(forecast_lock(cloud_id)) as held:
            assert held
            await database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
            await asyncio.sleep(0.1)
            async with Locks(database).held(forecast_lock(cloud_id)) as again:
                assert again

    def test_lock_numbers_are_stable_and_differ(self) -> None:
        numbers = [MIGRATION_LOCK, TOKEN_LOCK, log_lock(1), log_lock(2), forecast_lock(1)]
        assert len(set(numbers)) == len(numbers)
        assert all(-(1 << 31) <= number < 1 << 31 for pair in numbers for number in pair)
        assert log_lock(7) == (log_lock(1)[0], 7)


class TestTokens:
    async def test_an_admin_token_is_made_up_once(self, database: Database) -> None:
        tokens = Tokens(database)
        made = await asyncio.gather(*(tokens.ensure_admin(None, replace_unused=False) for _ in range(5)))
        assert sorted(token.origin for token in made) == ["made"] + ["shown"] * 4
        (secret,) = [token.secret for token in made if token.secret is not None]
        assert secret.startswith("tnr_")
        found = await tokens.find(hashlib.sha256(secret.encode()).digest())
        assert found is not None
        assert (found.name, found.role) == ("admin", "admin")
        assert await tokens.find(hash_token("tnr_guess")) is None
        rows = await database.execute("SELECT token::text FROM token")
        assert not any(secret in row[0] for row in rows)

    async def test_an_admin_token_is_made_anew_until_it_is_used(self, database: Database) -> None:
        await database.execute("DELETE FROM token")
        keeper = TokenKeeper(Tokens(database), Clouds(database), Locks(database))
        async with keeper.admin(None) as first:
            async with keeper.admin(None) as beside:
                assert beside == AdminToken(AdminOrigin.SHOWN), "whoever reads the first one's console has a token"
            assert await keeper.find(hash_token(first.secret)) is not None
        await database.execute("UPDATE token SET last_used_at = NULL")
        async with keeper.admin(None) as second:
            assert second.origin is AdminOrigin.MADE
        assert await keeper.find(hash_token(first.secret)) is None
        assert await keeper.find(hash_token(second.secret)) is not None
        async with keeper.admin(None) as third:
            assert third == AdminToken(AdminOrigin.USED)

    async def test_a_given_admin_token_takes_the_others_place(self, database: Database) -> None:
        tokens = Tokens(database)
        for secret in ("first secret", "second secret", "first secret"):
            assert await tokens.ensure_admin(secret) == AdminToken(AdminOrigin.GIVEN)
            assert await tokens.find(hash_token(secret)) is not None
        assert await tokens.find(hash_token("second secret")) is None
        assert await tokens.ensure_admin(None) == AdminToken(AdminOrigin.USED)

    @pytest.mark.parametrize("column", ["revoked_at", "expires_at"])
    async def test_revoked_and_expired_tokens_are_not_found(self, database: Database, column: str) -> None:
        tokens = Tokens(database)
        await tokens.ensure_admin(column)
        await database.execute(f"UPDATE token SET {column} = now() WHERE hash = %(h)s", {"h": hash_token(column)})
        assert await tokens.find(hash_token(column)) is None
