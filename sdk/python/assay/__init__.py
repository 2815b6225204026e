"""Calls Assay's API and verifies its webhooks. Needs only the standard library."""

from .client import (
    AssayError,
    BatchError,
    CheckDetails,
    Client,
    Code,
    Explanation,
    FieldWarning,
    HumanReview,
    ListedEvent,
    Override,
    Query,
    Reason,
    RecordedCheck,
    Request,
    Result,
    Scoring,
    Subject,
    Usage,
)
from .webhook import Event, EventData, SignatureError, Webhook

__all__ = [
    "AssayError", "BatchError", "CheckDetails", "Client", "Code", "Event", "EventData", "Explanation", "FieldWarning",
    "HumanReview", "ListedEvent", "Override", "Query", "Reason", "RecordedCheck", "Request", "Result", "Scoring",
    "SignatureError", "Subject", "Usage", "Webhook",
]
