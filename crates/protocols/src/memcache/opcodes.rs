//! Opcodes and status codes of the binary protocol (`protocol_binary.h`, `doc/protocol-binary.txt`).

use std::sync::LazyLock;

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

/// The names by opcode, those of the text commands with a prefix to keep the two apart; empty for unassigned ones.
static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| TEXT.split(',').collect());

const TEXT: &str = "bin get,bin set,bin add,bin replace,bin delete,bin incr,bin decr,bin quit,bin flush_all,bin getq,bin noop,\
    bin version,bin getk,bin getkq,bin append,bin prepend,bin stats,bin setq,bin addq,bin replaceq,bin deleteq,\
    bin incrq,bin decrq,bin quitq,bin flush_allq,bin appendq,bin prependq,bin verbosity,bin touch,bin gat,bin gatq,,\
    bin sasl_list_mechs,bin sasl_auth,bin sasl_step,bin gatk,bin gatkq,,,,,,,,,,,,bin rget,bin rset,bin rsetq,\
    bin rappend,bin rappendq,bin rprepend,bin rprependq,bin rdelete,bin rdeleteq,bin rincr,bin rincrq,bin rdecr,\
    bin rdecrq";

/// Returns the description of an opcode. The names of quiet ones end in `q`, and no others.
pub(super) fn from_code(code: u8) -> BinaryOpcode {
    let name = NAMES.get(usize::from(code)).copied().filter(|name| !name.is_empty()).unwrap_or("bin (unknown)");
    let extras = match code {
        0x01..=0x03 | 0x11..=0x13 => BinaryExtras::Store,
        INCR | DECR | 0x15 | 0x16 => BinaryExtras::Count,
        0x08 | 0x18 | 0x1b..=0x1e | 0x23 | 0x24 => BinaryExtras::Time,
        _ => BinaryExtras::Other,
    };
    BinaryOpcode { name, quiet: name.ends_with('q'), extras }
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
