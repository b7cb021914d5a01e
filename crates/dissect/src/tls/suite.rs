//! Cipher suites that can be decrypted, those with authenticated encryption (IANA registry of TLS parameters).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aead {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
    Aes128Ccm,
    Aes256Ccm,
    Aes128Ccm8,
    Aes256Ccm8,
}

impl Aead {
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::Aes128Ccm | Self::Aes128Ccm8 => 16,
            Self::Aes256Gcm | Self::Aes256Ccm | Self::Aes256Ccm8 | Self::ChaCha20Poly1305 => 32,
        }
    }

    pub const fn tag_bytes(self) -> usize {
        match self {
            Self::Aes128Ccm8 | Self::Aes256Ccm8 => 8,
            _ => 16,
        }
    }

    /// Returns the length of the nonce part that TLS 1.2 sends in each record (RFC 5288, RFC 6655, RFC 7905).
    pub const fn explicit_bytes(self) -> usize {
        match self {
            Self::ChaCha20Poly1305 => 0,
            _ => 8,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SuiteHash {
    Sha256,
    Sha384,
}

impl SuiteHash {
    /// Returns the length of its values and so of TLS 1.3's secrets, in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
        }
    }
}

/// The parts of a cipher suite that matter to records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CipherSuite {
    pub aead: Aead,
    pub hash: SuiteHash,
}

impl CipherSuite {
    /// Returns the suites of TLS 1.3 that libraries offer by default.
    pub fn usual_of_tls13() -> impl Iterator<Item = Self> {
        (0x1301..=0x1303).filter_map(Self::numbered)
    }

    /// Returns the suite of this number, with any key exchange; `None` if it cannot be decrypted.
    pub fn numbered(number: u16) -> Option<Self> {
        let (aead, hash) = match number {
            // RFC 8446; RFC 5288 (RSA, DHE, DH, anonymous), RFC 5487 (PSK), RFC 5289 (ECDHE, ECDH), RFC 8442.
            0x1301 | 0x009c | 0x009e | 0x00a0 | 0x00a2 | 0x00a4 | 0x00a6 | 0x00a8 | 0x00aa | 0x00ac | 0xc02b
            | 0xc02d | 0xc02f | 0xc031 | 0xd001 => (Aead::Aes128Gcm, SuiteHash::Sha256),
            0x1302 | 0x009d | 0x009f | 0x00a1 | 0x00a3 | 0x00a5 | 0x00a7 | 0x00a9 | 0x00ab | 0x00ad | 0xc02c
            | 0xc02e | 0xc030 | 0xc032 | 0xd002 => (Aead::Aes256Gcm, SuiteHash::Sha384),
            // RFC 8446, RFC 7905.
            0x1303 | 0xcca8..=0xccae => (Aead::ChaCha20Poly1305, SuiteHash::Sha256),
            // RFC 8446, RFC 6655, RFC 7251, RFC 8442.
            0x1304 | 0xc09c | 0xc09e | 0xc0a4 | 0xc0a6 | 0xc0ac | 0xd005 => (Aead::Aes128Ccm, SuiteHash::Sha256),
            0xc09d | 0xc09f | 0xc0a5 | 0xc0a7 | 0xc0ad => (Aead::Aes256Ccm, SuiteHash::Sha256),
            0x1305 | 0xc0a0 | 0xc0a2 | 0xc0a8 | 0xc0aa | 0xc0ae | 0xd003 => (Aead::Aes128Ccm8, SuiteHash::Sha256),
            0xc0a1 | 0xc0a3 | 0xc0a9 | 0xc0ab | 0xc0af => (Aead::Aes256Ccm8, SuiteHash::Sha256),
            _ => return None,
        };
        Some(Self { aead, hash })
    }
}
