//! These tests run natively. `assay plugin test` runs cases.jsonl in the sandbox.
use crate::assay::{run, Outcome};
use crate::score as layer;

#[test]
fn scores() {
    let got = run(layer, &[("domain.registrable", "a.de")]);
    assert_eq!((got.outcome, got.score, &got.refused), (Outcome::Scored, 0, &None));
    assert_eq!(run(layer, &[]).outcome, Outcome::Abstained);
}
