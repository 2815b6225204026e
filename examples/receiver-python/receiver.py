"""Takes webhooks: it believes what is signed with the endpoint's secret, recent and new.

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
    sys.exit("ASSAY_WEBHOOK_SECRET is not a secret of the form whsec_...")
seen = set()  # ids; a real receiver keeps them where it keeps its orders


def number(text):
    """Reads a whole number, which anybody may have sent: None for what is none, or longer than any that is meant."""
    return int(text) if re.fullmatch("[0-9]{1,12}", text) else None


def genuine(headers, body):
    """Verifies the Standard Webhooks signature: of id, time and body, which is what came, byte for byte.

    While a secret is being replaced there are two signatures, and one that fits is enough.
    """
    stamp = headers.get("webhook-timestamp", "")
    seconds = number(stamp)
    if seconds is None or abs(time.time() - seconds) > MAX_AGE:
        return False  # recorded once and sent again later
    signed = f"{headers.get('webhook-id', '')}.{stamp}.".encode() + body
    want = b"v1," + base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest())
    return any(hmac.compare_digest(s.encode(), want) for s in headers.get("webhook-signature", "").split())


class Receiver(BaseHTTPRequestHandler):
    timeout = 5

    def do_POST(self):
        size = number(self.headers.get("content-length", ""))
        if size is None:
            return self.answer(411)
        if size > MAX_BODY:
            return self.answer(413)
        body = self.rfile.read(size)
        if not genuine(self.headers, body):
            return self.answer(401)
        self.answer(204)
        # An event may come twice, when an answer was lost on its way.
        if self.headers["webhook-id"] not in seen:
            seen.add(self.headers["webhook-id"])
            event = json.loads(body)
            data = event["data"]
            print(event["event"], data["verdict"], data["query"], data["score"], data["ref"], flush=True)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *args):
        pass


host, port = os.environ.get("LISTEN", "127.0.0.1:9000").split(":")
server = ThreadingHTTPServer((host, int(port)), Receiver)
print(f"listening on http://{host}:{server.server_address[1]}", flush=True)
server.serve_forever()
