// Tests of the client. With ASSAY_URL and ASSAY_KEY they also call that host.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { test } from "node:test";

import { AssayError, Client, SignatureError, Webhook } from "../build/index.js";

const checked = JSON.stringify({
  score: 94, verdict: "block", signals: ["x"], dominant_threat: null, type: "domain", query: "a.example",
  timestamp: "2026-01-15T10:30:00.123Z", ref: "chk_1",
});
const ok = [200, checked];
const cut = [0];
const half = [200, checked, { "Content-Length": "1000" }];
const hang = [-1];
// Time limits that are reached only if a test fails, however slow the machine is.
const patient = { attempts: 4, attemptTimeout: 60_000, timeout: 120_000 };

/** Starts a server that gives one answer to each attempt, the last one to all others. */
async function serve(t, ...answers) {
  const seen = [];
  const calls = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    calls.push(`${request.method} ${request.url}`);
    seen.push(`${request.headers["idempotency-key"]} ${body}`);
    const [status, text, headers] = answers[Math.min(seen.length, answers.length) - 1];
    if (status === 0) request.socket.destroy();
    if (status <= 0) return;
    response.writeHead(status, headers);
    if (headers?.["Content-Length"]) response.write(text, () => request.socket.destroy());
    else response.end(text);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}/`, seen, calls };
}

for (const [name, answers, attempts, status] of [
  ["at once", [ok], 1, 0],
  ["a lost answer", [cut, ok], 2, 0],
  ["half an answer", [half, ok], 2, 0],
  ["an overloaded host", [[503, "{}"], ok], 2, 0],
  ["a proxy without host", [[502, "<html>"], ok], 2, 0],
  ["always overloaded", [[503, "[]"]], 4, 503],
  ["too many requests", [[429, '{"code":"rate_limited"}'], ok], 2, 0],
  ["a proxy's limit", [[429, ""], ok], 2, 0],
  ["no quota", [[429, '{"code":"quota_exhausted"}', { "Retry-After": "1" }]], 1, 429],
  ["another month", [[429, '{"error":"quota"}', { "Retry-After": "864000" }]], 1, 429],
  ["an absurd wait", [[429, "{}", { "Retry-After": "9223372036854775807" }], [400, "{}"]], 2, 400],
  ["an invalid request", [[400, '{"error":"domain: has no dot"}']], 1, 400],
  ["a redirect", [[307, "", { Location: "http://elsewhere.example/" }]], 1, 307],
]) {
  test(name, async (t) => {
    const { url, seen } = await serve(t, ...answers);
    try {
      const result = await new Client(url, "assay_x", patient).check({ domain: "a.example" });
      assert.deepEqual([status, result.ref, result.verdict], [0, "chk_1", "block"]);
    } catch (error) {
      if (!(error instanceof AssayError)) throw error;
      assert.equal(error.status, status);
    }
    assert.equal(seen.length, attempts);
    assert.equal(new Set(seen).size, 1, "attempts differ");
    assert.match(seen[0], /^\S{20,} \{"domain":"a\.example"\}$/);
  });
}

test("errors", async (t) => {
  const text = '{"error":"region.country: is not a country","code":"invalid_field","field":"region.country","request_id":"req_1"}';
  const { url } = await serve(t, [400, text, { "X-Request-Id": "req_1" }], [500, '{"error":"internal","ref":"chk_2"}']);
  const client = new Client(url, "assay_x", { attempts: 1 });
  await assert.rejects(client.check({ phone: "1", region: { country: "XX" } }), {
    name: "AssayError", status: 400, code: "invalid_field", field: "region.country", requestId: "req_1",
    message: "status 400: region.country: is not a country (req_1)",
  });
  await assert.rejects(client.checkBatch([{ domain: "a.example" }]), { status: 500, ref: "chk_2", field: undefined });
});

test("a given key", async (t) => {
  const { url, seen } = await serve(t, ok);
  const client = new Client(url, "assay_x");
  for (const options of [{ idempotencyKey: "order-17" }, {}, {}]) await client.check({ domain: "a.example" }, options);
  const keys = seen.map((attempt) => attempt.split(" ")[0]);
  assert.equal(keys[0], "order-17");
  assert.notEqual(keys[1], keys[2]);
  const late = new Client(url, "assay_x", { fetch: async () => assert.fail("an attempt with an invalid key") });
  await assert.rejects(late.check({ domain: "a.example" }, { idempotencyKey: "order\n17" }), TypeError);
});

test("keys from files", async (t) => {
  const { url, seen } = await serve(t, ok);
  await new Client(url, "assay_x\r\n").check({ domain: "a.example" });
  assert.equal(seen.length, 1);
  for (const make of [(key) => new Client(url, key), (key) => new Webhook(key)]) {
    assert.throws(() => make("secret\nx"), (error) => error instanceof TypeError && !/\n/.test(error.message));
  }
});

test("Retry-After", async (t) => {
  const { url, seen } = await serve(t, [503, "{}", { "Retry-After": "1" }], ok);
  const begun = performance.now();
  await new Client(url, "assay_x", patient).check({ domain: "a.example" });
  assert.equal(seen.length, 2);
  assert.ok(performance.now() - begun >= 990); // a timer may fire a little early
});

for (const [outage, lost] of [[6_000, false], [18_000, false], [3_600_000, true]]) {
  test(`a restart of ${outage} ms`, async (t) => {
    let now = 0;
    t.mock.method(performance, "now", () => now);
    t.mock.timers.enable({ apis: ["setTimeout"] });
    let attempts = 0;
    const service = async () => {
      attempts++;
      if (now < outage) throw new TypeError("fetch failed");
      return new Response(checked);
    };
    let ended;
    const unset = { attempts: undefined, attemptTimeout: undefined, timeout: undefined, wait: undefined };
    new Client("http://assay.example", "assay_x", { ...unset, fetch: service }).check({ domain: "a.example" })
      .then(() => (ended = "answered"), () => (ended = "lost"));
    while (!ended) {
      await new Promise(setImmediate);
      now += 10;
      t.mock.timers.tick(10);
    }
    assert.equal(ended, lost ? "lost" : "answered");
    assert.ok(now >= Math.min(outage, 18_000) && now <= 20_100 && attempts < 40, `${now} ms, ${attempts} attempts`);
  });
}

test("time limits", async (t) => {
  const lost = await serve(t, hang, ok);
  const hasty = { ...patient, attemptTimeout: 200, attempts: 100 };
  await new Client(lost.url, "assay_x", hasty).check({ domain: "a.example" });
  assert.ok(lost.seen.length >= 2); // on a busy machine more attempts may be lost

  const silent = await serve(t, hang);
  const late = new Client(silent.url, "assay_x", { timeout: 100 }).check({ domain: "a.example" });
  await assert.rejects(late, { name: "TimeoutError" });
  assert.ok(silent.seen.length <= 1);

  const given = new Client(silent.url, "assay_x").check({ domain: "a.example" }, { signal: AbortSignal.timeout(100) });
  await assert.rejects(given, { name: "TimeoutError" });
  const paused = await serve(t, [503, "{}", { "Retry-After": "5" }]);
  const controller = new AbortController();
  const call = new Client(paused.url, "assay_x").check({ domain: "a.example" }, { signal: controller.signal });
  setTimeout(() => controller.abort(new Error("the user left")), 100);
  await assert.rejects(call, { message: "the user left" });
});

const running = (kind) => [202, JSON.stringify({ id: "req_1", kind, state: "running" })];
const settled = (state) => [200, JSON.stringify({ id: "req_1", kind: "export", state })];
const part = (checks, next) => [200, JSON.stringify({ checks, later: true, next })];
const exported = async (client) => (await client.export({ email: "a@example.com" })).checks;
const erase = (client) => client.erase({ ref: "chk_1" });
const [asked, poll, data] = ["POST /gdpr/export", "GET /gdpr/requests/req_1", "GET /gdpr/requests/req_1/export"];

for (const [name, call, answers, want, expected] of [
  ["an export at once", exported, [part([1], null)], [1], [asked]],
  [
    "an export in the background", exported,
    [running("export"), settled("running"), cut, settled("done"), part([1, 2], "chk_2"), part([3], null)], [1, 2, 3],
    [asked, poll, poll, poll, data, `${data}?after=chk_2`],
  ],
  ["a revoked key", exported, [running("export"), settled("failed")], "the export req_1 has the state failed", [asked, poll]],
  ["an erasure at once", erase, [[200, '{"erased":2}']], undefined, ["POST /gdpr/erase"]],
  [
    "an erasure in the background", erase, [running("erasure"), settled("running"), settled("done")], undefined,
    ["POST /gdpr/erase", poll, poll],
  ],
]) {
  test(name, async (t) => {
    const { url, calls, seen } = await serve(t, ...answers);
    assert.deepEqual(await call(new Client(url, "assay_x")).catch((error) => error.message), want);
    assert.deepEqual(calls, expected);
    calls.forEach((call, i) => assert.match(seen[i], call.startsWith("POST") ? /^\S{20,} \{.+\}$/ : /^undefined $/));
  });
}

test("waiting for the background", async (t) => {
  const { url } = await serve(t, running("erasure"));
  await assert.rejects(erase(new Client(url, "assay_x", { wait: 50 })), { name: "TimeoutError", message: /req_1/ });
  const signal = AbortSignal.timeout(50);
  await assert.rejects(new Client(url, "assay_x").erase({ ref: "chk_1" }, { signal }), { name: "TimeoutError" });
});

test("a 404 is success only if an earlier attempt may have removed what is named", async (t) => {
  const uncertain = [500, '{"code":"uncertain"}'];
  const busy = [503, '{"code":"busy"}'];
  for (const [first, removed] of [[cut, true], [[503, ""], true], [uncertain, true], [busy, false]]) {
    const { url, calls } = await serve(t, first, [404, "{}"]);
    const removal = new Client(url, "assay_x").removeOverride("ovr_1");
    await (removed ? removal : assert.rejects(removal, { status: 404 }));
    assert.equal(calls.length, 2);
  }
});

test("receipts", async (t) => {
  const promised = [200, '{"proof":null}', { "Retry-After": "1" }];
  const { url, calls } = await serve(t, promised, [200, '{"proof":{}}']);
  assert.deepEqual(await new Client(url, "assay_x").receipt("chk_1/.."), { proof: {} });
  assert.deepEqual(calls, Array(2).fill("GET /api/receipts/chk_1%2F.."));
  const late = await serve(t, promised);
  assert.deepEqual(await new Client(late.url, "assay_x", { attempts: 1 }).receipt("chk_1"), { proof: null });
  const failed = await serve(t, promised, [404, "{}"]);
  assert.deepEqual(await new Client(failed.url, "assay_x").receipt("chk_1"), { proof: null });
  assert.equal(failed.calls.length, 2);
  const never = await serve(t, [404, "{}"]);
  await assert.rejects(new Client(never.url, "assay_x").receipt("chk_1"), { status: 404 });
});

test("an export by value", async (t) => {
  const { url, calls } = await serve(t, [200, "[]"]);
  const client = new Client(url, "assay_x");
  assert.equal(await client.exportChecks("json", { type: "email", email: undefined }), "[]");
  for (const query of [{ email: "" }, { region: { country: "DE" } }, { form: "2026-01-01" }]) {
    await assert.rejects(client.exportChecks("json", query), TypeError);
  }
  assert.deepEqual(calls, ["GET /api/checks/export?format=json&type=email"]);
});

test("webhooks", async (t) => {
  const cases = JSON.parse(await readFile(new URL("../../testdata/webhooks.json", import.meta.url), "utf8"));
  assert.ok(cases.length >= 20);
  for (const c of cases) {
    await t.test(c.name, async () => {
      const webhook = new Webhook(`${c.secret}\n`); // as a file has it
      const now = new Date(c.now * 1_000);
      const service = webhook.verifyServiceSignature(c.headers, c.body);
      if (c.service) assert.equal((await service).data.query, "é.example");
      else await assert.rejects(service, SignatureError);
      if (!c.valid) {
        await assert.rejects(webhook.verify(c.headers, c.body, now), SignatureError);
        return;
      }
      for (const headers of [c.headers, new Headers(c.headers)]) {
        const { data } = await webhook.verify(headers, new TextEncoder().encode(c.body), now);
        assert.deepEqual([data.query, data.score], ["é.example", 94]);
      }
    });
  }
  assert.throws(() => new Webhook("whsec_\n"), TypeError);
});

async function collected(generator) {
  const all = [];
  for await (const one of generator) all.push(one);
  return all;
}

async function records(client, result) {
  const found = await collected(client.search({ verdict: "block", from: result.timestamp }));
  assert.deepEqual(found.filter(({ ref }) => ref === result.ref).map(({ score }) => score), [result.score]);
  const shown = await client.recordedCheck(result.ref);
  assert.deepEqual([shown.type, shown.feedback.label], ["domain", "legitimate"]);
  assert.deepEqual(await collected(client.events()), []);
  assert.ok((await client.exportChecks("csv", { from: new Date(result.timestamp) })).includes(result.ref));
  const used = await client.usage(result.timestamp.slice(0, 7));
  assert.deepEqual([used.quota, used.used >= 2, used.counts.length > 0], [1500, true, true]);
  const override = await client.setOverride({
    action: "allow", registrable_domain: "example.net", reason: "Our shop.",
    expires_at: new Date(Date.now() + 3_600_000),
  });
  const overrides = await client.overrides();
  assert.deepEqual(overrides.map(({ id, kind }) => [id, kind]), [[override.id, "registrable_domain"]]);
  await client.removeOverride(override.id);
  assert.equal((await client.checkPublic(result.query)).score, result.score);
  assert.match(await client.subjectRef({ domain: result.query }), /^sub_/);
}

const { ASSAY_URL: url, ASSAY_KEY: key } = process.env;
test("calls a host", { skip: url ? false : "set ASSAY_URL and ASSAY_KEY to call a host" }, async () => {
  const client = new Client(url, key); // makes the same calls as the host's TestService
  const domain = "paypa1-secure-login.xyz";
  const result = await client.check({ domain });
  assert.equal(result.type, "domain");
  const [first, second] = await client.checkBatch([{ domain }, { email: "nobody" }]);
  assert.match(first.ref, /^chk_/);
  assert.equal(second.field, "email");
  await client.giveFeedback({ ref: result.ref, label: "legitimate" });
  await records(client, result);
  await client.revokeFeedback(result.ref);
  await assert.rejects(client.check({ email: "nobody" }), (error) => {
    assert.deepEqual([error.status, error.field], [400, "email"]);
    return /^req_/.test(error.requestId);
  });
  const receipt = await client.receipt(result.ref);
  assert.deepEqual([receipt.record.ref, receipt.format], [result.ref, "assay-receipt-1"]);
  const explained = await client.explain(result.ref, { domain });
  assert.deepEqual([explained.score, explained.today.verdict], [result.score, "block"]);
  assert.ok(explained.text.length && explained.decided_by.reasons[0].points);
  assert.equal((await client.askReview({ ref: result.ref, reason: "Our shop." })).state, "asked");
  assert.equal((await client.review(result.ref)).reason, "Our shop.");
  const { checks, total } = await client.export({ domain });
  assert.deepEqual([checks.length, total], [1002, 1002]);
  await client.erase({ ref: result.ref });
});
