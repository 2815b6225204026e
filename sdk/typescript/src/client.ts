/** What can be checked. */
export type Type = "domain" | "email" | "phone" | "iban";

/** What to check. The first of domain, email, phone and iban that is set is scored. */
export interface Request {
  domain?: string;
  email?: string;
  phone?: string;
  iban?: string;
  /** Where the value is from: an ISO 3166-1 alpha-2 code, or EU. */
  region?: { country: string };
}

/** The answer to a check. */
export interface Result {
  /** 0 to 100, higher is more suspicious. */
  score: number;
  verdict: "allow" | "review" | "block";
  /** The reasons. */
  signals: string[];
  dominant_threat: string | null;
  type: Type;
  query: string;
  timestamp: string;
  ref: string;
}

/** The answer to an invalid request of a batch. */
export interface BatchError {
  error: string;
  /** The invalid field of the request, if it is one. */
  field?: string;
}

/** What a checked entity turned out to be. */
export interface Feedback {
  ref: string;
  label: "fraud" | "legitimate";
  note?: string;
}

/** How a client makes its calls. Times are in milliseconds. */
export interface Settings {
  /** The most attempts of a call: 4. */
  attempts?: number;
  /** The time limit of an attempt: 5,000. */
  attemptTimeout?: number;
  /** The time limit of a call with its attempts and the pauses between them: 20,000. */
  timeout?: number;
  /** Sends the requests: the global fetch. */
  fetch?: typeof globalThis.fetch;
}

/** Options of a call. */
export interface Options {
  /**
   * The Idempotency-Key, such as the number of an order, so that the program can make the call again after it was
   * restarted. Without it, each call has a random one.
   */
  idempotencyKey?: string;
  /** Ends the call early. It then throws the signal's reason. */
  signal?: AbortSignal;
}

/** An answer that is not 200. */
export class AssayError extends Error {
  override readonly name = "AssayError";

  constructor(
    readonly status: number,
    /** The reason, for people; the text may change. */
    readonly reason: string,
    /** The invalid field of the request, if it is one. */
    readonly field: string | undefined,
    /** The reference of an internal error, to quote to support. */
    readonly ref: string | undefined,
    /** The X-Request-Id. */
    readonly requestId: string | undefined,
    /** When an exceeded limit ends, as ISO 8601. */
    readonly resetAt: string | undefined,
    /** How long to wait, in milliseconds; undefined if the answer does not say. */
    readonly retryAfter: number | undefined,
  ) {
    super(`status ${status}: ${reason}${requestId ? ` (${requestId})` : ""}`);
  }
}

/** Calls the API with a key. */
export class Client {
  readonly #url: string;
  readonly #key: string;
  readonly #settings: Required<Settings>;

  /** Makes a client for the service at url, such as https://assay.example. */
  constructor(url: string, key: string, settings: Settings = {}) {
    if (!/^https?:\/\//.test(url)) throw new TypeError("url must begin with https:// or http://");
    this.#url = url.replace(/\/+$/, "");
    this.#key = key;
    this.#settings = {
      attempts: 4, attemptTimeout: 5_000, timeout: 20_000, fetch: (...request) => fetch(...request), ...settings,
    };
  }

  /** Scores one entity. */
  async check(request: Request, options: Options = {}): Promise<Result> {
    return (await this.#post("/api/check", request, options)) as Result;
  }

  /** Scores up to 100 entities. The results are in the order of the requests. */
  async checkBatch(requests: Request[], options: Options = {}): Promise<(Result | BatchError)[]> {
    const answer = (await this.#post("/api/check/batch", { checks: requests }, options)) as {
      results: (Result | BatchError)[];
    };
    return answer.results;
  }

  /** Labels a check of the account. Another report on the same check replaces the earlier one. */
  async giveFeedback(feedback: Feedback, options: Pick<Options, "signal"> = {}): Promise<void> {
    await this.#post("/api/feedback", feedback, options);
  }

  /** Sends a request until it is answered, each time with the same bytes and key (contract section 4.6). */
  async #post(path: string, body: unknown, options: Options): Promise<unknown> {
    const { attempts, timeout } = this.#settings;
    const text = JSON.stringify(body);
    const key = options.idempotencyKey ?? crypto.randomUUID();
    const end = performance.now() + timeout;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#attempt(path, text, key, end, options.signal);
      } catch (error) {
        options.signal?.throwIfAborted();
        const pause = pauseAfter(attempt, error);
        if (attempt >= attempts || !retryable(error) || performance.now() + pause >= end) throw error;
        await wait(pause, options.signal);
      }
    }
  }

  /** Sends a request once. The limit covers the body of the answer. */
  async #attempt(path: string, body: string, key: string, end: number, signal?: AbortSignal): Promise<unknown> {
    const { attemptTimeout, fetch } = this.#settings;
    const ended = new AbortController();
    const limit = Math.max(1, Math.min(attemptTimeout, end - performance.now()));
    const timer = setTimeout(() => ended.abort(new DOMException("no answer in time", "TimeoutError")), limit);
    const abort = () => ended.abort(signal?.reason);
    signal?.addEventListener("abort", abort);
    try {
      signal?.throwIfAborted();
      const response = await fetch(this.#url + path, {
        method: "POST",
        headers: {
          Authorization: `Bearer ${this.#key}`, "Content-Type": "application/json", "Idempotency-Key": key,
        },
        body,
        redirect: "manual", // a redirect could take the key to another host, so it is an error
        signal: ended.signal,
      });
      const answer = await response.text();
      if (response.status !== 200) throw errorOf(response, answer);
      return JSON.parse(answer);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }
}

function errorOf(response: Response, answer: string): AssayError {
  let failure: Record<string, unknown> = {};
  try {
    const parsed: unknown = JSON.parse(answer);
    if (typeof parsed === "object" && parsed !== null) failure = parsed as Record<string, unknown>;
  } catch {
    // A proxy's error need not be JSON; its status says enough.
  }
  const member = (name: string) => (typeof failure[name] === "string" ? failure[name] : undefined);
  const wait = response.headers.get("Retry-After") ?? "";
  return new AssayError(
    response.status, member("error") ?? (response.statusText || "error"), member("field"), member("ref"),
    response.headers.get("X-Request-Id") ?? undefined, member("reset_at"),
    /^[0-9]{1,9}$/.test(wait) ? Number(wait) * 1_000 : undefined,
  );
}

/** Whether a request can have another answer if it is sent again: after a limit, a server's error or a lost answer. */
function retryable(error: unknown): boolean {
  return !(error instanceof AssayError) || error.status === 429 || error.status >= 500;
}

/** How long to wait after an attempt, in milliseconds: at least what the answer asks for, else longer each time, and
 * never the same for all clients. */
function pauseAfter(attempt: number, error: unknown): number {
  if (error instanceof AssayError && error.retryAfter) return error.retryAfter + Math.random() * 500;
  const most = 200 * 2 ** Math.min(attempt - 1, 4);
  return most / 2 + (Math.random() * most) / 2;
}

function wait(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
