// Code generated from manifest.json by assay plugin build. DO NOT EDIT.
#![allow(dead_code)]

/// A part of the name misspells a word such as account or wallet.
pub const WORD_MISSPELT: &str = "misspelt-words:word:misspelt";

/// A name with a misspelt word was registered less than 90 days ago.
pub const WORD_NEW: &str = "misspelt-words:word:new";
