// Takes webhooks: it believes what is signed with the endpoint's secret, recent and new, and answers before it does any work.
//
//   ASSAY_WEBHOOK_SECRET=whsec_... LISTEN=127.0.0.1:9000 node receiver.mjs
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const maxBody = 64 * 1024;
const maxAge = 5 * 60; // seconds

const key = Buffer.from((process.env.ASSAY_WEBHOOK_SECRET ?? "").replace(/^whsec_/, ""), "base64");
if (key.length === 0) {
  console.error("ASSAY_WEBHOOK_SECRET is not a secret of the form whsec_...");
  process.exit(1);
}
const seen = new Set(); // ids; a real receiver keeps them where it keeps its orders

// genuine verifies the Standard Webhooks signature: of id, time and body. While a secret is being replaced there are two, and
// one that fits is enough. The body is what came, byte for byte: parsed and written again it would be another.
function genuine(headers, body) {
  const stamp = headers["webhook-timestamp"] ?? "";
  if (!/^\d+$/.test(stamp) || Math.abs(Date.now() / 1000 - Number(stamp)) > maxAge) return false; // recorded once and sent again later
  const mac = createHmac("sha256", key).update(`${headers["webhook-id"]}.${stamp}.`).update(body).digest("base64");
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
  if (body === undefined) return response.destroy(); // the sender hung up halfway: without this catch, anybody could end the process
  if (body === null) return response.writeHead(413).end();
  if (!genuine(request.headers, body)) return response.writeHead(401).end("wrong signature");
  response.writeHead(204).end();
  // An event may come twice, when an answer was lost on its way.
  const id = request.headers["webhook-id"];
  if (seen.has(id)) return;
  seen.add(id);
  const { event, data } = JSON.parse(body.toString("utf8"));
  console.log(event, data.verdict, data.query, data.score, data.ref);
});

const [host, port] = (process.env.LISTEN ?? "127.0.0.1:9000").split(":");
server.listen(Number(port), host, () => console.log(`listening on http://${host}:${server.address().port}`));
