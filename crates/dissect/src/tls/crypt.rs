//! Derives keys from secrets and opens records with them.
//!
//! TLS 1.3: RFC 8446 sections 5.2, 5.3, 7.1 to 7.3. TLS 1.2: RFC 5246 sections 5 and 6.3, RFC 5288, RFC 6655, RFC 7905.

use super::cbc::{self, CbcOpener};
use super::keylog::{ClientRandom, TlsSecret};
use super::records::numbered;
use super::suite::{BulkCipher, CipherSuite, SuiteHash};
use aes_gcm::aead::consts::{U8, U12, U16};
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::aead::{AeadInOut, Tag};
use aes_gcm::aes::{Aes128, Aes256};
use aes_gcm::{Aes128Gcm, Aes256Gcm, KeyInit};
use ccm::Ccm;
use chacha20poly1305::ChaCha20Poly1305;
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use overhead_model::Side;
use sha2::{Sha256, Sha384};
use std::fmt;

const NONCE: usize = 12;
/// Length of the largest TLS 1.2 key block: two keys of a MAC, two keys, and two parts of the nonce.
const KEY_BLOCK: usize = 2 * (48 + 32 + NONCE);

trait RecordCipher: Send + Sync {
    /// Decrypts in place. Returns false if the tag is wrong, with `text` unchanged or worthless.
    fn open(&self, nonce: &[u8; NONCE], header: &[u8], text: &mut [u8], tag: &[u8]) -> bool;
}

impl<C: AeadInOut<NonceSize = U12> + Send + Sync> RecordCipher for C {
    fn open(&self, nonce: &[u8; NONCE], header: &[u8], text: &mut [u8], tag: &[u8]) -> bool {
        let Ok(tag) = <&Tag<C>>::try_from(tag) else { return false };
        self.decrypt_inout_detached(nonce.into(), header, InOutBuf::from(text), tag).is_ok()
    }
}

fn cipher(aead: BulkCipher, key: &[u8]) -> Option<Box<dyn RecordCipher>> {
    fn keyed<C: KeyInit + RecordCipher + 'static>(key: &[u8]) -> Option<Box<dyn RecordCipher>> {
        C::new_from_slice(key).ok().map(|cipher| Box::new(cipher) as Box<dyn RecordCipher>)
    }
    match aead {
        BulkCipher::Aes128Gcm => keyed::<Aes128Gcm>(key),
        BulkCipher::Aes256Gcm => keyed::<Aes256Gcm>(key),
        BulkCipher::ChaCha20Poly1305 => keyed::<ChaCha20Poly1305>(key),
        BulkCipher::Aes128Ccm => keyed::<Ccm<Aes128, U16, U12>>(key),
        BulkCipher::Aes256Ccm => keyed::<Ccm<Aes256, U16, U12>>(key),
        BulkCipher::Aes128Ccm8 => keyed::<Ccm<Aes128, U8, U12>>(key),
        BulkCipher::Aes256Ccm8 => keyed::<Ccm<Aes256, U8, U12>>(key),
        _ => None,
    }
}

/// Opens the records of one direction in one epoch.
pub(super) struct RecordOpener {
    protection: Protection,
    pub tag: usize,
    pub explicit: usize,
    is_tls13: bool,
}

enum Protection {
    Aead { cipher: Box<dyn RecordCipher>, iv: [u8; NONCE] },
    Cbc(Box<dyn CbcOpener>),
}

impl fmt::Debug for RecordOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
}

impl RecordOpener {
    /// Returns an opener for TLS 1.3, from a traffic secret.
    pub fn tls13(suite: CipherSuite, secret: &TlsSecret) -> Option<Self> {
        let mut key = [0; 32];
        let key = key.get_mut(..suite.cipher.key_bytes())?;
        expand_label(suite.hash, secret, "key", key)?;
        let mut iv = [0; NONCE];
        expand_label(suite.hash, secret, "iv", &mut iv)?;
        let protection = Protection::Aead { cipher: cipher(suite.cipher, key)?, iv };
        Some(Self { protection, tag: suite.cipher.tag_bytes(), explicit: 0, is_tls13: true })
    }

    /// Returns the opener of what a side sends for TLS 1.2, from the master secret and the randoms of client and server.
    pub fn tls12(suite: CipherSuite, master: &TlsSecret, randoms: [&ClientRandom; 2], side: Side) -> Option<Self> {
        let [client, server] = randoms;
        let (mac, key, fixed) = (suite.cipher.mac_bytes(), suite.cipher.key_bytes(), fixed_bytes(suite.cipher));
        let mut block = [0; KEY_BLOCK];
        let block = block.get_mut(..2 * (mac + key + fixed))?;
        prf(suite.hash, master.bytes(), &[b"key expansion", server, client], block)?;
        let part = |start: usize, len: usize| block.get(2 * start + side as usize * len..)?.get(..len);
        let (mac, key, fixed) = (part(0, mac)?, part(mac, key)?, part(mac + key, fixed)?);
        let protection = if mac.is_empty() {
            let mut iv = [0; NONCE];
            iv.get_mut(..fixed.len())?.copy_from_slice(fixed);
            Protection::Aead { cipher: cipher(suite.cipher, key)?, iv }
        } else {
            Protection::Cbc(cbc::opener(suite, key, mac)?)
        };
        let (tag, explicit) = (suite.cipher.tag_bytes(), suite.cipher.explicit_bytes());
        Some(Self { protection, tag, explicit, is_tls13: false })
    }

    /// Returns the content length for a fragment of this length; `None` if it is too short, or if only its padding shows it.
    pub fn content(&self, fragment: usize) -> Option<usize> {
        match self.protection {
            Protection::Aead { .. } => fragment.checked_sub(self.explicit + self.tag),
            Protection::Cbc(_) => None,
        }
    }

    /// Decrypts record number `sequence` of its epoch into `text`. Returns false if the record has another number or key.
    pub fn open(&self, sequence: u64, header: [u8; 5], fragment: &[u8], text: &mut Vec<u8>) -> bool {
        text.clear();
        let (cipher, iv) = match &self.protection {
            Protection::Aead { cipher, iv } => (cipher, iv),
            Protection::Cbc(opener) => return opener.open(sequence, header, fragment, text).is_some(),
        };
        let Some(content) = self.content(fragment.len()) else { return false };
        let (explicit, sealed) = fragment.split_at(self.explicit);
        let (cipher_text, tag) = sealed.split_at(content);
        let mut nonce = *iv;
        let number = sequence.to_be_bytes();
        if let Some(place) = nonce.get_mut(NONCE - self.explicit..).filter(|place| !place.is_empty()) {
            place.copy_from_slice(explicit);
        } else {
            nonce.iter_mut().skip(NONCE - number.len()).zip(number).for_each(|(byte, part)| *byte ^= part);
        }
        text.extend_from_slice(cipher_text);
        if self.is_tls13 {
            return cipher.open(&nonce, &header, text, tag);
        }
        cipher.open(&nonce, &numbered(sequence, header, content), text, tag)
    }
}

/// Returns the length of the part of the nonce that TLS 1.2 derives from the master secret: none with CBC.
const fn fixed_bytes(cipher: BulkCipher) -> usize {
    NONCE.saturating_sub(cipher.explicit_bytes())
}

/// Returns the traffic secret after a `KeyUpdate` (RFC 8446 section 7.2).
pub(super) fn next_secret(suite: CipherSuite, secret: &TlsSecret) -> Option<TlsSecret> {
    let mut next = [0; 48];
    let next = next.get_mut(..secret.bytes().len())?;
    expand_label(suite.hash, secret, "traffic upd", next)?;
    TlsSecret::new(next)
}

/// Computes HKDF-Expand-Label with an empty context (RFC 8446 section 7.1).
fn expand_label(hash: SuiteHash, secret: &TlsSecret, label: &str, into: &mut [u8]) -> Option<()> {
    let length = u16::try_from(into.len()).ok()?.to_be_bytes();
    let label_length = [u8::try_from(b"tls13 ".len() + label.len()).ok()?];
    let info: [&[u8]; 5] = [&length, &label_length, b"tls13 ", label.as_bytes(), &[0]];
    match hash {
        SuiteHash::Sha256 => Hkdf::<Sha256>::from_prk(secret.bytes()).ok()?.expand_multi_info(&info, into).ok(),
        SuiteHash::Sha384 => Hkdf::<Sha384>::from_prk(secret.bytes()).ok()?.expand_multi_info(&info, into).ok(),
    }
}

/// Computes the TLS 1.2 pseudorandom function; `seed` holds label and seed (RFC 5246 section 5).
fn prf(hash: SuiteHash, secret: &[u8], seed: &[&[u8]], into: &mut [u8]) -> Option<()> {
    match hash {
        SuiteHash::Sha256 => p_hash::<Hmac<Sha256>>(secret, seed, into),
        SuiteHash::Sha384 => p_hash::<Hmac<Sha384>>(secret, seed, into),
    }
}

fn p_hash<M: Mac + KeyInit>(secret: &[u8], seed: &[&[u8]], into: &mut [u8]) -> Option<()> {
    let mac = |parts: &mut dyn Iterator<Item = &[u8]>| {
        let mut mac = <M as KeyInit>::new_from_slice(secret).ok()?;
        parts.for_each(|part| mac.update(part));
        Some(mac.finalize().into_bytes())
    };
    let mut a = mac(&mut seed.iter().copied())?;
    let mut rest = into;
    while !rest.is_empty() {
        let block = mac(&mut std::iter::once(a.as_slice()).chain(seed.iter().copied()))?;
        let (part, after) = rest.split_at_mut(block.len().min(rest.len()));
        part.copy_from_slice(block.get(..part.len())?);
        rest = after;
        a = mac(&mut std::iter::once(a.as_slice()))?;
    }
    Some(())
}

/// Seals records as a TLS library does, for tests.
#[cfg(test)]
pub(super) mod test {
    use super::*;

    pub(crate) struct Sealer {
        suite: CipherSuite,
        /// With CBC, the MAC's key is behind it.
        key: Vec<u8>,
        iv: [u8; NONCE],
        is_tls13: bool,
        sequence: u64,
        /// Zeros after the content (TLS 1.3).
        padding: usize,
    }

    impl Sealer {
        pub fn tls13(suite: CipherSuite, secret: &TlsSecret, padding: usize) -> Self {
            let (mut key, mut iv) = (vec![0; suite.cipher.key_bytes()], [0; NONCE]);
            expand_label(suite.hash, secret, "key", &mut key).unwrap();
            expand_label(suite.hash, secret, "iv", &mut iv).unwrap();
            Self { suite, key, iv, is_tls13: true, sequence: 0, padding }
        }

        pub fn tls12(suite: CipherSuite, master: &TlsSecret, [client, server]: [&ClientRandom; 2]) -> [Self; 2] {
            let (mac, key, fixed) = (suite.cipher.mac_bytes(), suite.cipher.key_bytes(), fixed_bytes(suite.cipher));
            let mut block = vec![0; 2 * (mac + key + fixed)];
            prf(suite.hash, master.bytes(), &[b"key expansion", server, client], &mut block).unwrap();
            [0, 1].map(|side| {
                let mut iv = [0; NONCE];
                iv[..fixed].copy_from_slice(&block[2 * (mac + key) + side * fixed..][..fixed]);
                let key = [&block[2 * mac + side * key..][..key], &block[side * mac..][..mac]].concat();
                Self { suite, key, iv, is_tls13: false, sequence: 0, padding: 0 }
            })
        }

        pub fn seal(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
            let number = self.sequence.to_be_bytes();
            self.sequence += 1;
            if self.suite.cipher.mac_bytes() > 0 {
                let fragment = cbc::test::seal(self.suite, &self.key, number, kind, content);
                return [&[kind, 3, 3], &(fragment.len() as u16).to_be_bytes()[..], &fragment].concat();
            }
            let (explicit, tag) = if self.is_tls13 { (0, self.tag()) } else { (self.explicit(), self.tag()) };
            let mut nonce = self.iv;
            if explicit > 0 {
                nonce[4..].copy_from_slice(&number);
            } else {
                (0..8).for_each(|at| nonce[4 + at] ^= number[at]);
            }
            let inner =
                if self.is_tls13 { [content, &[kind], &vec![0; self.padding]].concat() } else { content.to_vec() };
            let outer = if self.is_tls13 { 23 } else { kind };
            let length = (explicit + inner.len() + tag) as u16;
            let header = [&[outer, 3, 3], &length.to_be_bytes()[..]].concat();
            let aad = if self.is_tls13 {
                header.clone()
            } else {
                [&number[..], &[outer, 3, 3], &(content.len() as u16).to_be_bytes()].concat()
            };
            let nonce_field = if explicit > 0 { number.to_vec() } else { Vec::new() };
            [header, nonce_field, self.encrypt(nonce, &aad, inner)].concat()
        }

        fn explicit(&self) -> usize {
            self.suite.cipher.explicit_bytes()
        }

        fn tag(&self) -> usize {
            self.suite.cipher.tag_bytes()
        }

        fn encrypt(&self, nonce: [u8; NONCE], header: &[u8], text: Vec<u8>) -> Vec<u8> {
            match self.suite.cipher {
                BulkCipher::Aes128Gcm => self.sealed::<Aes128Gcm>(nonce, header, text),
                BulkCipher::Aes256Gcm => self.sealed::<Aes256Gcm>(nonce, header, text),
                BulkCipher::ChaCha20Poly1305 => self.sealed::<ChaCha20Poly1305>(nonce, header, text),
                BulkCipher::Aes128Ccm => self.sealed::<Ccm<Aes128, U16, U12>>(nonce, header, text),
                BulkCipher::Aes256Ccm => self.sealed::<Ccm<Aes256, U16, U12>>(nonce, header, text),
                BulkCipher::Aes128Ccm8 => self.sealed::<Ccm<Aes128, U8, U12>>(nonce, header, text),
                BulkCipher::Aes256Ccm8 => self.sealed::<Ccm<Aes256, U8, U12>>(nonce, header, text),
                _ => panic!("sealed elsewhere"),
            }
        }

        fn sealed<C: KeyInit + AeadInOut<NonceSize = U12>>(
            &self,
            nonce: [u8; NONCE],
            header: &[u8],
            mut text: Vec<u8>,
        ) -> Vec<u8> {
            let cipher = C::new_from_slice(&self.key).unwrap();
            let tag =
                cipher.encrypt_inout_detached(&nonce.into(), header, InOutBuf::from(text.as_mut_slice())).unwrap();
            text.extend_from_slice(&tag);
            text
        }
    }
}
