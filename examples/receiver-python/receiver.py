"""Receives webhooks: verifies the signature and the timestamp, and ignores duplicates.

    pip install assay_client-*-py3-none-any.whl
    ASSAY_WEBHOOK_SECRET=whsec_... LISTEN=127.0.0.1:9000 python3 examples/receiver-python/receiver.py
"""

import os
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from assay import SignatureError, Webhook

MAX_BODY = 64 * 1024

try:
    webhook = Webhook(os.environ.get("ASSAY_WEBHOOK_SECRET", ""))
except ValueError as error:
    sys.exit(f"ASSAY_WEBHOOK_SECRET: {error}")
seen = set()  # ids of processed events; use durable storage in production


class Receiver(BaseHTTPRequestHandler):
    timeout = 5

    def do_POST(self):
        size = self.headers.get("content-length", "")
        if not re.fullmatch("[0-9]{1,12}", size):
            return self.respond(411)
        if int(size) > MAX_BODY:
            return self.respond(413)
        try:
            event = webhook.verify(self.headers, self.rfile.read(int(size)))
        except SignatureError:
            return self.respond(401)
        except ValueError:
            return self.respond(400)
        self.respond(204)
        # Delivery is at least once: an event is sent again if the response was lost.
        if self.headers["webhook-id"] not in seen:
            seen.add(self.headers["webhook-id"])
            data = event.data
            print(event.event, data.verdict, data.query, data.score, data.ref, flush=True)

    def respond(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *args):
        pass


host, port = os.environ.get("LISTEN", "127.0.0.1:9000").split(":")
server = ThreadingHTTPServer((host, int(port)), Receiver)
print(f"listening on http://{host}:{server.server_address[1]}", flush=True)
server.serve_forever()
