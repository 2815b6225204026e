"""Calls Assay's API and verifies its webhooks. Needs the standard library alone."""

from .client import (
    AssayError,
    BatchError,
    Client,
    Explanation,
    HumanReview,
    Reason,
    Result,
    Scoring,
    Subject,
)
from .webhook import Event, EventData, SignatureError, Webhook

__all__ = [
    "AssayError", "BatchError", "Client", "Event", "EventData", "Explanation", "HumanReview", "Reason",
    "Result", "Scoring", "SignatureError", "Subject", "Webhook",
]
