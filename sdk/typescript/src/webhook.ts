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
  readonly #key: Uint8Array<ArrayBuffer>;
  readonly #tolerance: number;

  /**
   * Takes the endpoint's secret (whsec_...). A webhook can be `tolerance` milliseconds old, or as far in the future:
   * 300,000 by default.
   */
  constructor(secret: string, tolerance = 300_000) {
    const encoded = secret.startsWith("whsec_") ? secret.slice("whsec_".length) : secret;
    if (encoded === "") throw new TypeError("the webhook secret is empty; one begins with whsec_");
    this.#key = base64.test(encoded)
      ? Uint8Array.from(atob(encoded), (c) => c.charCodeAt(0))
      : new TextEncoder().encode(secret); // a secret that is not base64 is used as it is
    this.#tolerance = tolerance;
  }

  /**
   * Checks the signature and the time of a request, and returns its event. Names of headers are in lower case, unless
   * they are a Headers object. Pass the body as received: decoding and encoding it again would change its bytes. Throws
   * a SignatureError, or a SyntaxError if the body is not an event.
   */
  async verify(
    headers: Headers | Record<string, string | string[] | undefined>, body: string | Uint8Array, now = new Date(),
  ): Promise<Event> {
    const header = (name: string) => String((headers instanceof Headers ? headers.get(name) : headers[name]) ?? "");
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const timestamp = header("webhook-timestamp");
    if (!/^[0-9]{1,12}$/.test(timestamp) || Math.abs(now.getTime() - Number(timestamp) * 1_000) > this.#tolerance) {
      throw new SignatureError(); // invalid, or a replay
    }
    const want = await this.#sign(`${header("webhook-id")}.${timestamp}.`, bytes);
    // During a rotation there is one signature for each secret, and one match is enough.
    if (!header("webhook-signature").split(/\s+/).some((signature) => equal(signature, want))) {
      throw new SignatureError();
    }
    return JSON.parse(new TextDecoder().decode(bytes)) as Event;
  }

  /** Signs as Standard Webhooks 1.0 says. */
  async #sign(prefix: string, body: Uint8Array): Promise<string> {
    const start = new TextEncoder().encode(prefix);
    const signed = new Uint8Array(start.length + body.length);
    signed.set(start);
    signed.set(body, start.length);
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    const key = await crypto.subtle.importKey("raw", this.#key, algorithm, false, ["sign"]);
    const mac = new Uint8Array(await crypto.subtle.sign("HMAC", key, signed));
    return `v1,${btoa(String.fromCharCode(...mac))}`;
  }
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Compares in constant time. */
function equal(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return difference === 0;
}
