import type { EventData } from "./webhook.js";

/** What can be checked. */
export type Type = "domain" | "email" | "phone" | "iban";

/** What a score means. */
export type Verdict = "allow" | "review" | "block";

/** The kinds of errors. They do not change, but later releases can add some. */
export type Code =
  | "invalid_request" | "invalid_body" | "invalid_field" | "no_field" | "unauthorized" | "key_expired"
  | "account_suspended" | "plan_required" | "scope_missing" | "address_refused" | "forbidden" | "not_found"
  | "method_not_allowed" | "too_slow" | "too_large" | "headers_too_large" | "conflict" | "media_type"
  | "quota_exhausted" | "rate_limited" | "hourly_limit" | "busy" | "share_exhausted" | "unavailable" | "not_ready"
  | "too_many_connections" | "internal" | "uncertain";

/** What to check. The first of domain, email, phone and iban that is set is scored. */
export interface Request {
  domain?: string;
  email?: string;
  phone?: string;
  iban?: string;
  /** Where the value is from: an ISO 3166-1 alpha-2 code, or EU. */
  region?: { country: string };
  /** Whether the result of check shall have a receipt. */
  receipt?: boolean;
}

/** Why a field of a request was ignored. */
export interface Warning {
  field: string;
  message: string;
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
  /** Fields that were ignored because they are invalid; absent if there are none. */
  warnings?: Warning[];
  /** Present if the request asked for it. */
  receipt?: Document | null;
}

/** The answer to an invalid request of a batch. */
export interface BatchError {
  error: string;
  code?: Code;
  /** The invalid field of the request, if it is one. */
  field?: string;
}

/** What a checked entity turned out to be. With the value that was checked, it is scored again. */
export interface Feedback extends Omit<Request, "receipt"> {
  ref: string;
  label: "fraud" | "legitimate";
  note?: string;
}

/** Selects recorded checks; empty: all. At most one value; exportChecks takes none. */
export interface Query extends Omit<Request, "receipt"> {
  verdict?: Verdict;
  type?: Type;
  /** The id of an API key. */
  key?: string;
  /** The first time that is included. */
  from?: Date | string;
  /** The first time that is not included. */
  until?: Date | string;
}

/** A check as the audit log has it. */
export interface RecordedCheck {
  ref: string;
  timestamp: string;
  type: Type;
  score: number;
  verdict: Verdict;
  /** The id of the key that requested it. */
  key: string;
  /** Of the lineup that decided. */
  revision: number;
  /** Whether an override decided the verdict. */
  overridden: boolean;
}

/** The state of a webhook event. */
export interface Delivery {
  event: "check.blocked" | "check.review";
  state: "pending" | "delivered" | "failed";
  attempts: number;
}

/** A recorded check with what followed. */
export interface CheckDetails extends RecordedCheck {
  /** Its place in the audit log, and the first checkpoint that covers it. */
  record: Document;
  webhook: Delivery | null;
  feedback: { label: "fraud" | "legitimate"; note: string; timestamp: string } | null;
  review: HumanReview | null;
}

/** A webhook event with its delivery. Once it is delivered, its data has neither query nor signals. */
export interface ListedEvent extends Delivery {
  sequence: number;
  timestamp: string;
  data: Omit<EventData, "query" | "signals"> & Partial<EventData>;
}

/** What an account used in a month. */
export interface Usage {
  month: string;
  quota: number;
  used: number;
  /** Of used at the end of the month; null if unknown. */
  forecast: number | null;
  counts: { date: string; key: string; type: Type; verdict: Verdict; checks: number }[];
}

/**
 * Sets the verdict on a value or a group in advance. It has one of domain, email, phone, iban, registrable_domain,
 * number_range and bank.
 */
export interface OverrideRequest extends Omit<Request, "receipt"> {
  action: "block" | "allow";
  registrable_domain?: string;
  number_range?: string;
  bank?: string;
  reason: string;
  author?: string;
  expires_at: Date | string;
}

/** A verdict that was set in advance. */
export interface Override {
  id: string;
  action: "block" | "allow";
  kind: string;
  /** Masked. */
  target: string;
  reason: string;
  author: string;
  created_at: string;
  expires_at: string;
  /** The id of the override that it replaced when it was added. */
  replaced?: string;
  /** Why checks ignore it. */
  ignored?: "expired" | "altered";
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
  /** What was sent for the reviewer; null if nothing, and once the review is settled. */
  value: string | null;
  contact: string | null;
}

/** Asks for a person's review of a check, who sees the checked value and a contact if they are sent. */
export interface ReviewRequest extends Omit<Request, "receipt"> {
  ref: string;
  reason: string;
  contact?: string;
}

/** A JSON document to store or to hand over. */
export type Document = Record<string, unknown>;

/** How a client makes its calls. Times are in milliseconds. */
export interface Settings {
  /** The most attempts of a call: as many as its time limit allows. */
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
    /** The kind of error; undefined if the answer is not the service's. */
    readonly code: Code | undefined,
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
    this.#key = key.trim(); // a file ends with a line break
    if (/[^!-~]/.test(this.#key)) throw new TypeError("the key has a character that is not printable ASCII");
    const given = Object.entries(settings).filter(([, value]) => value !== undefined);
    this.#settings = {
      attempts: Infinity, attemptTimeout: 5_000, timeout: 20_000, wait: 600_000,
      fetch: (...request) => fetch(...request),
      ...Object.fromEntries(given),
    };
  }

  /** Scores one entity. */
  async check(request: Request, options: Options = {}): Promise<Result> {
    return (await this.#post("/api/check", request, options)).content as Result;
  }

  /** Scores a domain without a key, to try the service. Few such calls an hour are allowed. */
  async checkPublic(domain: string, options: Abortable = {}): Promise<Result> {
    return (await this.#post("/api/check-public", { domain }, options)).content as Result;
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

  /** Takes back the account's feedback on a check. */
  async revokeFeedback(ref: string, options: Abortable = {}): Promise<void> {
    await this.#send(`/api/feedback?ref=${encodeURIComponent(ref)}`, { method: "DELETE" }, options);
  }

  /** Lists the recorded checks that match, newest first. Asks for a page when it is needed. */
  async *search(query: Query = {}, options: Abortable = {}): AsyncGenerator<RecordedCheck, void> {
    for (let after: string | null | undefined; after !== null; ) {
      const { content } = await this.#post("/api/checks/search", { ...query, after }, options);
      const page = content as { checks: RecordedCheck[]; next: string | null };
      yield* page.checks;
      after = page.next;
    }
  }

  /** Lists the account's webhook events with a sequence number above after, in order. */
  async *events(after = 0, options: Abortable = {}): AsyncGenerator<ListedEvent, void> {
    for (let more = true; more; ) {
      const { content } = await this.#get(`/api/events?limit=100&after=${after}`, options);
      const page = content as { events: ListedEvent[]; next: number; more: boolean };
      yield* page.events;
      ({ next: after, more } = page);
    }
  }

  /** Returns a recorded check. */
  async recordedCheck(ref: string, options: Abortable = {}): Promise<CheckDetails> {
    return (await this.#get(`/api/checks/${encodeURIComponent(ref)}`, options)).content as CheckDetails;
  }

  /** Returns all recorded checks that match, as the text of a file. May take as long as `wait`. */
  async exportChecks(
    format: "csv" | "json", query: Pick<Query, "verdict" | "type" | "key" | "from" | "until"> = {},
    options: Abortable = {},
  ): Promise<string> {
    const values = new URLSearchParams({ format });
    for (const [name, value] of Object.entries(query)) {
      if (value === undefined) continue;
      if (!["verdict", "type", "key", "from", "until"].includes(name)) {
        throw new TypeError(`an export cannot be asked for by ${name}`);
      }
      if (value) values.set(name, value instanceof Date ? value.toISOString() : value);
    }
    return (await this.#send(`/api/checks/export?${values}`, { method: "GET" }, options, true)).content as string;
  }

  /** Returns what was used in a month, such as 2026-01; in this one by default. */
  async usage(month?: string, options: Abortable = {}): Promise<Usage> {
    const query = month ? `?month=${encodeURIComponent(month)}` : "";
    return (await this.#get(`/api/usage${query}`, options)).content as Usage;
  }

  /** Sets a verdict in advance. An override of the same value is replaced. */
  async setOverride(request: OverrideRequest, options: Abortable = {}): Promise<Override> {
    return (await this.#post("/api/overrides", request, options)).content as Override;
  }

  /** Lists the account's overrides. */
  async overrides(options: Abortable = {}): Promise<Override[]> {
    return ((await this.#get("/api/overrides", options)).content as { overrides: Override[] }).overrides;
  }

  /** Removes an override. */
  async removeOverride(id: string, options: Abortable = {}): Promise<void> {
    await this.#send(`/api/overrides?id=${encodeURIComponent(id)}`, { method: "DELETE" }, options);
  }

  /**
   * Returns the receipt of a check, which proves its record to others, to store as JSON. Waits for the proof, which the
   * service has within seconds. If that takes longer than a call may or fails, the receipt has the member
   * "proof": null.
   */
  async receipt(ref: string, options: Abortable = {}): Promise<Document> {
    const end = performance.now() + this.#settings.timeout;
    let receipt: Document | undefined;
    for (let attempt = 1; ; attempt++) {
      let answer: Answer;
      try {
        answer = await this.#get(`/api/receipts/${encodeURIComponent(ref)}`, options);
      } catch (e) {
        if (receipt === undefined || options.signal?.aborted) throw e;
        return receipt; // without its proof it is valid, too
      }
      receipt = answer.content as Document;
      const pause = answer.retryAfter;
      if (!pause || attempt >= this.#settings.attempts || performance.now() + pause >= end) return receipt;
      await wait(pause, options.signal);
    }
  }

  /** Returns the reference sub_... of a value, which is the same for all checks of the account. */
  async subjectRef(subject: Subject, options: Abortable = {}): Promise<string> {
    return ((await this.#post("/gdpr/subject", subject, options)).content as { subject: string }).subject;
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
  async askReview(review: ReviewRequest, options: Abortable = {}): Promise<HumanReview> {
    return (await this.#post("/gdpr/review", review, options)).content as HumanReview;
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
    return this.#send(path, { method: "GET" }, options);
  }

  #post(path: string, body: unknown, options: Options): Promise<Answer> {
    const headers = {
      "Content-Type": "application/json", "Idempotency-Key": options.idempotencyKey ?? crypto.randomUUID(),
    };
    return this.#send(path, { method: "POST", headers, body: JSON.stringify(body) }, options);
  }

  /** Sends a request until it is answered, each time with the same bytes and key (contract section 4.6). */
  async #send(path: string, request: RequestInit, { signal }: Abortable, file = false): Promise<Answer> {
    const { attempts, attemptTimeout, timeout, wait: patience } = this.#settings;
    const end = performance.now() + (file ? patience : timeout);
    const headers = new Headers(request.headers); // throws if a header is invalid, and no attempt can succeed
    if (this.#key) headers.set("Authorization", `Bearer ${this.#key}`);
    let lost = false; // whether an earlier attempt may have taken effect
    for (let attempt = 1; ; attempt++) {
      try {
        const limit = Math.max(1, Math.min(file ? patience : attemptTimeout, end - performance.now()));
        const { text, ...answer } = await this.#attempt(path, { ...request, headers }, limit, signal);
        return { ...answer, content: file ? text : JSON.parse(text) };
      } catch (error) {
        signal?.throwIfAborted();
        if (lost && request.method === "DELETE" && error instanceof AssayError && error.status === 404) {
          return { status: 200, content: {}, retryAfter: undefined }; // the earlier attempt removed it
        }
        lost ||= uncertain(error);
        const pause = pauseAfter(attempt, error);
        if (attempt >= attempts || !retryable(error) || performance.now() + pause >= end) throw error;
        await wait(pause, signal);
      }
    }
  }

  /** Sends a request once. The limit covers the body of the answer. */
  async #attempt(path: string, request: RequestInit, limit: number, signal?: AbortSignal) {
    const { fetch } = this.#settings;
    const ended = new AbortController();
    const timer = setTimeout(() => ended.abort(new DOMException("no answer in time", "TimeoutError")), limit);
    const abort = () => ended.abort(signal?.reason);
    signal?.addEventListener("abort", abort);
    try {
      signal?.throwIfAborted();
      const response = await fetch(this.#url + path, {
        ...request,
        redirect: "manual", // a redirect could take the key to another host, so it is an error
        signal: ended.signal,
      });
      const text = await response.text();
      const { status } = response;
      if (status !== 200 && status !== 202) throw errorOf(response, text);
      return { status, text, retryAfter: retryAfterOf(response) };
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
    response.status, member("code") as Code | undefined, member("error") ?? (response.statusText || "error"),
    member("field"), member("ref"),
    response.headers.get("X-Request-Id") ?? undefined, member("reset_at"),
    retryAfterOf(response),
  );
}

/** The Retry-After of an answer in milliseconds. */
function retryAfterOf(response: Response): number | undefined {
  const wait = response.headers.get("Retry-After") ?? "";
  return /^[0-9]{1,9}$/.test(wait) ? Number(wait) * 1_000 : undefined;
}

/**
 * Whether a request can soon have another answer if it is sent again: after too many requests, an error of the server
 * or a lost answer. A 429 without a code is a proxy's.
 */
function retryable(error: unknown): boolean {
  if (!(error instanceof AssayError)) return true;
  return error.status >= 500 || error.code === "rate_limited" || (error.status === 429 && error.code === undefined);
}

/** Whether a request may have taken effect. A 503 of the service, which has a code, says that it has not. */
function uncertain(error: unknown): boolean {
  if (!(error instanceof AssayError)) return true;
  return error.status === 500 || (error.status > 500 && error.code === undefined);
}

/** How long to wait after an attempt, in milliseconds: at least what the answer asks for, else longer each time, and
 * never the same for all clients. */
function pauseAfter(attempt: number, error: unknown): number {
  if (error instanceof AssayError && error.retryAfter) return error.retryAfter + Math.random() * 500;
  const most = 200 * 2 ** Math.min(attempt - 1, 3);
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
