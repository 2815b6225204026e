//! These tests run natively. `assay plugin test` runs cases.jsonl in the sandbox.
use crate::assay::{run, Outcome};
use crate::score as layer;

#[test]
fn scores() {
    for (name, facts, score, text, threat) in [
        ("few digits", vec![("domain.registrable", "shop24.de")], 0, "", None),
        ("digits", vec![("domain.registrable", "shop20245.com")], 20, "Contains the number “20245”", None),
        ("new", vec![("domain.registrable", "a.de"), ("rdap.age_days", "1")], 30, "Registered 1 day ago", None),
        ("not so new", vec![("domain.registrable", "a.de"), ("rdap.age_days", "30")], 0, "", None),
        (
            "both",
            vec![("domain.registrable", "1-2024.com"), ("rdap.age_days", "0")],
            50,
            "Contains the number “2024”",
            Some("scam".to_string()),
        ),
    ] {
        let got = run(layer, &facts);
        assert_eq!((got.outcome, &got.refused), (Outcome::Scored, &None), "{}", name);
        assert_eq!((got.score, got.threat), (score, threat), "{}", name);
        assert_eq!(got.signals.first().map_or("", |s| &s.text), text, "{}", name);
    }
    assert_eq!(run(layer, &[]).outcome, Outcome::Abstained);
}
