//! The layer my-layer.
#![cfg_attr(target_arch = "wasm32", no_std)]

mod assay;
mod signals;

use assay::{Check, Outcome};

layer!(score);

/// Scores a domain, or the domain of an email address.
pub fn score(c: &mut Check) -> Outcome {
    match c.domain_registrable() {
        Some(_) => Outcome::Scored,
        None => Outcome::Abstained, // absent means "not known", and must never add risk
    }
}

#[cfg(test)]
mod tests;
