//! Cipher suites that can be decrypted: those with authenticated encryption, and those of TLS 1.2 with AES in CBC mode and a MAC (IANA
//! registry of TLS parameters).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BulkCipher {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
    Aes128Ccm,
    Aes256Ccm,
    Aes128Ccm8,
    Aes256Ccm8,
    Aes128CbcSha1,
    Aes128CbcSha256,
    Aes256CbcSha1,
    Aes256CbcSha256,
    Aes256CbcSha384,
}

impl BulkCipher {
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::Aes128Ccm | Self::Aes128Ccm8 | Self::Aes128CbcSha1 | Self::Aes128CbcSha256 => 16,
            _ => 32,
        }
    }

    /// Returns the length of the authentication tag, 0 with CBC.
    pub const fn tag_bytes(self) -> usize {
        match self {
            Self::Aes128Ccm8 | Self::Aes256Ccm8 => 8,
            _ if self.mac_bytes() > 0 => 0,
            _ => 16,
        }
    }

    /// Returns the length of the MAC and of its key, 0 without CBC.
    pub const fn mac_bytes(self) -> usize {
        match self {
            Self::Aes128CbcSha1 | Self::Aes256CbcSha1 => 20,
            Self::Aes128CbcSha256 | Self::Aes256CbcSha256 => 32,
            Self::Aes256CbcSha384 => 48,
            _ => 0,
        }
    }

    /// Returns the length of the nonce part or initialization vector that TLS 1.2 sends in each record (RFC 5246, RFC 5288, RFC 6655,
    /// RFC 7905).
    pub const fn explicit_bytes(self) -> usize {
        match self {
            Self::ChaCha20Poly1305 => 0,
            _ if self.mac_bytes() > 0 => 16,
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
    pub cipher: BulkCipher,
    pub hash: SuiteHash,
    /// With CBC, whether the MAC covers encrypted records (RFC 7366).
    pub is_mac_last: bool,
}

impl CipherSuite {
    /// Returns the suites of TLS 1.3 that libraries offer by default.
    pub fn usual_of_tls13() -> impl Iterator<Item = Self> {
        (0x1301..=0x1303).filter_map(Self::numbered)
    }

    /// Returns the suite of this number, with any key exchange; `None` if it cannot be decrypted.
    pub fn numbered(number: u16) -> Option<Self> {
        let (cipher, hash) = match number {
            // RFC 8446; RFC 5288 (RSA, DHE, DH, anonymous), RFC 5487 (PSK), RFC 5289 (ECDHE, ECDH), RFC 8442.
            0x1301 | 0x009c | 0x009e | 0x00a0 | 0x00a2 | 0x00a4 | 0x00a6 | 0x00a8 | 0x00aa | 0x00ac | 0xc02b
            | 0xc02d | 0xc02f | 0xc031 | 0xd001 => (BulkCipher::Aes128Gcm, SuiteHash::Sha256),
            0x1302 | 0x009d | 0x009f | 0x00a1 | 0x00a3 | 0x00a5 | 0x00a7 | 0x00a9 | 0x00ab | 0x00ad | 0xc02c
            | 0xc02e | 0xc030 | 0xc032 | 0xd002 => (BulkCipher::Aes256Gcm, SuiteHash::Sha384),
            // RFC 8446, RFC 7905.
            0x1303 | 0xcca8..=0xccae => (BulkCipher::ChaCha20Poly1305, SuiteHash::Sha256),
            // RFC 8446, RFC 6655, RFC 7251, RFC 8442.
            0x1304 | 0xc09c | 0xc09e | 0xc0a4 | 0xc0a6 | 0xc0ac | 0xd005 => (BulkCipher::Aes128Ccm, SuiteHash::Sha256),
            0xc09d | 0xc09f | 0xc0a5 | 0xc0a7 | 0xc0ad => (BulkCipher::Aes256Ccm, SuiteHash::Sha256),
            0x1305 | 0xc0a0 | 0xc0a2 | 0xc0a8 | 0xc0aa | 0xc0ae | 0xd003 => (BulkCipher::Aes128Ccm8, SuiteHash::Sha256),
            0xc0a1 | 0xc0a3 | 0xc0a9 | 0xc0ab | 0xc0af => (BulkCipher::Aes256Ccm8, SuiteHash::Sha256),
            // RFC 5246, RFC 4492, RFC 4785, RFC 5054, RFC 5489: in TLS 1.2, the hash is not that of the MAC.
            0x002f | 0x0030 | 0x0031 | 0x0032 | 0x0033 | 0x0034 | 0x008c | 0x0090 | 0x0094 | 0xc004 | 0xc009
            | 0xc00e | 0xc013 | 0xc018 | 0xc01d | 0xc01e | 0xc01f | 0xc035 => {
                (BulkCipher::Aes128CbcSha1, SuiteHash::Sha256)
            }
            0x0035 | 0x0036 | 0x0037 | 0x0038 | 0x0039 | 0x003a | 0x008d | 0x0091 | 0x0095 | 0xc005 | 0xc00a
            | 0xc00f | 0xc014 | 0xc019 | 0xc020 | 0xc021 | 0xc022 | 0xc036 => {
                (BulkCipher::Aes256CbcSha1, SuiteHash::Sha256)
            }
            // RFC 5246, RFC 5289, RFC 5487, RFC 5489.
            0x003c | 0x003e | 0x003f | 0x0040 | 0x0067 | 0x006c | 0x00ae | 0x00b2 | 0x00b6 | 0xc023 | 0xc025
            | 0xc027 | 0xc029 | 0xc037 => (BulkCipher::Aes128CbcSha256, SuiteHash::Sha256),
            0x003d | 0x0068..=0x006b | 0x006d => (BulkCipher::Aes256CbcSha256, SuiteHash::Sha256),
            0x00af | 0x00b3 | 0x00b7 | 0xc024 | 0xc026 | 0xc028 | 0xc02a | 0xc038 => {
                (BulkCipher::Aes256CbcSha384, SuiteHash::Sha384)
            }
            _ => return None,
        };
        Some(Self { cipher, hash, is_mac_last: false })
    }
}
