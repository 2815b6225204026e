//! These tests run natively. `assay plugin test` runs cases.jsonl in the sandbox.
use crate::assay::{run, Outcome};
use crate::score as layer;

#[test]
fn scores() {
    for (name, subdomain, days, score, text) in [
        ("shop", "", "", 0, ""),
        ("my-account", "", "", 0, ""),
        ("my-accout", "", "", 40, "Misspells “account”: “accout”"),
        ("acccount", "", "", 40, "Misspells “account”: “acccount”"),
        ("singin", "", "", 40, "Misspells “signin”: “singin”"),
        ("supp0rt-desk", "", "", 40, "Misspells “support”: “supp0rt”"),
        ("x", "veriify.eu", "", 40, "Misspells “verify”: “veriify”"),
        ("x", "eu.walet-app", "", 40, "Misspells “wallet”: “walet”"),
        ("walet", "", "3", 70, "Misspells “wallet”: “walet”"),
        ("walet", "", "90", 40, "Misspells “wallet”: “walet”"),
        ("accounts", "", "", 0, ""), // other forms of the words
        ("refunds-updated", "", "", 0, ""),
        ("bankin", "", "", 0, ""),
        ("pallet", "", "", 0, ""), // another first letter
        ("portail-officiel", "", "", 0, ""), // another language
        ("acqount-sepqrated", "", "", 40, "Misspells “account”: “acqount”"),
        ("xsupprt", "", "", 0, ""), // inside a part
    ] {
        let mut facts = vec![("domain.name", name)];
        if !subdomain.is_empty() {
            facts.push(("domain.subdomain", subdomain));
        }
        if !days.is_empty() {
            facts.push(("rdap.age_days", days));
        }
        let got = run(layer, &facts);
        assert_eq!((got.outcome, &got.refused), (Outcome::Scored, &None), "{}", name);
        assert_eq!((got.score, got.threat.is_some()), (score, score > 0), "{}", name);
        assert_eq!(got.signals.first().map_or("", |s| &s.text), text, "{}", name);
    }
    assert_eq!(run(layer, &[]).outcome, Outcome::Abstained);
}
