//! Finds the function that a TLS library calls with each secret of a handshake, in an ELF file, by its content.
//!
//! The first argument after the object is a label of the key log's format, such as `CLIENT_RANDOM`. Two kinds of
//! evidence must lead to one function: its symbol; the call after the instruction that loads the address of
//! `CLIENT_RANDOM` into the argument's register; calls near code that loads addresses of TLS 1.3's labels.

use iced_x86::{Code, Decoder, DecoderOptions};
use memchr::{memchr_iter, memmem};
use object::{Architecture, Object, ObjectSegment, ObjectSymbol, SegmentFlags};
use std::collections::BTreeSet;

/// The function, and how it receives its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyLogFunction {
    /// Offset of its first instruction in the file.
    pub(super) offset: u64,
    pub(super) convention: CallingConvention,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallingConvention {
    /// The system's: object, label, secret, length.
    C,
    /// Go's since 1.17: configuration, label, client random, secret.
    Go,
}

/// Label of TLS 1.2, and common beginning of the search.
const MASTER: &[u8] = b"CLIENT_RANDOM";
const TLS13: [&[u8]; 4] = [
    b"CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    b"SERVER_HANDSHAKE_TRAFFIC_SECRET",
    b"CLIENT_TRAFFIC_SECRET_0",
    b"SERVER_TRAFFIC_SECRET_0",
];
/// Symbols: OpenSSL, BoringSSL (mangled, with its arguments behind it), `GnuTLS`, Go.
const NAMES: [&str; 4] =
    ["ssl_log_secret", "_ZN4bssl14ssl_log_secretE", "_gnutls_nss_keylog_write", "crypto/tls.(*Config).writeKeyLog"];
/// Exported by NSS, whose function gets a secret in a structure, and only if a key log is open.
const OF_NSS: &str = "SSL_ImportFD";
const GO_BUILD: &[u8] = b"\xff Go buildinf:";
/// Instructions between a label and the call that gets it.
const BETWEEN: usize = 24;
/// The longest instruction of x86-64, in bytes.
const LONGEST: usize = 15;
/// Distance between the reference to a label and a call in the same function, in bytes.
const NEAR: usize = 4096;

const UNUSED: &str = "no code passes the label CLIENT_RANDOM to a function";
const SEVERAL: &str = "CLIENT_RANDOM is passed to several functions";
const ALONE: &str = "the function that gets CLIENT_RANDOM gets no label of TLS 1.3";
const OTHER: &str = "the function that gets CLIENT_RANDOM has another name";
const OUTSIDE: &str = "the function that gets CLIENT_RANDOM is not in the file's code";
const NSS: &str = "it is NSS, which prepares no line of a key log that nobody asked for";
const MACHINE: &str = "its code is for another architecture than x86-64 and aarch64";

/// Returns the function; `None` if the file has no labels.
///
/// # Errors
///
/// The reason why it has no function that can be observed safely.
pub(super) fn key_log_function(bytes: &[u8]) -> Result<Option<KeyLogFunction>, &'static str> {
    if memmem::find(bytes, MASTER).is_none() {
        return Ok(None);
    }
    let Ok(file) = object::File::parse(bytes) else { return Ok(None) };
    let is_x86 = match file.architecture() {
        Architecture::X86_64 => true,
        Architecture::Aarch64 => false,
        _ => return Err(MACHINE),
    };
    if file.dynamic_symbols().any(|symbol| symbol.is_definition() && symbol.name() == Ok(OF_NSS)) {
        return Err(NSS);
    }
    let segments = file.segments().filter_map(|segment| LoadedSegment::new(&segment)).collect();
    let convention = if memmem::find(bytes, GO_BUILD).is_some() { CallingConvention::Go } else { CallingConvention::C };
    let image = Image { segments, convention, is_x86 };
    let named = file.symbols().chain(file.dynamic_symbols()).filter(ObjectSymbol::is_definition);
    let named = named.filter(|symbol| symbol.name().is_ok_and(is_named)).map(|symbol| symbol.address()).next();
    let address = image.function(named)?;
    let code = image.code().find(|code| code.at(address).is_some_and(|at| image.starts_instruction(code, at)));
    let offset = code.and_then(|code| Some(code.offset + code.at(address)? as u64)).ok_or(OUTSIDE)?;
    Ok(Some(KeyLogFunction { offset, convention }))
}

/// Compilers name parts of a function after it, with a dot.
fn is_named(name: &str) -> bool {
    let is_mangled = |known: &str| known.starts_with("_ZN") && name.starts_with(known) && !name.contains('.');
    NAMES.iter().any(|known| name == *known || is_mangled(known))
}

/// A part of the file as the loader maps it.
struct LoadedSegment<'a> {
    address: u64,
    /// In the file.
    offset: u64,
    bytes: &'a [u8],
    is_code: bool,
}

impl<'a> LoadedSegment<'a> {
    fn new(segment: &impl ObjectSegment<'a>) -> Option<Self> {
        let SegmentFlags::Elf { p_flags } = segment.flags() else { return None };
        let is_code = p_flags & object::elf::PF_X != 0;
        let (offset, _) = segment.file_range();
        Some(Self { address: segment.address(), offset, bytes: segment.data().ok()?, is_code })
    }

    /// Returns the index of the byte at an address.
    fn at(&self, address: u64) -> Option<usize> {
        let at = usize::try_from(address.checked_sub(self.address)?).ok()?;
        (at < self.bytes.len()).then_some(at)
    }

    fn word(&self, at: usize) -> Option<u32> {
        self.bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
    }

    /// Returns the target of a branch whose distance counts from the byte at `from`.
    fn target(&self, from: usize, distance: i64) -> u64 {
        (self.address + from as u64).wrapping_add_signed(distance)
    }
}

/// Code that loads the address of a label.
struct LabelReference {
    /// Index of its first byte in the segment.
    start: usize,
    /// Index of the first byte after the address is loaded.
    end: usize,
    register: u8,
    label: u64,
}

struct Image<'a> {
    segments: Vec<LoadedSegment<'a>>,
    convention: CallingConvention,
    is_x86: bool,
}

impl Image<'_> {
    fn code(&self) -> impl Iterator<Item = &LoadedSegment<'_>> {
        self.segments.iter().filter(|segment| segment.is_code)
    }

    /// Returns the address of the function that two kinds of evidence agree on.
    fn function(&self, named: Option<u64>) -> Result<u64, &'static str> {
        let masters = self.addresses(MASTER);
        let others: Vec<u64> = TLS13.iter().flat_map(|label| self.addresses(label)).collect();
        let labels = [masters.as_slice(), &others].concat();
        let (mut callees, mut near) = (BTreeSet::new(), Vec::new());
        for code in self.code() {
            for reference in self.references(code, &labels) {
                if others.contains(&reference.label) {
                    near.push((code, reference.start));
                } else if reference.register == self.label_register() {
                    callees.extend(self.callee(code, reference.end));
                }
            }
        }
        if callees.len() > 1 {
            return Err(SEVERAL);
        }
        let function = match (named, callees.first()) {
            (Some(named), Some(called)) if named != *called => return Err(OTHER),
            // Two kinds of evidence.
            (Some(named), Some(_)) => return Ok(named),
            (named, called) => named.or(called.copied()).ok_or(UNUSED)?,
        };
        let calls = |(code, start): &(&LoadedSegment<'_>, usize)| self.calls_near(code, *start, function);
        if near.iter().any(calls) { Ok(function) } else { Err(ALONE) }
    }

    /// Returns the addresses of a label. Go's have no end of their own.
    fn addresses(&self, label: &[u8]) -> Vec<u64> {
        let ends = |bytes: &[u8], at: usize| {
            self.convention == CallingConvention::Go || bytes.get(at + label.len()) == Some(&0)
        };
        let of_segment = |segment: &LoadedSegment<'_>| {
            let found = memmem::find_iter(segment.bytes, label).filter(|at| ends(segment.bytes, *at));
            found.map(|at| segment.address + at as u64).collect::<Vec<_>>()
        };
        self.segments.iter().flat_map(of_segment).collect()
    }

    /// Returns the number of the register with the label: RSI or RBX, X1 or X1.
    fn label_register(&self) -> u8 {
        match (self.is_x86, self.convention) {
            (true, CallingConvention::C) => 6,
            (true, CallingConvention::Go) => 3,
            (false, _) => 1,
        }
    }

    fn references(&self, code: &LoadedSegment<'_>, labels: &[u64]) -> Vec<LabelReference> {
        if !self.is_x86 {
            return references_of_arm(code, labels);
        }
        let mut found = Vec::new();
        // lea r64, [rip + i32]: REX.W, 8D, ModRM.
        for at in memchr_iter(0x8d, code.bytes).filter(|at| *at > 0) {
            let Some(&[rex, _, modrm, a, b, c, d]) = code.bytes.get(at - 1..).and_then(<[u8]>::first_chunk) else {
                continue;
            };
            let label = code.target(at + 6, i32::from_le_bytes([a, b, c, d]).into());
            if rex & 0xfb == 0x48 && modrm & 0xc7 == 5 && labels.contains(&label) {
                let register = ((rex & 4) << 1) | ((modrm >> 3) & 7);
                found.push(LabelReference { start: at - 1, end: at + 6, register, label });
            }
        }
        // mov r32, i32: B8 + register, in programs at fixed addresses.
        for &label in labels {
            let Ok(address) = u32::try_from(label) else { continue };
            for at in memmem::find_iter(code.bytes, &address.to_le_bytes()).filter(|at| *at > 0) {
                if let Some(register) = code.bytes.get(at - 1).filter(|opcode| **opcode & 0xf8 == 0xb8) {
                    found.push(LabelReference { start: at - 1, end: at + 4, register: register & 7, label });
                }
            }
        }
        found
    }

    /// Returns the target of the first call after `start`, if nothing else leads away before.
    fn callee(&self, code: &LoadedSegment<'_>, start: usize) -> Option<u64> {
        if !self.is_x86 {
            return callee_of_arm(code, start);
        }
        let window = code.bytes.get(start..)?;
        let window = window.get(..BETWEEN * LONGEST).unwrap_or(window);
        let decoder = Decoder::with_ip(64, window, code.address + start as u64, DecoderOptions::NONE);
        for instruction in decoder.into_iter().take(BETWEEN) {
            match instruction.code() {
                Code::Call_rel32_64 | Code::Jmp_rel32_64 => return Some(instruction.near_branch_target()),
                Code::INVALID | Code::Jmp_rel8_64 | Code::Jmp_rm64 | Code::Call_rm64 | Code::Retnq | Code::Ud2 => {
                    return None;
                }
                _ => {}
            }
        }
        None
    }

    /// Returns whether the function is called within [`NEAR`] bytes.
    fn calls_near(&self, code: &LoadedSegment<'_>, at: usize, function: u64) -> bool {
        let start = at.saturating_sub(NEAR);
        let is_call = |at: usize| {
            if !self.is_x86 {
                return branch_of_arm(code, at, 0x9400_0000) == Some(function);
            }
            let distance = code.word(at + 1).map(u32::cast_signed);
            code.bytes.get(at) == Some(&0xe8) && distance.is_some_and(|far| code.target(at + 5, far.into()) == function)
        };
        (start..at + NEAR).step_by(if self.is_x86 { 1 } else { 4 }).any(is_call)
    }

    fn starts_instruction(&self, code: &LoadedSegment<'_>, at: usize) -> bool {
        let rest = code.bytes.get(at..).unwrap_or_default();
        if self.is_x86 {
            !Decoder::new(64, rest, DecoderOptions::NONE).decode().is_invalid()
        } else {
            at.is_multiple_of(4)
        }
    }
}

/// Returns the references by `adrp` and a later `add`.
fn references_of_arm(code: &LoadedSegment<'_>, labels: &[u64]) -> Vec<LabelReference> {
    let mut found = Vec::new();
    for start in (0..code.bytes.len()).step_by(4) {
        let Some(adrp) = code.word(start).filter(|word| word & 0x9f00_0000 == 0x9000_0000) else { continue };
        let pages = (((adrp >> 5) & 0x7_ffff) << 2) | ((adrp >> 29) & 3);
        let pages = i64::from((pages << 11).cast_signed() >> 11);
        let page = (code.target(start, 0) & !0xfff).wrapping_add_signed(pages << 12);
        for at in (start + 4..start + 4 * BETWEEN).step_by(4) {
            let Some(add) = code.word(at).filter(|word| word & 0xffc0_0000 == 0x9100_0000) else { continue };
            let label = page + u64::from((add >> 10) & 0xfff);
            if (add >> 5) & 31 == adrp & 31 && labels.contains(&label) {
                found.push(LabelReference { start, end: at + 4, register: (add & 31) as u8, label });
                break;
            }
        }
    }
    found
}

fn callee_of_arm(code: &LoadedSegment<'_>, start: usize) -> Option<u64> {
    let mut words = (start..).step_by(4).take(BETWEEN);
    words.find_map(|at| branch_of_arm(code, at, 0x9400_0000).or_else(|| branch_of_arm(code, at, 0x1400_0000)))
}

/// Returns the target of a `bl` or `b`, by its operation code.
fn branch_of_arm(code: &LoadedSegment<'_>, at: usize, operation: u32) -> Option<u64> {
    let word = code.word(at).filter(|word| word & 0xfc00_0000 == operation)?;
    Some(code.target(at, i64::from((word << 6).cast_signed() >> 6) << 2))
}

#[cfg(test)]
mod tests;
