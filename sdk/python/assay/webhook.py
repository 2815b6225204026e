"""Verifies webhooks."""

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Literal


class SignatureError(Exception):
    """The webhook is not genuine, was altered or is a replay. Answer it with 401."""


@dataclass(frozen=True)
class EventData:
    """The check that an event is about."""

    query: str
    type: Literal["domain", "email", "phone", "iban"]
    verdict: Literal["BLOCK", "REVIEW"]
    score: int
    signals: list[str]  # codes
    ref: str  # the same event can arrive twice, with the same ref


@dataclass(frozen=True)
class Event:
    """The body of a webhook."""

    event: Literal["check.blocked", "check.review"]
    timestamp: str
    data: EventData


class Webhook:
    """Verifies the webhooks of one endpoint with its secret (whsec_...).

    A webhook can be `tolerance` seconds old, or as far in the future.
    """

    def __init__(self, secret: str, tolerance: float = 300) -> None:
        secret = secret.strip()  # a file ends with a line break
        encoded = secret.removeprefix("whsec_")
        if not encoded:
            raise ValueError("the webhook secret is empty; one begins with whsec_")
        if re.search(r"[\x00-\x1f\x7f]", secret):
            raise ValueError("the webhook secret has a control character")
        self._secret = secret
        try:
            self._key = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            self._key = secret.encode()  # a secret that is not base64 is used as it is
        self._tolerance = tolerance

    def verify(self, headers: Mapping[str, str] | Message, body: bytes, now: float | None = None) -> Event:
        """Checks the signature and the time of a request, and returns its event.

        Pass the body as received: decoding and encoding it again would change its bytes. Raises SignatureError, or
        ValueError if the body is not an event.
        """
        if not self._signed(_lower(headers), body, time.time() if now is None else now):
            raise SignatureError("the webhook has no valid signature")
        return self._event(body)

    def verify_service_signature(self, headers: Mapping[str, str] | Message, body: bytes) -> Event:
        """Checks X-Service-Signature, which signs only the body, and returns the event of a request.

        Prefer verify, which also refuses replays. Pass the body as received. Raises SignatureError,
        or ValueError if the body is not an event.
        """
        key = self._secret.encode()  # as displayed, with its prefix
        want = b"sha256=" + hmac.new(key, body, hashlib.sha256).hexdigest().encode()
        if not hmac.compare_digest(_lower(headers).get("x-service-signature", "").encode(), want):
            raise SignatureError("the webhook has no valid signature")
        return self._event(body)

    @staticmethod
    def _event(body: bytes) -> Event:
        try:
            event = json.loads(body)
            data = EventData(**{name: event["data"][name] for name in EventData.__dataclass_fields__})
            return Event(event["event"], event["timestamp"], data)
        except (KeyError, TypeError) as error:
            raise ValueError("the body is not an event") from error

    def _signed(self, headers: Mapping[str, str], body: bytes, now: float) -> bool:
        """Verifies the signature of Standard Webhooks 1.0.

        During a rotation there is a signature for each secret, and one match is enough.
        """
        timestamp = headers.get("webhook-timestamp") or ""
        if not re.fullmatch("[0-9]{1,12}", timestamp) or abs(now - int(timestamp)) > self._tolerance:
            return False  # invalid, or a replay
        signed = f"{headers.get('webhook-id') or ''}.{timestamp}.".encode() + body
        want = b"v1," + base64.b64encode(hmac.new(self._key, signed, hashlib.sha256).digest())
        signatures = (headers.get("webhook-signature") or "").split()
        return any(hmac.compare_digest(s.encode(), want) for s in signatures)


def _lower(headers: Mapping[str, str] | Message) -> dict[str, str]:
    """The headers with names in lower case."""
    return {name.lower(): value or "" for name, value in headers.items()}
