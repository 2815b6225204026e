// The SDK of Assay's layers for AssemblyScript: a copy, so do not edit it.

import { hidden } from "./assay_facts";

@external("assay", "fact")
declare function hostFact(name: usize, nameLength: i32, buffer: usize, capacity: i32): i32;
@external("assay", "signal")
declare function hostSignal(points: i32, code: usize, codeLength: i32, text: usize, textLength: i32): void;
@external("assay", "threat")
declare function hostThreat(name: usize, nameLength: i32): void;
@external("assay", "log")
declare function hostLog(level: i32, text: usize, textLength: i32): void;

/** The results of a call. A layer abstains when it cannot assess an entity; its points then do not count. */
export enum Outcome {
  Scored = 0,
  Abstained = 1,
  Failed = 2,
}

/** The severity of a log line. */
export enum Level {
  Debug = -4,
  Info = 0,
  Warn = 4,
  Error = 8,
}

/** The categories of fraud. The manifest declares those that the layer names. */
export namespace Threat {
  export const Phishing: string = "phishing";
  export const Impersonation: string = "impersonation";
  export const Scam: string = "scam";
  export const InvestmentScam: string = "investment_scam";
  export const Malware: string = "malware";
  export const Spam: string = "spam";
  export const Disposable: string = "disposable";
  export const FakeIdentity: string = "fake_identity";
  export const TollFraud: string = "toll_fraud";
}

/** The named fact, or null if it is absent. Absent means "not known" and must never add risk. */
export function fact(name: string): string | null {
  const key = String.UTF8.encode(name);
  let buffer = new ArrayBuffer(256);
  const length = hostFact(changetype<usize>(key), key.byteLength, changetype<usize>(buffer), buffer.byteLength);
  if (length < 0) return null;
  if (length > buffer.byteLength) {
    buffer = new ArrayBuffer(length);
    hostFact(changetype<usize>(key), key.byteLength, changetype<usize>(buffer), length);
  }
  return String.UTF8.decodeUnsafe(changetype<usize>(buffer), length);
}

/** Whether the named fact is known. */
export function has(name: string): bool {
  const key = String.UTF8.encode(name);
  return hostFact(changetype<usize>(key), key.byteLength, 0, 0) >= 0;
}

/** The named fact as a number of at most nine digits, or -1 if it is absent or anything else. */
export function count(name: string): i32 {
  const digits = fact(name);
  if (digits === null || digits.length < 1 || digits.length > 9) return -1;
  if (digits.charCodeAt(0) == 0x30 && digits.length > 1) return -1;
  let n = 0;
  for (let i = 0; i < digits.length; i++) {
    const digit = digits.charCodeAt(i) - 0x30;
    if (digit < 0 || digit > 9) return -1;
    n = n * 10 + digit;
  }
  return n;
}

/** The values of a yes-or-no fact. */
export enum YesNo {
  Unknown = -1,
  No = 0,
  Yes = 1,
}

/** The named yes-or-no fact, or Unknown if it is absent or anything else. */
export function yesNo(name: string): YesNo {
  const value = fact(name);
  if (value === null) return YesNo.Unknown;
  return value == "yes" ? YesNo.Yes : value == "no" ? YesNo.No : YesNo.Unknown;
}

/** Whether the named yes-or-no fact is known and yes. */
export function isYes(name: string): bool {
  return yesNo(name) == YesNo.Yes;
}

/** Whether the named yes-or-no fact is known and no. */
export function isNo(name: string): bool {
  return yesNo(name) == YesNo.No;
}

/** The entries of the named fact; none if it is absent. */
export function list(name: string): string[] {
  const entries = fact(name);
  return entries === null ? [] : entries.split(" ").filter((entry: string): bool => entry.length > 0);
}

/** The most bytes of what quote returns, without the ellipsis. */
const maxQuoteBytes: i32 = 60;

/**
 * A value in quotation marks, for the end of a signal's text, so that no value makes the text too long or one that
 * hosts refuse: what a person cannot see becomes "?", characters that join others are left out, and a long value is cut
 * between two characters, with an ellipsis.
 */
export function quote(value: string): string {
  let quoted = "“";
  let bytes = 3;
  for (let i = 0; i < value.length; i++) {
    let c = value.codePointAt(i);
    if (c > 0xffff) i++;
    if (c == 0x200c || c == 0x200d) continue;
    if (c == 0xfffd || !visible(c)) c = 0x3f;
    bytes += c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (bytes > maxQuoteBytes - 3) return quoted + "…”";
    quoted += String.fromCodePoint(c);
  }
  return quoted + "”";
}

/** Whether a person can see a character, or the space that it makes. */
function visible(character: u32): bool {
  let low = 0;
  let high = hidden.length;
  while (low < high) {
    const middle = (low + high) / 2;
    if (hidden[middle] <= character) low = middle + 1;
    else high = middle;
  }
  return low % 2 == 0;
}

/**
 * Adds one reason: points from -100 (reassuring) to 100 (alarming), a code that the manifest declares, and a sentence
 * that names the evidence.
 */
export function signal(points: i32, code: string, text: string): void {
  const c = String.UTF8.encode(code);
  const t = String.UTF8.encode(text);
  hostSignal(points, changetype<usize>(c), c.byteLength, changetype<usize>(t), t.byteLength);
}

/** Names the category of fraud that this layer found. The last call counts. */
export function threat(name: string): void {
  const n = String.UTF8.encode(name);
  hostThreat(changetype<usize>(n), n.byteLength);
}

/** Writes a line for the layer's author. Customers never see it. */
export function log(level: Level, text: string): void {
  const t = String.UTF8.encode(text);
  hostLog(level, changetype<usize>(t), t.byteLength);
}

/**
 * Logs why the layer stops and ends the call, which the host then decides without this layer. The compiler's runtime
 * calls it, for example for an index out of range: asconfig.json names it in place of env.abort, which hosts do not
 * offer.
 */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const where = (file === null ? "?" : file) + ":" + line.toString() + ":" + column.toString();
  log(Level.Error, (message === null ? "aborted" : message) + " at " + where);
  unreachable();
}
