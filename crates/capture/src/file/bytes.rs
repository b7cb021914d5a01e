/// Byte order of a file or a pcapng section, which reads integers at an offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ByteOrder {
    #[default]
    Little,
    Big,
}

impl ByteOrder {
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        self.little(bytes, at).map(u16::from_le_bytes)
    }

    pub(super) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        self.little(bytes, at).map(u32::from_le_bytes)
    }

    pub(super) fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        self.little(bytes, at).map(u64::from_le_bytes)
    }

    /// Returns bytes in little-endian order.
    #[inline]
    fn little<const N: usize>(self, bytes: &[u8], at: usize) -> Option<[u8; N]> {
        let mut raw = *bytes.get(at..)?.first_chunk()?;
        if self == Self::Big {
            raw.reverse();
        }
        Some(raw)
    }
}
