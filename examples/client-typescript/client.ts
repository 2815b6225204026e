// Checks several values in one batch before a payment, and prints the verdict of each.
//
//	npm ci
//	export ASSAY_URL=http://127.0.0.1:8080 ASSAY_KEY=assay_...
//	npm run -s check -- domain=example.com iban=DE89370400440532013000

import { AssayError, Client, type Request, type Type } from "assay-client";

const { ASSAY_URL: url, ASSAY_KEY: key } = process.env;
const checks = process.argv.slice(2).map((argument): Request => {
  const [field, ...value] = argument.split("=");
  return { [field as Type]: value.join("=") };
});
if (!url || !key || checks.length === 0) {
  console.error("usage: ASSAY_URL=... ASSAY_KEY=... npm run -s check -- FIELD=VALUE ...");
  process.exit(2);
}
try {
  for (const result of await new Client(url, key).checkBatch(checks)) {
    if ("error" in result) console.log(`failed: ${result.error}`);
    else console.log(`${result.verdict} ${result.query} (${result.score}) ${result.ref}`);
  }
} catch (error) {
  console.error(error instanceof AssayError ? error.message : error);
  process.exit(1);
}
