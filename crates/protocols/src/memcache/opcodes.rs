//! Opcodes and status codes of the binary protocol (`protocol_binary.h`, `doc/protocol-binary.txt`).

const INCR: u8 = 0x05;
const DECR: u8 = 0x06;
/// `version`: the reply names the server.
pub(super) const VERSION: u8 = 0x0b;
/// `stats`: the reply is several messages, the last one empty.
pub(super) const STATS: u8 = 0x10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BinaryOpcode {
    pub name: &'static str,
    /// Not always answered.
    pub quiet: bool,
    pub extras: BinaryExtras,
}

/// The bytes between the header and the key of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BinaryExtras {
    /// Client flags (4), time to live (4).
    Store,
    /// Delta (8), initial value (8), time to live (4).
    Count,
    /// Time to live (4), or a level.
    Time,
    /// Unknown or absent.
    Other,
}

const fn opcode(name: &'static str, quiet: bool, extras: BinaryExtras) -> BinaryOpcode {
    BinaryOpcode { name, quiet, extras }
}

/// Returns the description of an opcode. Its name is the text command's, prefixed to keep the two apart.
pub(super) const fn from_code(code: u8) -> BinaryOpcode {
    use BinaryExtras::{Count, Other, Store, Time};
    match code {
        0x00 => opcode("bin get", false, Other),
        0x01 => opcode("bin set", false, Store),
        0x02 => opcode("bin add", false, Store),
        0x03 => opcode("bin replace", false, Store),
        0x04 => opcode("bin delete", false, Other),
        INCR => opcode("bin incr", false, Count),
        DECR => opcode("bin decr", false, Count),
        0x07 => opcode("bin quit", false, Other),
        0x08 => opcode("bin flush_all", false, Time),
        0x09 => opcode("bin getq", true, Other),
        0x0a => opcode("bin noop", false, Other),
        VERSION => opcode("bin version", false, Other),
        0x0c => opcode("bin getk", false, Other),
        0x0d => opcode("bin getkq", true, Other),
        0x0e => opcode("bin append", false, Other),
        0x0f => opcode("bin prepend", false, Other),
        STATS => opcode("bin stats", false, Other),
        0x11 => opcode("bin setq", true, Store),
        0x12 => opcode("bin addq", true, Store),
        0x13 => opcode("bin replaceq", true, Store),
        0x14 => opcode("bin deleteq", true, Other),
        0x15 => opcode("bin incrq", true, Count),
        0x16 => opcode("bin decrq", true, Count),
        0x17 => opcode("bin quitq", true, Other),
        0x18 => opcode("bin flush_allq", true, Time),
        0x19 => opcode("bin appendq", true, Other),
        0x1a => opcode("bin prependq", true, Other),
        0x1b => opcode("bin verbosity", false, Time),
        0x1c => opcode("bin touch", false, Time),
        0x1d => opcode("bin gat", false, Time),
        0x1e => opcode("bin gatq", true, Time),
        0x20 => opcode("bin sasl_list_mechs", false, Other),
        0x21 => opcode("bin sasl_auth", false, Other),
        0x22 => opcode("bin sasl_step", false, Other),
        0x23 => opcode("bin gatk", false, Time),
        0x24 => opcode("bin gatkq", true, Time),
        0x30 => opcode("bin rget", false, Other),
        0x31 => opcode("bin rset", false, Other),
        0x32 => opcode("bin rsetq", true, Other),
        0x33 => opcode("bin rappend", false, Other),
        0x34 => opcode("bin rappendq", true, Other),
        0x35 => opcode("bin rprepend", false, Other),
        0x36 => opcode("bin rprependq", true, Other),
        0x37 => opcode("bin rdelete", false, Other),
        0x38 => opcode("bin rdeleteq", true, Other),
        0x39 => opcode("bin rincr", false, Other),
        0x3a => opcode("bin rincrq", true, Other),
        0x3b => opcode("bin rdecr", false, Other),
        0x3c => opcode("bin rdecrq", true, Other),
        _ => opcode("bin (unknown)", false, Other),
    }
}

pub(super) const fn is_sasl(code: u8) -> bool {
    matches!(code, 0x20..=0x22)
}

/// Returns whether replies repeat the key, which distinguishes replies with the same opaque.
pub(super) const fn repeats_key(code: u8) -> bool {
    matches!(code, 0x0c | 0x0d | 0x23 | 0x24)
}

/// Returns whether the reply's value is the stored number.
pub(super) const fn counts(code: u8) -> bool {
    matches!(code, INCR | DECR | 0x15 | 0x16)
}

/// Returns whether a status is an error. A missing key, an existing one, a value not stored and a further
/// authentication step are not.
pub(super) const fn is_error(status: u16) -> bool {
    !matches!(status, 0x00 | 0x01 | 0x02 | 0x05 | 0x21)
}
