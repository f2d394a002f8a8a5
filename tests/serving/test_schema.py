"""Requests made from the OpenAPI document itself: none breaks the server, and every response is as documented."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serving.processes import ServerProcess
from tests.sweep import draws

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = [
    ("POST", "/api/v1/ask"),
    ("POST", "/api/v1/check"),
    ("POST", "/api/v1/spread"),
    ("POST", "/api/v1/explain"),
    ("POST", "/api/v1/paths"),
    ("POST", "/api/v1/facets"),
    ("POST", "/api/v1/runs/{name}/reload"),
    ("GET", "/api/v1/searches/{search}"),
    ("DELETE", "/api/v1/searches/{search}"),
    ("GET", "/api/v1/entities"),
    ("GET", "/api/v1/relations"),
    ("GET", "/api/v1/complete"),
    ("GET", "/api/v1/parse"),
    ("GET", "/api/v1/read"),
    ("GET", "/api/v1/translate"),
    ("GET", "/api/v1/relation"),
    ("GET", "/api/v1/rules"),
    ("GET", "/api/v1/run"),
    ("GET", "/api/v1/map"),
    ("GET", "/api/v1/validation"),
    ("GET", "/api/v1/entity"),
    ("GET", "/api/v1/entity/{name}"),
    ("GET", "/sparql"),
    ("POST", "/sparql"),
]
BARE = [("GET", "/api/v1/runs"), ("GET", "/healthz"), ("GET", "/metrics")]
"""Without parameters nothing about them can be wrong."""
MODES = schemathesis.GenerationMode


@pytest.fixture(scope="session")
def schema(server: ServerProcess) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{server.url}openapi.json")


def test_every_operation_is_tried(schema: schemathesis.BaseSchema) -> None:
    found = [(method.upper(), path) for path in schema for method in schema[path]]
    assert set(found) == {*OPERATIONS, *BARE}


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [
        *((*operation, MODES.POSITIVE) for operation in (*OPERATIONS, *BARE)),
        *((*operation, MODES.NEGATIVE) for operation in OPERATIONS),
    ],
)
def test_no_request_breaks_the_server(
    schema: schemathesis.BaseSchema, method: str, path: str, mode: schemathesis.GenerationMode
) -> None:
    operation = schema[path][method]

    @settings(max_examples=draws(20), deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(checks=CHECKS, timeout=60)

    ask()
