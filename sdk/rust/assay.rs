//! The SDK of Assay's layers for Rust: a copy, so do not edit it. In a guest it needs only `core`. Natively the same
//! layer runs under `rustc --test`, with the host's limits, through [`run`].
#![allow(dead_code)]

use core::fmt::{self, Display, Write};
use core::iter::Filter;
use core::str::Split;

#[path = "assay_facts.rs"]
mod facts;

/// The most points that a signal may have, and the fewest, negated.
pub const MAX_POINTS: i32 = 100;

/// The most bytes of a signal's text. The host cuts a longer one at the end of a character.
pub const MAX_TEXT_BYTES: usize = 240;

/// The most bytes of what [`Quote`] shows, without the ellipsis.
pub const MAX_QUOTE_BYTES: usize = 60;

/// The result of a call. A layer abstains when it cannot assess an entity; its points then do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Scored = 0,
    Abstained = 1,
    Failed = 2,
}

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Debug = -4,
    Info = 0,
    Warn = 4,
    Error = 8,
}

/// A category of fraud. The manifest declares those that the layer names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threat {
    Phishing,
    Impersonation,
    Scam,
    InvestmentScam,
    Malware,
    Spam,
    Disposable,
    FakeIdentity,
    TollFraud,
}

impl Threat {
    /// The name of the category in the interface.
    pub fn name(self) -> &'static str {
        match self {
            Threat::Phishing => "phishing",
            Threat::Impersonation => "impersonation",
            Threat::Scam => "scam",
            Threat::InvestmentScam => "investment_scam",
            Threat::Malware => "malware",
            Threat::Spam => "spam",
            Threat::Disposable => "disposable",
            Threat::FakeIdentity => "fake_identity",
            Threat::TollFraud => "toll_fraud",
        }
    }
}

/// One call of a layer: the facts to read and the answer to build.
pub struct Check<'call> {
    host: Host<'call>,
}

impl<'call> Check<'call> {
    /// The named fact, of any length, or None if it is absent. Absent means "not known" and must never add risk.
    pub fn fact(&mut self, name: &str) -> Option<&'call str> {
        self.host.fact(name)
    }

    /// Whether the named fact is known.
    pub fn has(&mut self, name: &str) -> bool {
        self.host.copy(name, &mut []).is_some()
    }

    /// The named fact as a number of at most nine digits; None if it is absent or anything else.
    pub fn count(&mut self, name: &str) -> Option<u32> {
        let mut buffer = [0; 9];
        let length = self.host.copy(name, &mut buffer)?;
        if length == 0 || length > buffer.len() {
            return None;
        }
        let digits = &buffer[..length];
        if digits[0] == b'0' && length > 1 || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        Some(digits.iter().fold(0, |n, digit| n * 10 + u32::from(digit - b'0')))
    }

    /// Whether the named yes-or-no fact is known and yes.
    pub fn is(&mut self, name: &str) -> bool {
        self.yes_no(name) == Some(true)
    }

    /// Whether the named yes-or-no fact is known and no.
    pub fn not(&mut self, name: &str) -> bool {
        self.yes_no(name) == Some(false)
    }

    /// Whether the named yes-or-no fact is yes; None unless it is known.
    pub fn yes_no(&mut self, name: &str) -> Option<bool> {
        let mut buffer = [0; 3];
        let length = self.host.copy(name, &mut buffer)?;
        match buffer.get(..length)? {
            b"yes" => Some(true),
            b"no" => Some(false),
            _ => None,
        }
    }

    /// The entries of the named fact; none if it is absent.
    pub fn list(&mut self, name: &str) -> List<'call> {
        self.fact(name).unwrap_or("").split(' ').filter(|entry| !entry.is_empty())
    }

    /// Adds one reason: points from -100 (reassuring) to 100 (alarming), a code that the manifest declares, and a
    /// sentence that names the evidence, such as `format_args!("Registered {} days ago", n)`.
    pub fn signal(&mut self, points: i32, code: &str, text: impl Display) {
        let text = Text::<{ MAX_TEXT_BYTES + 4 }>::of(text); // the host sees that it is too long
        self.host.signal(points, code, text.as_str());
    }

    /// Names the category of fraud that this layer found. The last call counts.
    pub fn threat(&mut self, threat: Threat) {
        self.host.threat(threat.name());
    }

    /// Writes a line for the layer's author, at most 1000 bytes of it. Customers never see it.
    pub fn log(&mut self, level: Level, text: impl Display) {
        self.host.log(level, Text::<1000>::of(text).as_str());
    }

    /// Logs a reason and returns `Failed`. The host then decides the check without this layer.
    pub fn fail(&mut self, reason: impl Display) -> Outcome {
        self.log(Level::Error, reason);
        Outcome::Failed
    }
}

/// The entries of a list.
pub type List<'call> = Filter<Split<'call, char>, fn(&&'call str) -> bool>;

/// A value in quotation marks, for the end of a signal's text, so that no value makes the text too long or one that
/// hosts refuse: what a person cannot see becomes "?", characters that join others are left out, and a long value is
/// cut between two characters, with an ellipsis.
pub struct Quote<'a>(pub &'a str);

impl Display for Quote<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut bytes = '“'.len_utf8();
        f.write_char('“')?;
        for c in self.0.chars().filter(|c| !matches!(c, '\u{200c}' | '\u{200d}')) {
            let c = if c == char::REPLACEMENT_CHARACTER || !visible(c) { '?' } else { c };
            bytes += c.len_utf8();
            if bytes > MAX_QUOTE_BYTES - '”'.len_utf8() {
                f.write_char('…')?;
                break;
            }
            f.write_char(c)?;
        }
        f.write_char('”')
    }
}

/// Whether a person can see a character, or the space that it makes.
fn visible(c: char) -> bool {
    facts::HIDDEN.partition_point(|boundary| *boundary <= c as u32) % 2 == 0
}

/// A text of at most N bytes. What does not fit is cut.
struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    fn of(value: impl Display) -> Self {
        let mut text = Text { bytes: [0; N], length: 0 };
        let _ = write!(text, "{}", value); // an error means that it is full
        text
    }

    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("")
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for c in part.chars() {
            if self.length + c.len_utf8() > N {
                return Err(fmt::Error);
            }
            self.length += c.encode_utf8(&mut self.bytes[self.length..]).len();
        }
        Ok(())
    }
}

/// Exports the function as the module's layer: `layer!(score);`.
#[macro_export]
macro_rules! layer {
    ($score:path) => {
        #[cfg(target_arch = "wasm32")]
        #[no_mangle]
        pub extern "C" fn assay_v1_score() -> i32 {
            $score(&mut $crate::assay::guest()) as i32
        }
    };
}

#[cfg(target_arch = "wasm32")]
use wasm::Host;
#[cfg(target_arch = "wasm32")]
pub use wasm::guest;

#[cfg(target_arch = "wasm32")]
mod wasm {
    use super::{Check, Level};
    use core::marker::PhantomData;
    use core::ptr::{addr_of_mut, null_mut};

    mod import {
        #[link(wasm_import_module = "assay")]
        extern "C" {
            pub fn fact(name: *const u8, name_length: usize, buffer: *mut u8, capacity: usize) -> i32;
            pub fn signal(points: i32, code: *const u8, code_length: usize, text: *const u8, text_length: usize);
            pub fn threat(name: *const u8, name_length: usize);
            pub fn log(level: i32, text: *const u8, text_length: usize);
        }
    }

    /// Memory for the facts of a call, of which the next call uses the same.
    struct Memory {
        begin: *mut u8,
        size: usize,
        used: usize,
    }

    const PAGE: usize = 65536;
    static mut FIRST: [u8; 4096] = [0; 4096];
    static mut MEMORY: Memory = Memory { begin: null_mut(), size: 0, used: 0 };

    impl Memory {
        /// Takes other memory, of at least so many bytes. The call ends if there is none.
        unsafe fn grow(&mut self, least: usize) {
            let pages = (least.max(2 * self.size) + PAGE - 1) / PAGE;
            let at = core::arch::wasm32::memory_grow(0, pages);
            if at == usize::MAX {
                panic!("no memory is left for facts");
            }
            *self = Memory { begin: (at * PAGE) as *mut u8, size: pages * PAGE, used: 0 };
        }
    }

    pub struct Host<'call> {
        call: PhantomData<&'call ()>,
    }

    /// Begins a call.
    pub fn guest<'call>() -> Check<'call> {
        unsafe {
            let memory = &mut *addr_of_mut!(MEMORY);
            memory.used = 0;
            if memory.begin.is_null() {
                *memory = Memory { begin: addr_of_mut!(FIRST).cast(), size: 4096, used: 0 };
            }
        }
        Check { host: Host { call: PhantomData } }
    }

    impl<'call> Host<'call> {
        pub fn fact(&mut self, name: &str) -> Option<&'call str> {
            unsafe {
                let memory = &mut *addr_of_mut!(MEMORY);
                let room = memory.size - memory.used;
                let read = |buffer, room| import::fact(name.as_ptr(), name.len(), buffer, room);
                let length = usize::try_from(read(memory.begin.add(memory.used), room)).ok()?;
                if length > room {
                    memory.grow(length);
                    read(memory.begin, length);
                }
                let text = core::slice::from_raw_parts(memory.begin.add(memory.used), length);
                memory.used += length;
                core::str::from_utf8(text).ok()
            }
        }

        pub fn copy(&mut self, name: &str, buffer: &mut [u8]) -> Option<usize> {
            let length = unsafe { import::fact(name.as_ptr(), name.len(), buffer.as_mut_ptr(), buffer.len()) };
            usize::try_from(length).ok()
        }

        pub fn signal(&mut self, points: i32, code: &str, text: &str) {
            unsafe { import::signal(points, code.as_ptr(), code.len(), text.as_ptr(), text.len()) }
        }

        pub fn threat(&mut self, name: &str) {
            unsafe { import::threat(name.as_ptr(), name.len()) }
        }

        pub fn log(&mut self, level: Level, text: &str) {
            unsafe { import::log(level as i32, text.as_ptr(), text.len()) }
        }
    }

    #[panic_handler]
    fn panic(info: &core::panic::PanicInfo) -> ! {
        Check { host: Host { call: PhantomData } }.log(Level::Error, info);
        core::arch::wasm32::unreachable()
    }
}

#[cfg(not(target_arch = "wasm32"))]
#[allow(unused_imports)]
pub use native::{run, Answer, Signal};
#[cfg(not(target_arch = "wasm32"))]
use native::Host;

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use super::{Check, Level, Outcome, MAX_POINTS, MAX_TEXT_BYTES};

    /// One reason for a score.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Signal {
        pub points: i32,
        pub code: String,
        pub text: String,
    }

    /// A layer's answer to one native call.
    #[derive(Debug)]
    pub struct Answer {
        pub outcome: Outcome,
        pub score: i32, // 0 unless the layer scored; a host holds it to the manifest's score_range too
        pub signals: Vec<Signal>,
        pub threat: Option<String>,
        pub log: Vec<String>,
        pub read: Vec<String>,       // the names of facts, known or not
        pub refused: Option<String>, // why a host would refuse the answer
    }

    pub struct Host<'call> {
        facts: &'call [(&'call str, &'call str)],
        answer: Answer,
    }

    /// Calls a layer natively with facts, and returns its answer. Tests of layers call it.
    pub fn run(layer: fn(&mut Check) -> Outcome, facts: &[(&str, &str)]) -> Answer {
        let answer = Answer {
            outcome: Outcome::Failed,
            score: 0,
            signals: Vec::new(),
            threat: None,
            log: Vec::new(),
            read: Vec::new(),
            refused: None,
        };
        let mut check = Check { host: Host { facts, answer } };
        let outcome = layer(&mut check);
        let mut answer = check.host.answer;
        answer.outcome = outcome;
        if outcome == Outcome::Scored && answer.refused.is_none() {
            let sum: i32 = answer.signals.iter().map(|s| s.points).sum();
            answer.score = sum.clamp(-MAX_POINTS, MAX_POINTS);
        }
        answer
    }

    /// A text as hosts show it: a longer one is cut at the end of a character, with an ellipsis and, if a quotation is
    /// open, its closing mark.
    fn shown(text: &str) -> String {
        if text.len() <= MAX_TEXT_BYTES {
            return text.to_string();
        }
        let mut room = MAX_TEXT_BYTES - "…”".len();
        while !text.is_char_boundary(room) {
            room -= 1;
        }
        let kept = text[..room].trim_end_matches(['\u{200c}', '\u{200d}']);
        let mark = if kept.matches('“').count() > kept.matches('”').count() {
            "”"
        } else if kept.matches('"').count() % 2 == 1 {
            "\""
        } else {
            ""
        };
        format!("{}…{}", kept, mark)
    }

    impl<'call> Host<'call> {
        pub fn fact(&mut self, name: &str) -> Option<&'call str> {
            self.answer.read.push(name.to_string());
            let (_, value) = self.facts.iter().find(|(known, _)| *known == name)?;
            Some(value)
        }

        pub fn copy(&mut self, name: &str, buffer: &mut [u8]) -> Option<usize> {
            let value = self.fact(name)?;
            if value.len() <= buffer.len() {
                buffer[..value.len()].copy_from_slice(value.as_bytes());
            }
            Some(value.len())
        }

        pub fn signal(&mut self, points: i32, code: &str, text: &str) {
            if !(-MAX_POINTS..=MAX_POINTS).contains(&points) {
                self.refuse(format!("{} is worth {} points", code, points));
            }
            if text.is_empty() || text.chars().any(char::is_control) {
                self.refuse(format!("the text of {} is empty or has control characters", code));
            }
            if code.split(':').count() < 3 || self.answer.signals.len() == 64 {
                self.refuse(format!("{} is not of the form group:kind:detail, or is the 65th signal", code));
            }
            self.answer.signals.push(Signal { points, code: code.to_string(), text: shown(text) });
        }

        pub fn threat(&mut self, name: &str) {
            self.answer.threat = Some(name.to_string());
        }

        pub fn log(&mut self, _: Level, text: &str) {
            self.answer.log.push(text.to_string());
        }

        fn refuse(&mut self, reason: String) {
            self.answer.refused.get_or_insert(reason);
        }
    }
}
