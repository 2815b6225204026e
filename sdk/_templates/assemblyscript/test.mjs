// These tests call the compiled layer without a host. `assay plugin test` runs cases.jsonl in the sandbox.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import test from "node:test";

const module = await WebAssembly.compile(await readFile(new URL("plugin.wasm", import.meta.url)));

/** Calls the layer with facts, and returns its answer. */
async function run(facts) {
  const answer = { score: 0, signals: [], threat: null, log: [] };
  let memory;
  const bytes = (at, length) => new Uint8Array(memory.buffer, at, length);
  const text = (at, length) => new TextDecoder("utf-8", { fatal: true }).decode(bytes(at, length));
  const { exports } = await WebAssembly.instantiate(module, {
    assay: {
      fact(name, nameLength, buffer, capacity) {
        const value = facts[text(name, nameLength)];
        if (value === undefined) return -1;
        const encoded = new TextEncoder().encode(value);
        if (encoded.length <= capacity) bytes(buffer, encoded.length).set(encoded);
        return encoded.length;
      },
      signal(points, code, codeLength, at, length) {
        answer.signals.push({ points, code: text(code, codeLength), text: text(at, length) });
        answer.score += points;
      },
      threat: (at, length) => { answer.threat = text(at, length); },
      log: (level, at, length) => { answer.log.push(text(at, length)); },
    },
  });
  memory = exports.memory;
  exports._initialize();
  answer.outcome = exports.assay_v1_score();
  return answer;
}

for (const [name, facts, score, text, threat] of [
  ["few digits", { "domain.registrable": "shop24.de" }, 0, undefined, null],
  ["digits", { "domain.registrable": "shop20245.com" }, 20, "Contains the number “20245”", null],
  ["new", { "domain.registrable": "a.de", "rdap.age_days": "1" }, 30, "Registered 1 day ago", null],
  ["not so new", { "domain.registrable": "a.de", "rdap.age_days": "30" }, 0, undefined, null],
  ["both", { "domain.registrable": "1-2024.com", "rdap.age_days": "0" }, 50, "Contains the number “2024”", "scam"],
]) {
  test(name, async () => {
    const got = await run(facts);
    assert.deepEqual([got.outcome, got.score, got.signals[0]?.text, got.threat], [0, score, text, threat]);
  });
}

test("no facts", async () => assert.equal((await run({})).outcome, 1));
