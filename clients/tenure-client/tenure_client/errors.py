"""What can go wrong between a client and the service, as one tree.

    ClientError
    +-- ServiceUnreachable          no answer, or only that the service is not ready, for as long as was allowed
    +-- AnswerUnreadable            an answer that is not in the documented form, as of another kind of server
    +-- ServiceRefused              the service answered with an error
        +-- Unauthenticated (401), Forbidden (403), NotFound (404), Conflict (409)
        +-- RequestInvalid (400, 405, 406, 413, 414, 415)
        +-- TooManyRequests (429)
        +-- ServiceFailed (5xx)

Every `ServiceRefused` carries the error's permanent code and the id of the request in the service's log.
"""

from __future__ import annotations


class ClientError(Exception):
    """The root; its message is for people."""


class ServiceUnreachable(ClientError):
    """No answer came, or only that the service is not ready, for as long as was allowed."""


class AnswerUnreadable(ClientError):
    """The answer has not the documented form."""


class ServiceRefused(ClientError):
    """The service answered with an error. `code` is its permanent name, empty where the answer is not the service's.

    `details` are those of every entry, one for each wrong field; `request_id` names the request in the service's log.
    """

    def __init__(
        self, status: int, code: str, detail: str, request_id: str = "", details: tuple[str, ...] = ()
    ) -> None:
        super().__init__(f"{detail} ({code or 'status'} {status})")
        self.status = status
        self.code = code
        self.detail = detail
        self.request_id = request_id
        self.details = details or (detail,)


class Unauthenticated(ServiceRefused):
    """No token, or none that is valid."""


class Forbidden(ServiceRefused):
    """The token's role does not allow this."""


class NotFound(ServiceRefused):
    """Something that the request names does not exist."""


class Conflict(ServiceRefused):
    """The request contradicts what is already so."""


class RequestInvalid(ServiceRefused):
    """The request is not one that the service takes."""


class TooManyRequests(ServiceRefused):
    """More requests came than this caller may send."""


class ServiceFailed(ServiceRefused):
    """A fault of the service."""


_BY_STATUS: dict[int, type[ServiceRefused]] = {
    400: RequestInvalid,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    405: RequestInvalid,
    406: RequestInvalid,
    409: Conflict,
    413: RequestInvalid,
    414: RequestInvalid,
    415: RequestInvalid,
    429: TooManyRequests,
}


def refusal(status: int, code: str, detail: str, request_id: str = "", details: tuple[str, ...] = ()) -> ServiceRefused:
    """The error of its status."""
    kind = _BY_STATUS.get(status, ServiceFailed if status >= 500 else ServiceRefused)
    return kind(status, code, detail, request_id, details)
