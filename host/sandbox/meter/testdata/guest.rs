// A guest for the tests of package meter, compiled by rustc. It uses collections and formatting.
use std::collections::BTreeMap;

#[no_mangle]
pub extern "C" fn run(n: u32) -> u32 {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for i in 0..200u32 {
        *counts.entry(format!("{}-{:x}", i % 7, i.wrapping_mul(n))).or_insert(0) += i;
    }
    let mut words: Vec<_> = counts.into_iter().collect();
    words.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    words.iter().fold(n, |h, (w, c)| w.bytes().fold(h ^ c, |h, b| (h ^ b as u32).wrapping_mul(16777619)))
}
