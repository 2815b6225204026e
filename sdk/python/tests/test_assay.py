"""Tests of the client. With ASSAY_URL and ASSAY_KEY they also call that host."""

import http.client
import json
import os
import threading
import time
import unittest
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

from assay import AssayError, BatchError, Client, Result, SignatureError, Webhook
from assay.client import _Answer

CHECKED = json.dumps({
    "score": 94, "verdict": "block", "signals": ["x"], "dominant_threat": None, "type": "domain", "query": "a.example",
    "timestamp": "2026-01-15T10:30:00.123Z", "ref": "chk_1", "added_later": 1,
})
Answer = tuple[int, str, dict[str, str]]
CUT: Answer = (0, "", {})
HALF: Answer = (200, CHECKED, {"Content-Length": "1000"})
OK: Answer = (200, CHECKED, {})


class FakeTime:
    """A clock that sleeping moves."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def answer(self, outage: float) -> _Answer:
        if self.now < outage:
            raise ConnectionRefusedError
        return _Answer(200, CHECKED.encode(), None)


class Attempts(unittest.TestCase):
    def serve(self, *answers: Answer) -> tuple[str, list[tuple[str, bytes]]]:
        """Starts a server that gives one answer to each attempt, the last one to all others."""
        seen: list[tuple[str, bytes]] = []
        self.calls: list[str] = []
        calls = self.calls

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                calls.append(f"{self.command} {self.path}")
                seen.append((self.headers["Idempotency-Key"], body))
                status, text, headers = answers[min(len(seen), len(answers)) - 1]
                if status == 0:
                    self.wfile.write(text.encode())
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for part in text.splitlines(keepends=True):
                    self.wfile.write(part.encode())
                    time.sleep(0.05 * ("\n" in text))

            do_GET = do_CONNECT = do_DELETE = do_POST

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *_: None  # type: ignore[method-assign] # a client that hung up
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}/", seen

    def test_attempts(self) -> None:
        month = {"Retry-After": "864000"}
        for name, answers, attempts, status in [
            ("at once", [OK], 1, 0),
            ("a lost answer", [CUT, OK], 2, 0),
            ("half an answer", [HALF, OK], 2, 0),
            ("an overloaded host", [(503, "{}", {}), OK], 2, 0),
            ("a proxy without host", [(502, "<html>", {}), OK], 2, 0),
            ("always overloaded", [(503, "[]", {})], 4, 503),
            ("too many requests", [(429, '{"code":"rate_limited"}', {}), OK], 2, 0),
            ("a proxy's limit", [(429, "", {}), OK], 2, 0),
            ("no quota", [(429, '{"code":"quota_exhausted"}', {"Retry-After": "1"})], 1, 429),
            ("another month", [(429, '{"error":"quota"}', month)], 1, 429),
            ("an invalid request", [(400, '{"error":"domain: has no dot"}', {})], 1, 400),
            ("a redirect", [(307, "", {"Location": "http://elsewhere.example/"})], 1, 307),
        ]:
            with self.subTest(name):
                url, seen = self.serve(*answers)
                try:
                    client = Client(url, "assay_x", attempts=4, attempt_timeout=60, timeout=120)
                    result = client.check({"domain": "a.example"})
                    self.assertEqual((status, result.ref, result.verdict), (0, "chk_1", "block"))
                except AssayError as error:
                    self.assertEqual(error.status, status)
                self.assertEqual(len(seen), attempts)
                self.assertEqual(len(set(seen)), 1, "attempts differ")
                self.assertGreaterEqual(len(seen[0][0]), 20)

    def test_error(self) -> None:
        text = '{"error":"region.country: is not a country","code":"invalid_field","field":"region.country"}'
        url, _ = self.serve((400, text, {"X-Request-Id": "req_1"}), (500, '{"error":"internal","ref":"chk_2"}', {}))
        client = Client(url, "assay_x", attempts=1)
        with self.assertRaises(AssayError) as raised:
            client.check({"phone": "1", "region": {"country": "XX"}})
        self.assertEqual((raised.exception.field, raised.exception.request_id), ("region.country", "req_1"))
        self.assertEqual(raised.exception.code, "invalid_field")
        with self.assertRaises(AssayError) as raised:
            client.check_batch([{"domain": "a.example"}])
        self.assertEqual((raised.exception.status, raised.exception.ref), (500, "chk_2"))

    def test_given_key(self) -> None:
        url, seen = self.serve(OK)
        client = Client(url, "assay_x")
        for key in ["order-17", None, None]:
            client.check({"domain": "a.example"}, idempotency_key=key)
        self.assertEqual(seen[0][0], "order-17")
        self.assertNotEqual(seen[1][0], seen[2][0])
        client.check({"domain": "a.example"}, idempotency_key="")  # which the service refuses
        self.assertEqual(seen[3][0], "")

    def test_keys_from_files(self) -> None:
        url, seen = self.serve(OK)
        Client(url, "assay_x\r\n").check({"domain": "a.example"})
        self.assertEqual(len(seen), 1)
        for kind in (lambda key: Client(url, key), Webhook):
            with self.assertRaises(ValueError) as raised:
                kind("secret\nx")
            self.assertNotIn("secret\n", str(raised.exception))

    def test_retry_after(self) -> None:
        url, seen = self.serve((503, "{}", {"Retry-After": "1"}), OK)
        begun = time.monotonic()
        Client(url, "assay_x").check({"domain": "a.example"})
        self.assertEqual(len(seen), 2)
        self.assertGreaterEqual(time.monotonic() - begun, 1)

    def test_restart(self) -> None:
        """A restart of the service loses no call, and a client gives up after its timeout."""
        for outage, lost in [(6, False), (18, False), (3600, True)]:
            with self.subTest(outage):
                clock = FakeTime()
                client = Client("http://assay.example", "assay_x")
                with mock.patch("assay.client.time", clock), mock.patch("assay.client._attempt") as attempt:
                    attempt.side_effect = lambda *_: clock.answer(outage)
                    try:
                        client.check({"domain": "a.example"})
                        self.assertFalse(lost)
                    except ConnectionRefusedError:
                        self.assertTrue(lost)
                self.assertTrue(min(outage, 18) <= clock.now <= 20, clock.now)
                self.assertLess(attempt.call_count, 40)

    def test_no_answer(self) -> None:
        """What is not the service's answer is an OSError, for which a payment is held."""
        garbage, half_refused = (0, "garbage\r\n\r\n", {}), (503, "{}", {"Content-Length": "9"})
        for answer in [CUT, HALF, garbage, half_refused, (200, "<html>", {}), (200, "[]", {}), (200, "{}", {})]:
            with self.subTest(answer):
                client = Client(self.serve(answer)[0], "assay_x", attempts=2)
                with self.assertRaises(OSError):
                    client.check({"domain": "a.example"})
                with self.assertRaises(OSError):
                    client.overrides()
        with self.assertRaises(http.client.InvalidURL):
            Client("http://a.example:port", "assay_x").overrides()

    def test_time_limits(self) -> None:
        """An answer that arrives in small parts ends with the limit of an attempt and of a call."""
        for status in (200, 503):
            url, seen = self.serve((status, "\n" * 100 + CHECKED, {}))  # takes 5 s
            begun = time.monotonic()
            with self.assertRaises(TimeoutError):
                Client(url, "assay_x", attempt_timeout=0.5, timeout=1.5).check({"domain": "a.example"})
            self.assertLess(time.monotonic() - begun, 4)
            self.assertGreater(len(seen), 1)

    def test_proxy(self) -> None:
        """Every attempt has a tunnel to the service's TLS port: a proxy never sees the key."""
        url, _ = self.serve((503, "", {}))
        with mock.patch.dict("os.environ", {"https_proxy": url}):
            client = Client("https://assay.example", "assay_x", attempts=4)
        with self.assertRaises(OSError):
            client.check({"domain": "a.example"})
        self.assertEqual(self.calls, ["CONNECT assay.example:443"] * 4)

    def test_background(self) -> None:
        def running(kind: str) -> Answer:
            return 202, f'{{"id":"req_1","kind":"{kind}","state":"running"}}', {}

        def settled(state: str) -> Answer:
            return 200, f'{{"id":"req_1","kind":"export","state":"{state}"}}', {}

        def part(checks: list[int], following: str | None) -> Answer:
            return 200, json.dumps({"checks": checks, "later": True, "next": following}), {}

        asked, poll, data = "POST /gdpr/export", "GET /gdpr/requests/req_1", "GET /gdpr/requests/req_1/export"
        for name, answers, calls, want in [
            ("an export at once", [part([1], None)], [asked], [1]),
            (
                "an export in the background",
                [running("export"), settled("running"), CUT, settled("done"), part([1, 2], "chk_2"), part([3], None)],
                [asked, poll, poll, poll, data, data + "?after=chk_2"], [1, 2, 3],
            ),
            ("a revoked key", [running("export"), settled("failed")], [asked, poll], "the export req_1 has the state failed"),
            ("an erasure at once", [(200, '{"erased":2}', {})], ["POST /gdpr/erase"], None),
            (
                "an erasure in the background", [running("erasure"), settled("running"), settled("done")],
                ["POST /gdpr/erase", poll, poll], None,
            ),
        ]:
            with self.subTest(name):
                url, seen = self.serve(*answers)
                client = Client(url, "assay_x")
                got: Any = None
                try:
                    if calls[0] == asked:
                        got = client.export({"email": "a@example.com"})["checks"]
                    else:
                        client.erase({"ref": "chk_1"})
                except RuntimeError as error:
                    got = str(error)
                self.assertEqual((got, self.calls), (want, calls))
                for call, (key, body) in zip(self.calls, seen, strict=True):
                    self.assertEqual((key is not None, body != b""), (call.startswith("POST"),) * 2)
        url, _ = self.serve(running("erasure"))
        with self.assertRaisesRegex(TimeoutError, "req_1"):
            Client(url, "assay_x", wait=0.05).erase({"ref": "chk_1"})

    def test_removed_before(self) -> None:
        """A 404 is success only if an earlier attempt may have removed what is named."""
        uncertain, busy = (500, '{"code":"uncertain"}', {}), (503, '{"code":"busy"}', {})
        for first, removed in [(CUT, True), ((503, "", {}), True), (uncertain, True), (busy, False)]:
            with self.subTest(first):
                client = Client(self.serve(first, (404, "{}", {}))[0], "assay_x")
                if removed:
                    client.remove_override("ovr_1")
                else:
                    self.assertRaises(AssayError, client.remove_override, "ovr_1")
                self.assertEqual(len(self.calls), 2)

    def test_receipt(self) -> None:
        promised = (200, '{"proof":null}', {"Retry-After": "1"})
        url, _ = self.serve(promised, (200, '{"proof":{}}', {}))
        self.assertEqual(Client(url, "assay_x").receipt("chk_1/.."), {"proof": {}})
        self.assertEqual(self.calls, ["GET /api/receipts/chk_1%2F.."] * 2)
        url, _ = self.serve(promised)
        self.assertEqual(Client(url, "assay_x", attempts=1).receipt("chk_1"), {"proof": None})
        url, _ = self.serve(promised, (404, "{}", {}))
        self.assertEqual(Client(url, "assay_x").receipt("chk_1"), {"proof": None})
        self.assertEqual(len(self.calls), 2)
        url, _ = self.serve((404, "{}", {}))
        self.assertRaises(AssayError, Client(url, "assay_x").receipt, "chk_1")


class Webhooks(unittest.TestCase):
    def test_cases(self) -> None:
        file = Path(__file__).parents[2] / "testdata" / "webhooks.json"
        cases = json.loads(file.read_text(encoding="utf-8"))
        self.assertGreaterEqual(len(cases), 20)
        for c in cases:
            with self.subTest(c["name"]):
                webhook, body = Webhook(c["secret"] + "\n"), c["body"].encode()  # as a file has it
                if c["valid"]:
                    event = webhook.verify(c["headers"], body, c["now"])
                    self.assertEqual((event.data.query, event.data.score), ("é.example", 94))
                else:
                    with self.assertRaises(SignatureError):
                        webhook.verify(c["headers"], body, c["now"])
                if c["service"]:
                    event = webhook.verify_service_signature(c["headers"], body)
                    self.assertEqual(event.data.query, "é.example")
                else:
                    with self.assertRaises(SignatureError):
                        webhook.verify_service_signature(c["headers"], body)

    def test_empty_secret(self) -> None:
        with self.assertRaises(ValueError):
            Webhook("whsec_\n")


@unittest.skipUnless("ASSAY_URL" in os.environ, "set ASSAY_URL and ASSAY_KEY to call a host")
class Host(unittest.TestCase):
    def test_calls(self) -> None:
        """Makes the same calls as the host's TestService."""
        client = Client(os.environ["ASSAY_URL"], os.environ["ASSAY_KEY"])
        domain = "paypa1-secure-login.xyz"
        result = client.check({"domain": domain})
        self.assertEqual(result.type, "domain")
        first, second = client.check_batch([{"domain": domain}, {"email": "nobody"}])
        self.assertIsInstance(first, Result)
        self.assertIsInstance(second, BatchError)
        self.assertEqual(second.field, "email")
        client.give_feedback(result.ref, "legitimate")
        self.records(client, result)
        client.revoke_feedback(result.ref)
        with self.assertRaises(AssayError) as raised:
            client.check({"email": "nobody"})
        self.assertEqual((raised.exception.status, raised.exception.field), (400, "email"))
        self.assertRegex(raised.exception.request_id or "", "^req_")
        receipt = client.receipt(result.ref)
        self.assertEqual((receipt["record"]["ref"], receipt["format"]), (result.ref, "assay-receipt-1"))
        explained = client.explain(result.ref, {"domain": domain})
        self.assertEqual((explained.score, explained.today.verdict), (result.score, "block"))
        self.assertTrue(explained.text and explained.decided_by and explained.decided_by.reasons[0].points)
        self.assertEqual(client.ask_review(result.ref, "Our shop.").state, "asked")
        self.assertEqual(client.review(result.ref).reason, "Our shop.")
        export = client.export({"domain": domain})
        self.assertEqual((export["total"], len(export["checks"])), (1002, 1002))
        client.erase({"ref": result.ref})

    def records(self, client: Client, result: Result) -> None:
        found = [c for c in client.search({"verdict": "block", "from": result.timestamp}) if c.ref == result.ref]
        self.assertEqual([c.score for c in found], [result.score])
        shown = client.recorded_check(result.ref)
        self.assertEqual((shown.type, (shown.feedback or {})["label"]), ("domain", "legitimate"))
        self.assertEqual(list(client.events()), [])
        at = datetime.fromisoformat(result.timestamp)
        self.assertIn(result.ref, client.export_checks("csv", {"from": at}).decode())
        with self.assertRaises(ValueError):
            client.export_checks("csv", {"domain": result.query})
        used = client.usage(f"{at:%Y-%m}")
        self.assertEqual((used.quota, used.used >= 2, bool(used.counts)), (1500, True, True))
        end = datetime.now(UTC) + timedelta(hours=1)
        override = client.set_override("allow", {"registrable_domain": "example.net"}, "Our shop.", end)
        self.assertEqual([(o.id, o.kind) for o in client.overrides()], [(override.id, "registrable_domain")])
        client.remove_override(override.id)
        self.assertEqual(client.check_public(result.query).score, result.score)
        self.assertRegex(client.subject_ref({"domain": result.query}), "^sub_")


if __name__ == "__main__":
    unittest.main()
