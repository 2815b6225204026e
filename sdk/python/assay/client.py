"""The client of the API."""

import http.client
import json
import random
import re
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from email.message import Message
from typing import Any, Literal, NotRequired, TypedDict

Type = Literal["domain", "email", "phone", "iban"]


class Region(TypedDict):
    """Where a value is from: an ISO 3166-1 alpha-2 code, or EU."""

    country: str


class Request(TypedDict):
    """What to check. The first of domain, email, phone and iban is scored."""

    domain: NotRequired[str]
    email: NotRequired[str]
    phone: NotRequired[str]
    iban: NotRequired[str]
    region: NotRequired[Region]


@dataclass(frozen=True)
class Result:
    """The answer to a check."""

    score: int  # 0 to 100, higher is more suspicious
    verdict: Literal["allow", "review", "block"]
    signals: list[str]  # the reasons
    dominant_threat: str | None
    type: Type
    query: str
    timestamp: str
    ref: str


@dataclass(frozen=True)
class BatchError:
    """The answer to an invalid request of a batch."""

    error: str
    field: str | None = None  # the invalid field of the request, if it is one


class AssayError(Exception):
    """An answer that is not 200."""

    def __init__(self, status: int, headers: Mapping[str, str] | Message, body: bytes) -> None:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None  # a proxy's error; its status says enough
        failure: dict[str, Any] = answer if isinstance(answer, dict) else {}
        self.status = status
        self.message = str(failure.get("error") or http.client.responses.get(status, "error"))  # its text may change
        self.ref: str | None = failure.get("ref")  # of an internal error, to quote to support
        self.reset_at: str | None = failure.get("reset_at")  # when an exceeded limit ends
        self.request_id: str | None = headers.get("X-Request-Id")
        wait = headers.get("Retry-After") or ""
        self.retry_after: int | None = int(wait) if re.fullmatch("[0-9]{1,9}", wait) else None  # seconds
        self.field: str | None = failure.get("field")  # the invalid field of the request, if it is one
        suffix = f" ({self.request_id})" if self.request_id else ""
        super().__init__(f"status {status}: {self.message}{suffix}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A redirect could take the key to another host, so it is an error."""


class Client:
    """Calls the API with a key. Can be used by several threads at once.

    A call makes at most `attempts`, each within `attempt_timeout` seconds, and all within `timeout` seconds.
    """

    def __init__(
        self, url: str, key: str, *, attempts: int = 4, attempt_timeout: float = 5, timeout: float = 20
    ) -> None:
        if not url.startswith(("https://", "http://")):
            raise ValueError("url must begin with https:// or http://")
        self._url, self._key = url.rstrip("/"), key
        self._attempts, self._attempt_timeout, self._timeout = attempts, attempt_timeout, timeout
        self._opener = urllib.request.build_opener(_NoRedirects)

    def check(self, request: Request, *, idempotency_key: str | None = None) -> Result:
        """Scores one entity."""
        return _result(self._post("/api/check", request, idempotency_key))

    def check_batch(
        self, requests: Sequence[Request], *, idempotency_key: str | None = None
    ) -> list[Result | BatchError]:
        """Scores up to 100 entities. The results are in the order of the requests."""
        answer = self._post("/api/check/batch", {"checks": list(requests)}, idempotency_key)
        return [BatchError(r["error"], r.get("field")) if "error" in r else _result(r) for r in answer["results"]]

    def give_feedback(self, ref: str, label: Literal["fraud", "legitimate"], note: str = "") -> None:
        """Labels a check of the account. Another report on the same check replaces the earlier one."""
        self._post("/api/feedback", {"ref": ref, "label": label, "note": note}, None)

    def _post(self, path: str, body: Mapping[str, Any], key: str | None) -> dict[str, Any]:
        """Sends a request until it is answered, each time with the same bytes and key (contract section 4.6)."""
        data, key = json.dumps(body).encode(), key or secrets.token_urlsafe(18)
        headers = {
            "Authorization": f"Bearer {self._key}", "Content-Type": "application/json", "Idempotency-Key": key,
        }
        end = time.monotonic() + self._timeout
        attempt = 0
        while True:
            attempt += 1
            request = urllib.request.Request(self._url + path, data, headers, method="POST")
            limit = max(0.001, min(self._attempt_timeout, end - time.monotonic()))
            try:
                return json.loads(_send(self._opener, request, limit))
            except AssayError as error:
                if attempt >= self._attempts or not (error.status == 429 or error.status >= 500):
                    raise
                pause = _pause(attempt, error.retry_after)
                if time.monotonic() + pause >= end:
                    raise
            except (OSError, http.client.HTTPException):  # a lost answer
                pause = _pause(attempt, None)
                if attempt >= self._attempts or time.monotonic() + pause >= end:
                    raise
            time.sleep(pause)


def _send(opener: urllib.request.OpenerDirector, request: urllib.request.Request, limit: float) -> bytes:
    """Sends a request once. The limit holds for connecting and for each read, of which a small answer needs few."""
    try:
        with opener.open(request, timeout=limit) as response:
            body: bytes = response.read()
            if response.status != 200:
                raise AssayError(response.status, response.headers, body)
            return body
    except urllib.error.HTTPError as error:
        with error:
            raise AssayError(error.code, error.headers, error.read()) from None


def _pause(attempt: int, retry_after: int | None) -> float:
    """How long to wait after an attempt: at least what the answer asks for, else longer each time, and never the same
    for all clients."""
    if retry_after:
        return retry_after + random.uniform(0, 0.5)
    most: float = 0.2 * 2 ** min(attempt - 1, 4)
    return random.uniform(most / 2, most)


def _result(answer: dict[str, Any]) -> Result:
    # Later releases can add fields.
    return Result(**{f.name: answer[f.name] for f in fields(Result)})
