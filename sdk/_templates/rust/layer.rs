//! The layer my-layer: domains with long numbers in their names, and new ones.
#![cfg_attr(target_arch = "wasm32", no_std)]

mod assay;
mod signals;

use assay::{Check, Level, Outcome, Quote, Threat};

const MIN_DIGITS: usize = 4; // in a row
const DIGITS_POINTS: i32 = 20;
const NEW_DAYS: u32 = 30;
const NEW_POINTS: i32 = 30;

layer!(score);

/// Scores a domain by the longest number in its name and by its age.
pub fn score(c: &mut Check) -> Outcome {
    let name = match c.domain_registrable() {
        Some(name) => name,
        None => return Outcome::Abstained, // absent means "not known", and must never add risk
    };
    let digits = longest_number(name);
    c.log(Level::Debug, format_args!("longest number: {} digits", digits.len()));
    if digits.len() >= MIN_DIGITS {
        c.signal(DIGITS_POINTS, signals::NAME_DIGITS, format_args!("Contains the number {}", Quote(digits)));
    }
    match c.rdap_age_days() {
        Some(0) => c.signal(NEW_POINTS, signals::AGE_NEW, "Registered today"),
        Some(1) => c.signal(NEW_POINTS, signals::AGE_NEW, "Registered 1 day ago"),
        Some(age) if age < NEW_DAYS => {
            c.signal(NEW_POINTS, signals::AGE_NEW, format_args!("Registered {} days ago", age))
        }
        _ => return Outcome::Scored,
    }
    if digits.len() >= MIN_DIGITS {
        c.threat(Threat::Scam);
    }
    Outcome::Scored
}

/// The longest run of digits in a name, the first one if several are as long.
fn longest_number(name: &str) -> &str {
    let mut longest = "";
    for run in name.split(|c: char| !c.is_ascii_digit()) {
        if run.len() > longest.len() {
            longest = run;
        }
    }
    longest
}

#[cfg(test)]
mod tests;
