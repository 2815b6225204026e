// The layer my-layer.
import { Outcome } from "./assay";
import { domainRegistrable } from "./assay_facts";

/** Scores a domain, or the domain of an email address. */
export function assay_v1_score(): i32 {
  if (domainRegistrable() === null) return Outcome.Abstained; // absent means "not known", and must never add risk
  return Outcome.Scored;
}
