export { AssayError, Client } from "./client.js";
export type {
  BatchError, CheckDetails, Code, Delivery, Document, Explanation, Feedback, HumanReview, ListedEvent, Options,
  Override, OverrideRequest, Query, Reason, RecordedCheck, Request, Result, Scoring, Settings, Subject, Type, Usage,
  Verdict, Warning,
} from "./client.js";
export { SignatureError, Webhook } from "./webhook.js";
export type { Event, EventData, ReceivedHeaders } from "./webhook.js";
