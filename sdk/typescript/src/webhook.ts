/** The check that an event is about. */
export interface EventData {
  query: string;
  type: "domain" | "email" | "phone" | "iban";
  verdict: "BLOCK" | "REVIEW";
  score: number;
  /** Codes. */
  signals: string[];
  /** The same event can arrive twice, with the same ref. */
  ref: string;
}

/** The body of a webhook. */
export interface Event {
  event: "check.blocked" | "check.review";
  timestamp: string;
  data: EventData;
}

/** The webhook is not genuine, was altered or is a replay. Answer it with 401. */
export class SignatureError extends Error {
  override readonly name = "SignatureError";

  constructor() {
    super("the webhook has no valid signature");
  }
}

/** Verifies the webhooks of one endpoint. */
export class Webhook {
  readonly #secret: Uint8Array<ArrayBuffer>;
  readonly #key: Uint8Array<ArrayBuffer>;
  readonly #tolerance: number;

  /**
   * Takes the endpoint's secret (whsec_...). A webhook can be `tolerance` milliseconds old, or as far in the future:
   * 300,000 by default.
   */
  constructor(secret: string, tolerance = 300_000) {
    secret = secret.trim(); // a file ends with a line break
    const encoded = secret.startsWith("whsec_") ? secret.slice("whsec_".length) : secret;
    if (encoded === "") throw new TypeError("the webhook secret is empty; one begins with whsec_");
    if (/[\x00-\x1f\x7f]/.test(secret)) throw new TypeError("the webhook secret has a control character");
    this.#secret = new TextEncoder().encode(secret); // as displayed, with its prefix
    this.#key = base64.test(encoded)
      ? Uint8Array.from(atob(encoded), (c) => c.charCodeAt(0))
      : this.#secret; // a secret that is not base64 is used as it is
    this.#tolerance = tolerance;
  }

  /**
   * Checks the signature and the time of a request, and returns its event. Pass the body as received: decoding and
   * encoding it again would change its bytes. Throws a SignatureError, or a SyntaxError if the body is not an event.
   */
  async verify(received: ReceivedHeaders, body: string | Uint8Array, now = new Date()): Promise<Event> {
    const header = lookUp(received);
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const timestamp = header("webhook-timestamp");
    if (!/^[0-9]{1,12}$/.test(timestamp) || Math.abs(now.getTime() - Number(timestamp) * 1_000) > this.#tolerance) {
      throw new SignatureError(); // invalid, or a replay
    }
    const prefix = new TextEncoder().encode(`${header("webhook-id")}.${timestamp}.`);
    const want = `v1,${btoa(String.fromCharCode(...(await sign(this.#key, prefix, bytes))))}`;
    // During a rotation there is one signature for each secret, and one match is enough.
    if (!header("webhook-signature").split(/\s+/).some((signature) => equal(signature, want))) {
      throw new SignatureError();
    }
    return JSON.parse(new TextDecoder().decode(bytes)) as Event;
  }

  /**
   * Checks X-Service-Signature, which signs the body alone, and returns the event of a request. Use verify instead
   * where you can, which also refuses replays. Pass the body as received. Throws as verify does.
   */
  async verifyServiceSignature(received: ReceivedHeaders, body: string | Uint8Array): Promise<Event> {
    const header = lookUp(received);
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const hex = [...(await sign(this.#secret, bytes))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    if (!equal(header("x-service-signature"), `sha256=${hex}`)) throw new SignatureError();
    return JSON.parse(new TextDecoder().decode(bytes)) as Event;
  }
}

/** The headers of a request, with names in any case. */
export type ReceivedHeaders = Headers | Record<string, string | string[] | undefined>;

function lookUp(received: ReceivedHeaders): (name: string) => string {
  const lower = new Map<string, unknown>();
  const all = received instanceof Headers ? received : Object.entries(received);
  for (const [name, value] of all) lower.set(name.toLowerCase(), value);
  return (name) => String(lower.get(name) ?? "");
}

async function sign(secret: Uint8Array<ArrayBuffer>, ...parts: Uint8Array[]): Promise<Uint8Array> {
  const signed = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    signed.set(part, at);
    at += part.length;
  }
  const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, signed));
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Compares in constant time. */
function equal(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return difference === 0;
}
