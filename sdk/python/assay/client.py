"""The client of the API."""

import copy
import http.client
import json
import math
import random
import re
import secrets
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from email.message import Message
from typing import Any, Literal, NotRequired, TypedDict, TypeVar
from urllib.parse import quote, urlencode

T = TypeVar("T")
Type = Literal["domain", "email", "phone", "iban"]
Verdict = Literal["allow", "review", "block"]
# The kinds of errors. They do not change, but later releases can add some.
Code = Literal[
    "invalid_request", "invalid_body", "invalid_field", "no_field", "unauthorized", "key_expired", "account_suspended",
    "plan_required", "scope_missing", "address_refused", "forbidden", "not_found", "method_not_allowed", "too_slow",
    "too_large", "headers_too_large", "conflict", "media_type", "quota_exhausted", "rate_limited", "hourly_limit",
    "busy", "share_exhausted", "unavailable", "not_ready", "too_many_connections", "internal", "uncertain",
]


class Region(TypedDict):
    """The region that a value comes from: an ISO 3166-1 alpha-2 code, or EU."""

    country: str


class Request(TypedDict):
    """The value to check. The service scores the first of domain, email, phone and iban."""

    domain: NotRequired[str]
    email: NotRequired[str]
    phone: NotRequired[str]
    iban: NotRequired[str]
    region: NotRequired[Region]
    receipt: NotRequired[bool]  # whether the result of check includes a receipt


class FieldWarning(TypedDict):
    """Why a field of a request was ignored."""

    field: str
    message: str


@dataclass(frozen=True)
class Result:
    """The answer to a check."""

    score: int  # 0 to 100, higher is more suspicious
    verdict: Verdict
    signals: list[str]  # the reasons
    dominant_threat: str | None
    type: Type
    query: str
    timestamp: str
    ref: str
    warnings: list[FieldWarning] = field(default_factory=list)  # fields that were ignored because they are invalid
    receipt: dict[str, Any] | None = None  # if the request asked for it


# Selects recorded checks; empty: all. key is the id of an API key, from the first time that is included, and until the
# first that is excluded. At most one value; export_checks takes none.
Query = TypedDict("Query", {
    "verdict": Verdict, "type": Type, "key": str, "from": str | datetime, "until": str | datetime, "domain": str,
    "email": str, "phone": str, "iban": str, "region": Region,
}, total=False)


@dataclass(frozen=True)
class RecordedCheck:
    """A check as the audit log records it."""

    ref: str
    timestamp: str
    type: Type
    score: int
    verdict: Verdict
    key: str  # the id of the key that requested it
    revision: int  # of the lineup that decided
    overridden: bool  # whether an override decided the verdict


@dataclass(frozen=True)
class CheckDetails(RecordedCheck):
    """A recorded check with its webhook event, feedback and review. Each of these three is None if there is none."""

    record: dict[str, Any]  # its place in the audit log, and the first checkpoint that covers it
    webhook: dict[str, Any] | None
    feedback: dict[str, Any] | None
    review: dict[str, Any] | None


@dataclass(frozen=True)
class ListedEvent:
    """A webhook event with its delivery. Once it is delivered, its data has neither query nor signals."""

    sequence: int
    state: Literal["pending", "delivered", "failed"]
    attempts: int
    event: Literal["check.blocked", "check.review"]
    timestamp: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Usage:
    """An account's usage in a month."""

    month: str
    quota: int
    used: int
    forecast: int | None  # of used at the end of the month; None if unknown
    counts: list[dict[str, Any]]  # checks by date, key, type and verdict


@dataclass(frozen=True)
class Override:
    """A verdict that was set in advance."""

    id: str
    action: Literal["block", "allow"]
    kind: str
    target: str  # masked
    reason: str
    author: str
    created_at: str
    expires_at: str
    replaced: str | None = None  # the id of the override that it replaced when it was added
    ignored: Literal["expired", "altered"] | None = None  # why checks ignore it


class Subject(TypedDict):
    """Whose data a privacy request is about: one member, and region with a national phone number."""

    subject: NotRequired[str]  # the reference sub_... that an export names
    ref: NotRequired[str]  # the reference of one of the subject's checks
    domain: NotRequired[str]
    email: NotRequired[str]
    phone: NotRequired[str]
    iban: NotRequired[str]
    region: NotRequired[Region]


@dataclass(frozen=True)
class BatchError:
    """The answer to an invalid request of a batch."""

    error: str
    field: str | None = None  # the invalid field of the request, if there is one
    code: Code | None = None


@dataclass(frozen=True)
class Reason:
    """A signal with its weight."""

    text: str
    code: str
    layer: str
    points: float  # above 0 against the entity, below 0 for it
    facts_of_today: bool  # whether it depends on facts that may have changed


@dataclass(frozen=True)
class Scoring:
    """A score with its parts. start and the points of all reasons add up to total."""

    score: int
    verdict: Verdict
    start: float
    total: float  # 0 is a score of 50, and every 10 points double the odds of fraud
    reasons: list[Reason]
    unknown: list[str]  # facts that were not known


@dataclass(frozen=True)
class Explanation:
    """The reasons for the decision about a check."""

    ref: str
    timestamp: str
    type: Type
    score: int
    verdict: Verdict
    overridden: bool  # whether an override decided the verdict
    text: list[str]  # the explanation in plain words, a paragraph each
    decided_by: Scoring | None  # under the weights that decided; None if they cannot be loaded
    today: Scoring  # under today's weights
    facts_of_today: list[str]  # sources of facts that may have changed since the check


@dataclass(frozen=True)
class HumanReview:
    """A person's review of a check."""

    ref: str
    state: Literal["asked", "taken", "upheld", "overturned"]
    reason: str
    asked_at: str
    taken_at: str | None
    settled_at: str | None
    finding: str | None  # the reviewer's reasons; None until the review is settled
    # Sent for the reviewer; None if they were not, and once the review is settled.
    value: str | None
    contact: str | None


class AssayError(Exception):
    """An answer with a status other than 200 and 202."""

    def __init__(self, status: int, headers: Mapping[str, str] | Message, body: bytes | bytearray) -> None:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None  # a proxy's error; its status says enough
        failure: dict[str, Any] = answer if isinstance(answer, dict) else {}
        self.status = status
        self.code: Code | None = failure.get("code")  # the kind of error; None if the service did not write the answer
        self.message = str(failure.get("error") or http.client.responses.get(status, "error"))  # its text may change
        self.ref: str | None = failure.get("ref")  # of an internal error, to quote to support
        self.reset_at: str | None = failure.get("reset_at")  # when an exceeded limit ends
        self.request_id: str | None = headers.get("X-Request-Id")
        self.retry_after = _retry_after(headers)  # seconds
        self.field: str | None = failure.get("field")  # the invalid field of the request, if there is one
        suffix = f" ({self.request_id})" if self.request_id else ""
        super().__init__(f"status {status}: {self.message}{suffix}")


def _retry_after(headers: Mapping[str, str] | Message) -> int | None:
    wait = headers.get("Retry-After") or ""
    return int(wait) if re.fullmatch("[0-9]{1,9}", wait) else None


@dataclass(frozen=True)
class _Answer:
    status: int  # 200 or 202
    body: bytes
    retry_after: int | None

    def content(self, *members: str) -> dict[str, Any]:
        """The answer as a JSON object that has members. Any other is not the service's, so its answer is lost."""
        try:
            content = json.loads(self.body)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict) or not content.keys() >= set(members):
            raise ConnectionError("the answer is not the service's")
        return content


class _AnyStatus(urllib.request.HTTPErrorProcessor):
    """Returns answers with any status. It follows no redirects, which could take the key to another host."""

    def http_response(self, _: Any, response: Any) -> Any:
        return response

    https_response = http_response


class Client:
    """Calls the API with a key. Can be used by several threads at once.

    A call makes as many attempts as its `timeout` in seconds allows, or at most `attempts`, each within
    `attempt_timeout` seconds. An export or erasure in the background may take `wait` seconds.
    """

    def __init__(
        self, url: str, key: str, *, attempts: int | None = None, attempt_timeout: float = 5, timeout: float = 20,
        wait: float = 600,
    ) -> None:
        if not url.startswith(("https://", "http://")):
            raise ValueError("url must begin with https:// or http://")
        self._url, self._key = url.rstrip("/"), key.strip()  # a file ends with a line break
        if not re.fullmatch("[!-~]*", self._key):
            raise ValueError("the key has a character that is not printable ASCII")
        self._attempts: float = attempts or math.inf
        self._attempt_timeout, self._timeout, self._wait = attempt_timeout, timeout, wait
        self._opener = urllib.request.build_opener(_AnyStatus)

    def check(self, request: Request, *, idempotency_key: str | None = None) -> Result:
        """Scores one entity."""
        return _read(Result, self._post("/api/check", request, idempotency_key).content())

    def check_public(self, domain: str) -> Result:
        """Scores a domain without a key, to try the service. The service allows few such calls an hour."""
        return _read(Result, self._post("/api/check-public", {"domain": domain}).content())

    def check_batch(
        self, requests: Sequence[Request], *, idempotency_key: str | None = None
    ) -> list[Result | BatchError]:
        """Scores several entities. The results are in the order of the requests."""
        answer = self._post("/api/check/batch", {"checks": list(requests)}, idempotency_key).content("results")
        return [_read(BatchError if "error" in r else Result, r) for r in answer["results"]]

    def give_feedback(
        self, ref: str, label: Literal["fraud", "legitimate"], note: str = "", value: Request | None = None
    ) -> None:
        """Labels a check of the account. Another report on the same check replaces the earlier one. With the value that
        was checked, the service scores it again."""
        self._post("/api/feedback", {**(value or {}), "ref": ref, "label": label, "note": note})

    def revoke_feedback(self, ref: str) -> None:
        """Takes back the account's feedback on a check."""
        self._delete(f"/api/feedback?ref={quote(ref, '')}")

    def search(self, query: Query | None = None) -> Iterator[RecordedCheck]:
        """Lists the recorded checks that match, newest first. Requests each page when it needs it."""
        asked: dict[str, Any] = {name: _text(value) for name, value in (query or {}).items()}
        while True:
            page = self._post("/api/checks/search", asked).content("checks", "next")
            for check in page["checks"]:
                yield _read(RecordedCheck, check)
            if not page["next"]:
                return
            asked["after"] = page["next"]

    def events(self, after: int = 0) -> Iterator[ListedEvent]:
        """Lists the account's webhook events with a sequence number above after, in order."""
        while True:
            page = self._get(f"/api/events?limit=100&after={after}").content("events", "more", "next")
            for event in page["events"]:
                yield _read(ListedEvent, event)
            if not page["more"]:
                return
            after = page["next"]

    def recorded_check(self, ref: str) -> CheckDetails:
        """Returns a recorded check."""
        return _read(CheckDetails, self._get(f"/api/checks/{quote(ref, '')}").content())

    def export_checks(self, format: Literal["csv", "json"], query: Query | None = None) -> bytes:
        """Returns all recorded checks that match, as a file. May take as long as `wait`."""
        values = {name: _text(value) for name, value in (query or {}).items()}
        if named := values.keys() & {"domain", "email", "phone", "iban", "region"}:
            raise ValueError(f"checks cannot be exported by value: {', '.join(sorted(named))}")
        request = self._request("GET", f"/api/checks/export?{urlencode({**values, 'format': format})}")
        return self._send(request, patient=True).body

    def usage(self, month: str | None = None) -> Usage:
        """Returns the account's usage in a month, such as 2026-01, by default in the current month."""
        return _read(Usage, self._get(f"/api/usage?month={quote(month, '')}" if month else "/api/usage").content())

    def set_override(
        self, action: Literal["block", "allow"], target: Mapping[str, Any], reason: str, expires_at: str | datetime,
        author: str | None = None,
    ) -> Override:
        """Sets the verdict on a value or group in advance: one of domain, email, phone, iban, registrable_domain,
        number_range and bank. It replaces an override of the same value."""
        request = {**target, "action": action, "reason": reason, "expires_at": _text(expires_at)}
        if author:
            request["author"] = author
        return _read(Override, self._post("/api/overrides", request).content())

    def overrides(self) -> list[Override]:
        """Lists the account's overrides."""
        return [_read(Override, o) for o in self._get("/api/overrides").content("overrides")["overrides"]]

    def remove_override(self, id: str) -> None:
        """Removes an override."""
        self._delete(f"/api/overrides?id={quote(id, '')}")

    def receipt(self, ref: str) -> dict[str, Any]:
        """Returns the receipt of a check, to store as JSON. It proves the check's record to others.

        Waits for the proof, which the service has within seconds. If that exceeds `timeout` or fails, the receipt has
        "proof": None.
        """
        end, attempt = time.monotonic() + self._timeout, 0
        receipt: dict[str, Any] | None = None
        while True:
            attempt += 1
            try:
                answer = self._get(f"/api/receipts/{quote(ref, '')}")
            except Exception:
                if receipt is None:
                    raise
                return receipt  # without its proof it is valid, too
            receipt = answer.content()
            pause = answer.retry_after
            if not pause or attempt >= self._attempts or time.monotonic() + pause >= end:
                return receipt
            time.sleep(pause)

    def subject_ref(self, subject: Subject) -> str:
        """Returns the reference sub_... of a value, which is the same for all checks of the account."""
        return str(self._post("/gdpr/subject", subject).content("subject")["subject"])

    def export(self, subject: Subject) -> dict[str, Any]:
        """Returns the account's data about a subject, to hand over as JSON. "checks" has all checks: if there are
        many, the service collects them in the background, and this method waits."""
        answer = self._post("/gdpr/export", subject)
        whole: dict[str, Any] = answer.content()
        if answer.status == 200:
            return whole
        path = f"/gdpr/requests/{self._await(answer)}/export"
        whole = part = self._get(path).content("checks", "next")
        while part["next"]:
            part = self._get(f"{path}?after={quote(part['next'], '')}").content("checks", "next")
            whole["checks"] += part["checks"]
        whole["next"] = None
        return whole

    def erase(self, subject: Subject) -> None:
        """Permanently erases the account's data about a subject. If the subject has many checks, the service erases
        them in the background, and this method waits. Erasing again succeeds."""
        answer = self._post("/gdpr/erase", subject)
        if answer.status == 202:
            self._await(answer)

    def explain(self, ref: str, value: Request) -> Explanation:
        """Gives the reasons for the decision about a check. The service does not keep the value, so pass it again."""
        answer = self._post("/gdpr/explain", {**value, "ref": ref}).content("decided_by", "today")
        for name in ("decided_by", "today"):
            if answer[name]:
                answer[name]["reasons"] = [_read(Reason, r) for r in answer[name]["reasons"]]
                answer[name] = _read(Scoring, answer[name])
        return _read(Explanation, answer)

    def ask_review(self, ref: str, reason: str, value: Request | None = None, contact: str = "") -> HumanReview:
        """Asks for a person's review of a block or review verdict. The reviewer sees the value and the contact if they
        are sent. Asking again returns the same review."""
        asked = {**(value or {}), "ref": ref, "reason": reason, "contact": contact}
        return _read(HumanReview, self._post("/gdpr/review", asked).content())

    def review(self, ref: str) -> HumanReview:
        """Returns a person's review of a check. The AssayError has the status 404 if nobody asked for one."""
        return _read(HumanReview, self._get(f"/gdpr/review?ref={quote(ref, '')}").content())

    def _await(self, begun: _Answer) -> str:
        """Waits for a background request to end, and returns its id."""
        end, attempt, request = time.monotonic() + self._wait, 0, begun.content("id", "kind", "state")
        while request["state"] == "running":
            attempt += 1
            pause = _pause(attempt, None)
            if time.monotonic() + pause >= end:
                raise TimeoutError(f"waiting for the {request['kind']} {request['id']}, which goes on")
            time.sleep(pause)
            request = self._get(f"/gdpr/requests/{quote(request['id'], '')}").content("id", "kind", "state")
        if request["state"] != "done":
            raise RuntimeError(f"the {request['kind']} {request['id']} has the state {request['state']}")
        return str(request["id"])

    def _get(self, path: str) -> _Answer:
        return self._send(self._request("GET", path))

    def _delete(self, path: str) -> None:
        self._send(self._request("DELETE", path))

    def _post(self, path: str, body: Mapping[str, Any], key: str | None = None) -> _Answer:
        data, key = json.dumps(body).encode(), secrets.token_urlsafe(18) if key is None else key
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        return self._send(self._request("POST", path, data, headers))

    def _request(
        self, method: str, path: str, data: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> urllib.request.Request:
        key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return urllib.request.Request(self._url + path, data, {**(headers or {}), **key}, method=method)

    def _send(self, request: urllib.request.Request, patient: bool = False) -> _Answer:
        """Sends a request, and retries it with the same bytes and key if that can help (contract section 4.6)."""
        end = time.monotonic() + (self._wait if patient else self._timeout)
        attempt, lost = 0, False  # lost: an earlier attempt may have taken effect
        while True:
            attempt += 1
            limit = max(0.001, min(self._wait if patient else self._attempt_timeout, end - time.monotonic()))
            try:
                return _attempt(self._opener, request, limit)
            except AssayError as error:
                if lost and request.method == "DELETE" and error.status == 404:
                    return _Answer(200, b"{}", None)  # the earlier attempt removed it
                lost = lost or _uncertain(error)
                if attempt >= self._attempts or not _retryable(error):
                    raise
                pause = _pause(attempt, error.retry_after)
                if time.monotonic() + pause >= end:
                    raise
            except OSError:  # a lost answer
                lost = True
                pause = _pause(attempt, None)
                if attempt >= self._attempts or time.monotonic() + pause >= end:
                    raise
            time.sleep(pause)


def _attempt(opener: urllib.request.OpenerDirector, request: urllib.request.Request, limit: float) -> _Answer:
    """Sends a request once. The limit holds for connecting, for each read of the headers and for the whole answer."""
    end, body = time.monotonic() + limit, bytearray()
    try:
        # A copy, since a proxy's tunnel changes a request so that its third attempt would be in clear text.
        with opener.open(copy.copy(request), timeout=limit) as response:
            while part := response.read1(1 << 16):
                body += part
                if time.monotonic() >= end:
                    raise TimeoutError("no whole answer in time")
            if response.length:  # the connection ended before
                raise http.client.IncompleteRead(b"", response.length)
            if response.status not in (200, 202):
                raise AssayError(response.status, response.headers, body)
            return _Answer(response.status, bytes(body), _retry_after(response.headers))
    except http.client.InvalidURL:  # no attempt can succeed
        raise
    except http.client.HTTPException as error:
        raise ConnectionError("the answer was lost") from error


def _retryable(error: AssayError) -> bool:
    """Whether the request may soon succeed if it is sent again. A 429 without a code comes from a proxy."""
    return error.status >= 500 or error.code == "rate_limited" or (error.status == 429 and error.code is None)


def _uncertain(error: AssayError) -> bool:
    """Whether the request may have taken effect. A 503 of the service, which has a code, says that it has not."""
    return error.status == 500 or (error.status > 500 and error.code is None)


def _pause(attempt: int, retry_after: int | None) -> float:
    """How long to wait after an attempt: at least as long as the answer asks for, or else longer after each attempt. A
    random part spreads the clients' retries."""
    if retry_after:
        return retry_after + random.uniform(0, 0.5)
    most: float = 0.2 * 2 ** min(attempt - 1, 3)
    return random.uniform(most / 2, most)


def _read(kind: type[T], answer: dict[str, Any]) -> T:
    # Later releases can add fields. Those with a default can be absent.
    try:
        return kind(**{
            f.name: answer[f.name] for f in fields(kind)  # type: ignore[arg-type]
            if f.name in answer or (f.default is MISSING and f.default_factory is MISSING)
        })
    except (KeyError, TypeError) as error:
        raise ConnectionError("the answer is not the service's") from error


def _text(value: Any) -> Any:
    """A time as the service reads it."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
