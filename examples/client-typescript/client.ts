// Checks several values in one batch before a payment, and prints the verdict of each.
//
//	npm ci
//	export ASSAY_URL=http://127.0.0.1:8080 ASSAY_KEY=assay_...
//	npm run -s check -- domain=example.com iban=DE89370400440532013000

type Field = "domain" | "email" | "phone" | "iban";

/** One request of a batch: at least one of the four fields. */
type Request = Partial<Record<Field, string>> & { region?: { country: string } };

interface Result {
  score: number; // 0 to 100
  verdict: "allow" | "review" | "block";
  signals: string[];
  dominant_threat: string | null;
  type: Field;
  query: string;
  timestamp: string;
  ref: string;
}

interface Failure {
  error: string;
}

class AssayError extends Error {
  constructor(readonly status: number, message: string, readonly resetAt?: string) {
    super(message);
  }
}

/** Scores all checks in one request. Throws an AssayError if the batch is refused, such as 429 (quota). */
async function checkBatch(url: string, key: string, checks: Request[]): Promise<(Result | Failure)[]> {
  const response = await fetch(`${url}/api/check/batch`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ checks }),
    signal: AbortSignal.timeout(5_000),
  });
  const body = (await response.json()) as { results: (Result | Failure)[]; error: string; reset_at?: string };
  if (!response.ok) throw new AssayError(response.status, body.error, body.reset_at);
  return body.results;
}

const { ASSAY_URL: url, ASSAY_KEY: key } = process.env;
const checks = process.argv.slice(2).map((argument): Request => {
  const [field, ...value] = argument.split("=");
  return { [field as Field]: value.join("=") };
});
if (!url || !key || checks.length === 0) {
  console.error("usage: ASSAY_URL=... ASSAY_KEY=... npm run -s check -- FIELD=VALUE ...");
  process.exit(2);
}
try {
  for (const result of await checkBatch(url, key, checks)) {
    if ("error" in result) console.log(`failed: ${result.error}`);
    else console.log(`${result.verdict} ${result.query} (${result.score}) ${result.ref}`);
  }
} catch (error) {
  console.error(error instanceof AssayError ? `status ${error.status}: ${error.message}` : error);
  process.exit(1);
}
