//! The layer misspelt-words: domains with a misspelt sign-in or payment word.
#![cfg_attr(target_arch = "wasm32", no_std)]

mod assay;
mod signals;

use assay::{Check, Outcome, Quote, Threat};

const POINTS: i32 = 40;
const NEW_POINTS: i32 = 30; // more for a new registration
const NEW_DAYS: u32 = 90;

/// The words. Shorter ones are too close to other words.
const WORDS: &[&str] = &[
    "access", "account", "airdrop", "authenticate", "banking", "billing", "confirm", "connect", "customer", "delivery",
    "invoice", "official", "online", "password", "payment", "portal", "recovery", "refund", "reward", "secure",
    "security", "service", "signin", "support", "unlock", "update", "validation", "verification", "verify", "wallet",
];

/// Words of other meanings and languages that are one letter away.
const OTHERS: &[&str] = &[
    "acces", "acceso", "accesso", "baking", "oficial", "officiel", "portail", "postal", "renard", "retard",
    "reword", "securite", "servico", "signon", "supporto", "upstate", "validacion",
];

layer!(score);

/// Scores a domain by the parts of its labels, which hyphens separate.
pub fn score(c: &mut Check) -> Outcome {
    let name = match c.domain_name() {
        Some(name) => name,
        None => return Outcome::Abstained, // a public suffix
    };
    let subdomain = c.domain_subdomain().unwrap_or("");
    let mut parts = name.split('-').chain(subdomain.split(|c| c == '.' || c == '-'));
    if let Some((part, word)) = parts.find_map(|part| Some((part, misspelt(part)?))) {
        c.signal(POINTS, signals::WORD_MISSPELT, format_args!("Misspells “{}”: {}", word, Quote(part)));
        c.threat(Threat::Phishing);
        if c.rdap_age_days().map_or(false, |days| days < NEW_DAYS) {
            c.signal(NEW_POINTS, signals::WORD_NEW, "Misspelt word in a name registered less than 90 days ago");
        }
    }
    Outcome::Scored
}

/// The word that a part of a name misspells.
fn misspelt(part: &str) -> Option<&'static str> {
    if OTHERS.contains(&part) || WORDS.contains(&part) {
        return None;
    }
    WORDS.iter().copied().find(|word| one_slip(part.as_bytes(), word.as_bytes()))
}

/// Whether a text differs from a word by one letter that is wrong, missing or extra, or by two that are swapped. The
/// first letter must be right, and the last one neither missing nor extra: that would be another form of the word.
fn one_slip(text: &[u8], word: &[u8]) -> bool {
    let same = text.iter().zip(word).take_while(|(a, b)| a == b).count();
    if same == 0 || same == text.len() || same == word.len() {
        return false;
    }
    let (text, word) = (&text[same..], &word[same..]);
    match text.len() as isize - word.len() as isize {
        0 => text[1..] == word[1..] || swapped(text, word),
        1 => text[1..] == *word,
        -1 => *text == word[1..],
        _ => false,
    }
}

fn swapped(text: &[u8], word: &[u8]) -> bool {
    text.len() > 1 && text[0] == word[1] && text[1] == word[0] && text[2..] == word[2..]
}

#[cfg(test)]
mod tests;
