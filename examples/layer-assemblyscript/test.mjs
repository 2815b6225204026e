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

const facts = (name, suffix, days, subdomain) => Object.fromEntries(Object.entries({
  "domain.name": name, "domain.tld": suffix, "rdap.age_days": days, "domain.subdomain": subdomain,
}).filter(([, value]) => value !== undefined));

const found = (country, number) =>
  `Names the country “${country}” under another suffix, with the number “${number}”`;

for (const [name, given, score, text, threat] of [
  ["no country", facts("shop-2024", "com"), 0, undefined, null],
  ["a country alone", facts("pl-offer", "sbs"), 0, undefined, null],
  ["a country and a number", facts("pl-448042x", "sbs"), 30, found("pl", "448042"), "phishing"],
  ["a short number", facts("pl-448", "sbs"), 0, undefined, null],
  ["a number inside a part", facts("pl-x448042", "sbs"), 0, undefined, null],
  ["the suffix's country", facts("pl-448042", "pl"), 0, undefined, null],
  ["a country inside a word", facts("plumber-4480", "com"), 0, undefined, null],
  ["both in a host", facts("c", "cn", undefined, "visa.jp-2024"), 30, found("jp", "2024"), "phishing"],
  ["hosted", { ...facts("pl-448042", "app"), "domain.suffix_kind": "private" }, 0, undefined, null],
  ["new", facts("fr-2024", "com", "89"), 50, found("fr", "2024"), "phishing"],
  ["not so new", facts("fr-2024", "com", "90"), 30, found("fr", "2024"), "phishing"],
]) {
  test(name, async () => {
    const got = await run(given);
    assert.deepEqual([got.outcome, got.score, got.signals[0]?.text, got.threat], [0, score, text, threat]);
  });
}

test("no facts", async () => assert.equal((await run({})).outcome, 1));
