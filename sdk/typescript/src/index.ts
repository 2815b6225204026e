export { AssayError, Client } from "./client.js";
export type {
  BatchError, Document, Explanation, Feedback, HumanReview, Options, Reason, Request, Result, Scoring, Settings,
  Subject, Type, Verdict,
} from "./client.js";
export { SignatureError, Webhook } from "./webhook.js";
export type { Event, EventData } from "./webhook.js";
