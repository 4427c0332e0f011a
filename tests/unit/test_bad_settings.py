"""Settings that contradict each other, or that no service could use, are told in sentences that name variables."""

from __future__ import annotations

import pytest

from app.commands.configuring import read_settings
from app.domain.inputs import InputError
from app.platform.settings import Settings

URL = "must be a URL that begins with https:// or http:// and names a host"
LOGIN = (
    "TENURE_KEYSTONE_USER and TENURE_KEYSTONE_PASSWORD, "
    "or TENURE_KEYSTONE_CREDENTIAL_ID and TENURE_KEYSTONE_CREDENTIAL_SECRET"
)
CONTRADICTIONS = {
    "_opens_its_store": [
        ({"OBJECTS_URL": "http://127.0.0.1:9"}, "TENURE_OBJECTS_URL needs TENURE_OBJECTS_KEY_FILE"),
        ({"OBJECTS_PEER_URL": "http://127.0.0.1:9"}, "TENURE_OBJECTS_PEER_URL needs TENURE_OBJECTS_URL"),
    ],
    "_can_log_in": [({"KEYSTONE_URL": "http://127.0.0.1:9/v3"}, f"TENURE_KEYSTONE_URL needs {LOGIN}")],
}
"""By the check of the settings as a whole."""


def told(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        monkeypatch.setenv(f"TENURE_{name}", value)
    with pytest.raises(InputError) as raised:
        read_settings()
    return str(raised.value)


@pytest.mark.parametrize(("variables", "sentence"), [one for some in CONTRADICTIONS.values() for one in some])
def test_contradictions_name_their_variables(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], sentence: str):
    assert told(monkeypatch, variables) == sentence


def test_every_check_of_the_whole_is_tried():
    assert set(CONTRADICTIONS) == set(Settings.__pydantic_decorators__.model_validators)


@pytest.mark.parametrize("name", ["KEYSTONE_URL", "OBJECTS_URL", "OBJECTS_PEER_URL"])
@pytest.mark.parametrize("value", ["foo", "https://", "ftp://host/v3", "http://host:port", "http://a host/"])
def test_a_url_names_a_host(monkeypatch: pytest.MonkeyPatch, name: str, value: str):
    assert told(monkeypatch, {name: value}) == f"TENURE_{name}: {URL}"


def test_a_word_that_is_none_of_a_list_is_told_in_plain_words(monkeypatch: pytest.MonkeyPatch):
    assert told(monkeypatch, {"KEYSTONE_ROLES": "member=boss"}).startswith("TENURE_KEYSTONE_ROLES: must be 'reader', ")


SECONDS = [name for name, field in Settings.model_fields.items() if field.annotation is float]


@pytest.mark.parametrize("value", ["inf", "nan", "1e300", "86401"])
def test_no_time_is_longer_than_a_day(monkeypatch: pytest.MonkeyPatch, value: str):
    assert {"database_timeout_s", "table_wait_s", "stream_max_s"} <= {*SECONDS}
    for name in SECONDS:
        with monkeypatch.context() as alone:
            assert told(alone, {name.upper(): value}).startswith(f"TENURE_{name.upper()}: ")
