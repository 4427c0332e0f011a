"""Handlers for jobs."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from app.engine.cloud import JobRecord
from app.federation.submitting import JobBoard
from app.federation.wire.jobs import JobBody, attempt_answer, job_answer
from app.platform.http.auth import count_more, owner_of
from app.platform.http.bodies import read_body, read_query
from app.platform.http.long_lists import first_answers, marker_after
from app.platform.http.page_forms import PageQuery, next_link
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.scheduling.wire.nodes import AtQuery
from tenure_client.forms.jobs import AttemptsAnswer, JobsAnswer


async def submit_job(request: Request) -> Response:
    """Decide a job: all its instances start on demand, or none. A rejection is a decision too, and answered 201.

    Where peers are asked whether they run it, show the job to see what came of it.

    Repeating the request shows the job as it is now; the same id with another body is a conflict.
    """
    body, cloud = await read_body(request, JobBody), request.path_params["cloud"]
    count_more(request, body.cost)
    job = await reached(request, JobBoard).submit(cloud, body.asked(owner_of(request)), body.peers, body.at_us)
    return respond(job_answer(cloud, job), 201, {"Location": f"/v1/clouds/{cloud}/jobs/{body.id}"})


async def list_jobs(request: Request) -> Response:
    """List the cloud's jobs in the order of their submission, without those that ended long ago."""
    query, cloud = read_query(request, PageQuery), request.path_params["cloud"]
    page = await reached(request, JobBoard).page(cloud, query.marker, query.limit)
    answers = await first_answers(page.items, partial(job_answer, cloud))
    marker = marker_after(page.items, len(answers), _name_of, page.marker)
    return respond(JobsAnswer(jobs=answers, links=next_link(request, marker)))


def _name_of(job: JobRecord) -> str:
    return job.asked.job


async def show_job(request: Request) -> Response:
    """Show a job: where it runs, or how it ended."""
    path = request.path_params
    return respond(job_answer(path["cloud"], await reached(request, JobBoard).show(path["cloud"], path["job"])))


async def list_attempts(request: Request) -> Response:
    """List the attempts to run a job at other clouds, in their order."""
    path = request.path_params
    board = reached(request, JobBoard)
    job, moved = await board.show(path["cloud"], path["job"]), await board.moved(path["cloud"], path["job"])
    return respond(AttemptsAnswer(attempts=[attempt_answer(one, moved) for one in job.tries], links=[]))


async def cancel_job(request: Request) -> Response:
    """Stop all instances of a job. Nothing happens if it has ended.

    A job that runs at a peer has ended once the peer says so, or with its lease.
    """
    path, query = request.path_params, read_query(request, AtQuery)
    await reached(request, JobBoard).cancel(path["cloud"], path["job"], owner_of(request), query.at_us)
    return Response(status_code=204)
