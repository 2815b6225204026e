"""Receives webhooks: verifies the signature and the timestamp, and ignores duplicates.

    ASSAY_WEBHOOK_SECRET=whsec_... LISTEN=127.0.0.1:9000 python3 receiver.py
"""

import base64
import hashlib
import hmac
import json
import os
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 64 * 1024
MAX_AGE = 5 * 60  # seconds

KEY = base64.b64decode(os.environ.get("ASSAY_WEBHOOK_SECRET", "").removeprefix("whsec_"))
if not KEY:
    sys.exit("ASSAY_WEBHOOK_SECRET must be a secret of the form whsec_...")
seen = set()  # ids of processed events; use durable storage in production


def parse_number(text):
    """Parses a decimal number of at most 12 digits. Returns None if the text is not one."""
    return int(text) if re.fullmatch("[0-9]{1,12}", text) else None


def verify(headers, body):
    """Reports whether a request has a valid Standard Webhooks signature over its id, timestamp and raw body.

    After a rotation there is one signature for each secret, and one match is enough.
    """
    timestamp = headers.get("webhook-timestamp", "")
    seconds = parse_number(timestamp)
    if seconds is None or abs(time.time() - seconds) > MAX_AGE:
        return False  # invalid, or a replay
    signed = f"{headers.get('webhook-id', '')}.{timestamp}.".encode() + body
    want = b"v1," + base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest())
    return any(hmac.compare_digest(s.encode(), want) for s in headers.get("webhook-signature", "").split())


class Receiver(BaseHTTPRequestHandler):
    timeout = 5

    def do_POST(self):
        size = parse_number(self.headers.get("content-length", ""))
        if size is None:
            return self.respond(411)
        if size > MAX_BODY:
            return self.respond(413)
        body = self.rfile.read(size)
        if not verify(self.headers, body):
            return self.respond(401)
        self.respond(204)
        # Delivery is at least once: an event is sent again if the response was lost.
        if self.headers["webhook-id"] not in seen:
            seen.add(self.headers["webhook-id"])
            event = json.loads(body)
            data = event["data"]
            print(event["event"], data["verdict"], data["query"], data["score"], data["ref"], flush=True)

    def respond(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *args):
        pass


host, port = os.environ.get("LISTEN", "127.0.0.1:9000").split(":")
server = ThreadingHTTPServer((host, int(port)), Receiver)
print(f"listening on http://{host}:{server.server_address[1]}", flush=True)
server.serve_forever()
