//! Converts time stamps of a pcapng interface to Unix nanoseconds, in integers.
//!
//! draft-ietf-opsawg-pcapng, section 4.2: `if_tsresol` is one byte; with the top bit clear the rest is a negative
//! power of ten, with the top bit set a negative power of two (in seconds). `if_tsoffset` is added, in seconds.

const NS_PER_SECOND: u64 = 1_000_000_000;
const NANO: u32 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InterfaceClock {
    scale: TickScale,
    offset_ns: i128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TickScale {
    /// Nanoseconds per tick.
    Multiply(u64),
    /// Ticks per nanosecond; 0 if that exceeds 64 bits, which makes every time stamp 0.
    Divide(u64),
    /// Log2 of the ticks per second.
    Shift(u32),
}

impl InterfaceClock {
    /// Takes the values of the options; 6 and 0 are the defaults.
    pub(super) fn new(resolution: u8, offset_s: i64) -> Self {
        let power = u32::from(resolution & 0x7f);
        let scale = match resolution & 0x80 {
            0 if power <= NANO => TickScale::Multiply(10_u64.pow(NANO - power)),
            0 => TickScale::Divide(10_u64.checked_pow(power - NANO).unwrap_or(0)),
            _ => TickScale::Shift(power),
        };
        Self { scale, offset_ns: i128::from(offset_s) * i128::from(NS_PER_SECOND) }
    }

    /// Returns Unix nanoseconds, rounded down and clamped to 64 bits (the years 1970 to 2554).
    pub(super) fn ns(self, ticks: u64) -> u64 {
        if let (TickScale::Multiply(factor), 0) = (self.scale, self.offset_ns)
            && let Some(ns) = ticks.checked_mul(factor)
        {
            return ns;
        }
        let ns = match self.scale {
            TickScale::Multiply(factor) => u128::from(ticks) * u128::from(factor),
            TickScale::Divide(divisor) => u128::from(ticks.checked_div(divisor).unwrap_or(0)),
            TickScale::Shift(bits) => (u128::from(ticks) * u128::from(NS_PER_SECOND)).checked_shr(bits).unwrap_or(0),
        };
        // At most 2^94, so the sum cannot overflow.
        let shifted = i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(self.offset_ns);
        u64::try_from(shifted.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::InterfaceClock;

    #[test]
    fn every_resolution_is_exact_and_rounds_down() {
        let table = [
            (6, 0, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
            (9, 0, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
            (0, 0, 1_700_000_000, 1_700_000_000_000_000_000),
            (3, 0, 1_700_000_000_123, 1_700_000_000_123_000_000),
            (12, 0, 1_700_000_123_456_789_012, 1_700_000_123_456_789),
            (28, 0, u64::MAX, 1),
            (29, 0, u64::MAX, 0),
            (127, 0, u64::MAX, 0),
            (0x80, 0, 7, 7_000_000_000),
            (0x80 | 0x0a, 0, 1024 + 512, 1_500_000_000),
            (0x80 | 0x1e, 0, (1 << 30) + 1, 1_000_000_000),
            (0x80 | 32, 0, (1_700_000_000 << 32) | (1 << 31), 1_700_000_000_500_000_000),
            (0x80 | 0x3f, 0, 1 << 63, 1_000_000_000),
            (0xff, 0, u64::MAX, 0),
            (6, 1_700_000_000, 5, 1_700_000_000_000_005_000),
            (6, -3, 10_000_000, 7_000_000_000),
        ];
        for (resolution, offset, ticks, expected) in table {
            assert_eq!(
                InterfaceClock::new(resolution, offset).ns(ticks),
                expected,
                "resolution {resolution:#x} ticks {ticks}"
            );
        }
    }

    #[test]
    fn times_out_of_range_are_clamped() {
        assert_eq!(InterfaceClock::new(6, -1).ns(0), 0);
        assert_eq!(InterfaceClock::new(6, i64::MIN).ns(u64::MAX), 0);
        assert_eq!(InterfaceClock::new(0, 0).ns(u64::MAX), u64::MAX);
        assert_eq!(InterfaceClock::new(0x80, i64::MAX).ns(u64::MAX), u64::MAX);
    }
}
