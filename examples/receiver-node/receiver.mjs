// Receives webhooks: verifies the signature and the timestamp, ignores duplicates, and responds before it processes an
// event.
//
//   ASSAY_WEBHOOK_SECRET=whsec_... LISTEN=127.0.0.1:9000 node receiver.mjs
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const maxBody = 64 * 1024;
const maxAge = 5 * 60; // seconds

const key = Buffer.from((process.env.ASSAY_WEBHOOK_SECRET ?? "").replace(/^whsec_/, ""), "base64");
if (key.length === 0) {
  console.error("ASSAY_WEBHOOK_SECRET must be a secret of the form whsec_...");
  process.exit(1);
}
const seen = new Set(); // ids of processed events; use durable storage in production

// verify reports whether a request has a valid Standard Webhooks signature over its id, timestamp and raw body. After a
// rotation there is one signature for each secret, and one match is enough. Pass the body as received: parsing and
// serializing it again would change its bytes.
function verify(headers, body) {
  const timestamp = headers["webhook-timestamp"] ?? "";
  if (!/^\d+$/.test(timestamp)) return false;
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > maxAge) return false; // a replay
  const mac = createHmac("sha256", key).update(`${headers["webhook-id"]}.${timestamp}.`).update(body).digest("base64");
  const want = Buffer.from(`v1,${mac}`);
  return (headers["webhook-signature"] ?? "").split(" ").some((text) => {
    const signature = Buffer.from(text);
    return signature.length === want.length && timingSafeEqual(signature, want);
  });
}

async function read(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > maxBody) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const server = createServer(async (request, response) => {
  const body = await read(request).catch(() => undefined);
  // The client disconnected. Without the catch, that would be an unhandled rejection, which ends the process.
  if (body === undefined) return response.destroy();
  if (body === null) return response.writeHead(413).end();
  if (!verify(request.headers, body)) return response.writeHead(401).end("invalid signature");
  response.writeHead(204).end();
  // Delivery is at least once: an event is sent again if the response was lost.
  const id = request.headers["webhook-id"];
  if (seen.has(id)) return;
  seen.add(id);
  const { event, data } = JSON.parse(body.toString("utf8"));
  console.log(event, data.verdict, data.query, data.score, data.ref);
});

const [host, port] = (process.env.LISTEN ?? "127.0.0.1:9000").split(":");
server.listen(Number(port), host, () => console.log(`listening on http://${host}:${server.address().port}`));
