export { AssayError, Client } from "./client.js";
export type { BatchError, Feedback, Options, Request, Result, Settings, Type } from "./client.js";
export { SignatureError, Webhook } from "./webhook.js";
export type { Event, EventData } from "./webhook.js";
