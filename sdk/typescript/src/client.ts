/** What can be checked. */
export type Type = "domain" | "email" | "phone" | "iban";

/** What a score means. */
export type Verdict = "allow" | "review" | "block";

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
  verdict: Verdict;
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

/** Whose data a privacy request is about: one member, and region with a national phone number. */
export interface Subject {
  /** The reference sub_... that an export names. */
  subject?: string;
  /** The reference of one of the subject's checks. */
  ref?: string;
  domain?: string;
  email?: string;
  phone?: string;
  iban?: string;
  region?: { country: string };
}

/** Why a check was decided as it was. */
export interface Explanation {
  ref: string;
  timestamp: string;
  type: Type;
  score: number;
  verdict: Verdict;
  /** Whether an override decided the verdict. */
  overridden: boolean;
  /** The explanation in plain words, a paragraph each. */
  text: string[];
  /** Under the weights that decided; null if they cannot be loaded. */
  decided_by: Scoring | null;
  /** Under today's weights. */
  today: Scoring;
  /** Sources of facts that may have changed since the check. */
  facts_of_today: string[];
}

/** A score and what it consists of. start and the points of all reasons add up to total. */
export interface Scoring {
  score: number;
  verdict: Verdict;
  start: number;
  /** 0 is a score of 50, and every 10 points double the odds of fraud. */
  total: number;
  reasons: Reason[];
  /** What was not known. */
  unknown: string[];
}

/** A signal with its weight. */
export interface Reason {
  text: string;
  code: string;
  layer: string;
  /** Above 0 against the entity, below 0 for it. */
  points: number;
  /** Whether it rests on facts that may have changed. */
  facts_of_today: boolean;
}

/** A person's review of a check. */
export interface HumanReview {
  ref: string;
  state: "asked" | "taken" | "upheld" | "overturned";
  reason: string;
  asked_at: string;
  taken_at: string | null;
  settled_at: string | null;
  /** The reviewer's reasons; null until the review is settled. */
  finding: string | null;
}

/** A JSON document to store or to hand over. */
export type Document = Record<string, unknown>;

/** How a client makes its calls. Times are in milliseconds. */
export interface Settings {
  /** The most attempts of a call: 4. */
  attempts?: number;
  /** The time limit of an attempt: 5,000. */
  attemptTimeout?: number;
  /** The time limit of a call with its attempts and the pauses between them: 20,000. */
  timeout?: number;
  /** The time limit of an export or erasure in the background: 600,000. */
  wait?: number;
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

/** The option of calls that need no idempotency key. */
type Abortable = Pick<Options, "signal">;

/** An answer to a request: 200 or 202. */
interface Answer {
  status: number;
  content: unknown;
  retryAfter: number | undefined;
}

/** A request that the service works on in the background. */
interface Background {
  id: string;
  kind: string;
  state: string;
}

/** An answer that is neither 200 nor 202. */
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
      attempts: 4, attemptTimeout: 5_000, timeout: 20_000, wait: 600_000, fetch: (...request) => fetch(...request),
      ...settings,
    };
  }

  /** Scores one entity. */
  async check(request: Request, options: Options = {}): Promise<Result> {
    return (await this.#post("/api/check", request, options)).content as Result;
  }

  /** Scores several entities. The results are in the order of the requests. */
  async checkBatch(requests: Request[], options: Options = {}): Promise<(Result | BatchError)[]> {
    const { content } = await this.#post("/api/check/batch", { checks: requests }, options);
    return (content as { results: (Result | BatchError)[] }).results;
  }

  /** Labels a check of the account. Another report on the same check replaces the earlier one. */
  async giveFeedback(feedback: Feedback, options: Abortable = {}): Promise<void> {
    await this.#post("/api/feedback", feedback, options);
  }

  /**
   * Returns the receipt of a check, which proves its record to others, to store as JSON. Waits for the proof, which the
   * service has within seconds. If it takes longer than a call may, the receipt has the member "proof": null.
   */
  async receipt(ref: string, options: Abortable = {}): Promise<Document> {
    const end = performance.now() + this.#settings.timeout;
    for (let attempt = 1; ; attempt++) {
      const { content, retryAfter } = await this.#get(`/api/receipts/${encodeURIComponent(ref)}`, options);
      if (!retryAfter || attempt >= this.#settings.attempts || performance.now() + retryAfter >= end) {
        return content as Document;
      }
      await wait(retryAfter, options.signal);
    }
  }

  /**
   * Returns the account's data about a subject, to hand over as JSON. "checks" has all checks: if they are many, the
   * service collects them in the background, and this method waits.
   */
  async export(subject: Subject, options: Abortable = {}): Promise<Document & { checks: Document[] }> {
    type Part = Document & { checks: Document[]; next: string | null };
    const answer = await this.#post("/gdpr/export", subject, options);
    if (answer.status === 200) return answer.content as Part;
    const path = `/gdpr/requests/${await this.#await(answer, options)}/export`;
    const whole = (await this.#get(path, options)).content as Part;
    for (let next = whole.next; next; ) {
      const part = (await this.#get(`${path}?after=${encodeURIComponent(next)}`, options)).content as Part;
      for (const check of part.checks) whole.checks.push(check);
      next = part.next;
    }
    return { ...whole, next: null };
  }

  /**
   * Permanently erases the account's data about a subject. If its checks are many, the service erases them in the
   * background, and this method waits. Erasing again succeeds.
   */
  async erase(subject: Subject, options: Abortable = {}): Promise<void> {
    const answer = await this.#post("/gdpr/erase", subject, options);
    if (answer.status === 202) await this.#await(answer, options);
  }

  /** Says why a check was decided as it was. The value is not kept, so pass the one that was scored. */
  async explain(ref: string, value: Request, options: Abortable = {}): Promise<Explanation> {
    return (await this.#post("/gdpr/explain", { ...value, ref }, options)).content as Explanation;
  }

  /** Asks for a person's review of a block or a review. Asking again returns the same review. */
  async askReview(ref: string, reason: string, options: Abortable = {}): Promise<HumanReview> {
    return (await this.#post("/gdpr/review", { ref, reason }, options)).content as HumanReview;
  }

  /** Returns a person's review of a check. The AssayError has the status 404 if none was asked for. */
  async review(ref: string, options: Abortable = {}): Promise<HumanReview> {
    return (await this.#get(`/gdpr/review?ref=${encodeURIComponent(ref)}`, options)).content as HumanReview;
  }

  /** Waits for the end of a request in the background, and returns its id. */
  async #await(begun: Answer, options: Abortable): Promise<string> {
    const end = performance.now() + this.#settings.wait;
    let request = begun.content as Background;
    for (let attempt = 1; request.state === "running"; attempt++) {
      const pause = pauseAfter(attempt, undefined);
      if (performance.now() + pause >= end) {
        throw new DOMException(`waiting for the ${request.kind} ${request.id}, which goes on`, "TimeoutError");
      }
      await wait(pause, options.signal);
      const path = `/gdpr/requests/${encodeURIComponent(request.id)}`;
      request = (await this.#get(path, options)).content as Background;
    }
    if (request.state !== "done") throw new Error(`the ${request.kind} ${request.id} has the state ${request.state}`);
    return request.id;
  }

  #get(path: string, options: Abortable): Promise<Answer> {
    return this.#send(path, { method: "GET" }, options.signal);
  }

  #post(path: string, body: unknown, options: Options): Promise<Answer> {
    const headers = {
      "Content-Type": "application/json", "Idempotency-Key": options.idempotencyKey ?? crypto.randomUUID(),
    };
    return this.#send(path, { method: "POST", headers, body: JSON.stringify(body) }, options.signal);
  }

  /** Sends a request until it is answered, each time with the same bytes and key (contract section 4.6). */
  async #send(path: string, request: RequestInit, signal?: AbortSignal): Promise<Answer> {
    const { attempts, timeout } = this.#settings;
    const end = performance.now() + timeout;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#attempt(path, request, end, signal);
      } catch (error) {
        signal?.throwIfAborted();
        const pause = pauseAfter(attempt, error);
        if (attempt >= attempts || !retryable(error) || performance.now() + pause >= end) throw error;
        await wait(pause, signal);
      }
    }
  }

  /** Sends a request once. The limit covers the body of the answer. */
  async #attempt(path: string, request: RequestInit, end: number, signal?: AbortSignal): Promise<Answer> {
    const { attemptTimeout, fetch } = this.#settings;
    const ended = new AbortController();
    const limit = Math.max(1, Math.min(attemptTimeout, end - performance.now()));
    const timer = setTimeout(() => ended.abort(new DOMException("no answer in time", "TimeoutError")), limit);
    const abort = () => ended.abort(signal?.reason);
    signal?.addEventListener("abort", abort);
    try {
      signal?.throwIfAborted();
      const response = await fetch(this.#url + path, {
        ...request,
        headers: { ...request.headers, Authorization: `Bearer ${this.#key}` },
        redirect: "manual", // a redirect could take the key to another host, so it is an error
        signal: ended.signal,
      });
      const answer = await response.text();
      const { status } = response;
      if (status !== 200 && status !== 202) throw errorOf(response, answer);
      return { status, content: JSON.parse(answer), retryAfter: retryAfterOf(response) };
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
  return new AssayError(
    response.status, member("error") ?? (response.statusText || "error"), member("field"), member("ref"),
    response.headers.get("X-Request-Id") ?? undefined, member("reset_at"),
    retryAfterOf(response),
  );
}

/** The Retry-After of an answer in milliseconds. */
function retryAfterOf(response: Response): number | undefined {
  const wait = response.headers.get("Retry-After") ?? "";
  return /^[0-9]{1,9}$/.test(wait) ? Number(wait) * 1_000 : undefined;
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
