"""The errors between a client and the service, as one tree.

    ClientError
    +-- ArgumentInvalid             the client was made with a URL, a token or a time limit that cannot be one
    +-- NameInvalid                 nothing can have a name or an id like that
    +-- ValueInvalid                no request can carry that value
    +-- ServiceUnreachable          no answer, or only that the service is not ready, for as long as was allowed
    |   +-- NotConnected            nobody accepted a connection
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
    """The root of the tree. Its message is for people."""


class ArgumentInvalid(ClientError):
    """The client was made with an argument that cannot be one: `url`, `token`, `timeout_s` or `retry_s`."""

    def __init__(self, argument: str, detail: str) -> None:
        super().__init__(detail)
        self.argument = argument


class NameInvalid(ClientError):
    """Nothing that a path names can be called that: it is empty, no Unicode, holds a slash, or means a folder."""


class ValueInvalid(ClientError):
    """No request can carry the value of `field`.

    It is a number that is not finite or too large, a text not Unicode, or a step of a batch that is none.
    """

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}")
        self.field = field


class ServiceUnreachable(ClientError):
    """There was no answer in the time allowed, or only that the service is not ready."""


class NotConnected(ServiceUnreachable):
    """Nobody accepted a connection in the time allowed."""


class AnswerUnreadable(ClientError):
    """The answer does not have the documented form."""


class ServiceRefused(ClientError):
    """The service answered with an error. `code` is its permanent name, empty if the answer is not the service's own.

    `details` has an entry for each faulty field; `request_id` names the request in the service's log.
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
    """The request carries no valid token."""


class Forbidden(ServiceRefused):
    """The token's role does not allow this."""


class NotFound(ServiceRefused):
    """Something that the request names does not exist."""


class Conflict(ServiceRefused):
    """The request contradicts the present state."""


class RequestInvalid(ServiceRefused):
    """The service does not accept requests of this form."""


class TooManyRequests(ServiceRefused):
    """The caller has used up its requests."""


class ServiceFailed(ServiceRefused):
    """The service failed."""


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


def refusal_of(status: int) -> type[ServiceRefused]:
    """Return the kind of error for an answer of this status."""
    return _BY_STATUS.get(status, ServiceFailed if status >= 500 else ServiceRefused)
