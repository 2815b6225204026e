"""Calls Assay's API and verifies its webhooks. Needs the standard library alone."""

from .client import AssayError, BatchError, Client, Result
from .webhook import Event, EventData, SignatureError, Webhook

__all__ = ["AssayError", "BatchError", "Client", "Event", "EventData", "Result", "SignatureError", "Webhook"]
