//! Opens the records of TLS 1.2 suites with CBC and a MAC (RFC 5246 section 6.2.3.2, RFC 7366).
//!
//! ```text
//! initialization vector 16 | encrypted: content | MAC | padding u8 × n | n u8
//! initialization vector 16 | encrypted: content | padding u8 × n | n u8 | MAC    with encrypt_then_mac
//! ```

use super::records::numbered;
use super::suite::{BulkCipher, CipherSuite};
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::aes::cipher::{BlockCipherDecrypt, BlockModeDecrypt, InnerIvInit};
use aes_gcm::aes::{Aes128, Aes256};
use cbc::Decryptor;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha384};

/// Length of the initialization vector, and of a block.
const BLOCK: usize = 16;

/// Opens records of a direction. Puts the content into `text`; returns `None` if the record has another number or key.
pub(super) trait CbcOpener: Send + Sync {
    fn open(&self, sequence: u64, header: [u8; 5], fragment: &[u8], text: &mut Vec<u8>) -> Option<()>;
}

struct CbcCipher<C, M> {
    cipher: C,
    mac: M,
    is_mac_last: bool,
}

impl<C, M> CbcOpener for CbcCipher<C, M>
where
    C: BlockCipherDecrypt + Clone + Send + Sync,
    Decryptor<C>: InnerIvInit<Inner = C> + BlockModeDecrypt,
    M: Mac + Clone + Send + Sync,
{
    fn open(&self, sequence: u64, header: [u8; 5], fragment: &[u8], text: &mut Vec<u8>) -> Option<()> {
        let mac_bytes = M::output_size();
        let last = if self.is_mac_last { mac_bytes } else { 0 };
        let (sealed, mac) = fragment.split_at_checked(fragment.len().checked_sub(last)?)?;
        let (iv, encrypted) = sealed.split_at_checked(BLOCK)?;
        text.clear();
        text.extend_from_slice(encrypted);
        let (blocks, rest) = InOutBuf::from(text.as_mut_slice()).into_chunks();
        if !rest.is_empty() {
            return None;
        }
        Decryptor::inner_iv_slice_init(self.cipher.clone(), iv).ok()?.decrypt_blocks_inout(blocks);
        let padding = *text.last()?;
        let (content, padded) = text.split_at_checked(text.len().checked_sub(usize::from(padding) + 1)?)?;
        if padded.iter().any(|byte| *byte != padding) {
            return None;
        }
        let (content, mac) = if self.is_mac_last {
            (content, mac)
        } else {
            content.split_at_checked(content.len().checked_sub(mac_bytes)?)?
        };
        let signed = if self.is_mac_last { sealed } else { content };
        let mut expected = self.mac.clone();
        expected.update(&numbered(sequence, header, signed.len()));
        expected.update(signed);
        expected.verify_slice(mac).ok()?;
        let content = content.len();
        text.truncate(content);
        Some(())
    }
}

/// Returns an opener for these keys; `None` if the suite has no CBC.
pub(super) fn opener(suite: CipherSuite, key: &[u8], mac_key: &[u8]) -> Option<Box<dyn CbcOpener>> {
    fn keyed<C, M>(suite: CipherSuite, key: &[u8], mac_key: &[u8]) -> Option<Box<dyn CbcOpener>>
    where
        C: KeyInit,
        M: Mac + KeyInit,
        CbcCipher<C, M>: CbcOpener + 'static,
    {
        let cipher = <C as KeyInit>::new_from_slice(key).ok()?;
        let mac = <M as KeyInit>::new_from_slice(mac_key).ok()?;
        Some(Box::new(CbcCipher { cipher, mac, is_mac_last: suite.is_mac_last }))
    }
    match suite.cipher {
        BulkCipher::Aes128CbcSha1 => keyed::<Aes128, Hmac<Sha1>>(suite, key, mac_key),
        BulkCipher::Aes256CbcSha1 => keyed::<Aes256, Hmac<Sha1>>(suite, key, mac_key),
        BulkCipher::Aes128CbcSha256 => keyed::<Aes128, Hmac<Sha256>>(suite, key, mac_key),
        BulkCipher::Aes256CbcSha256 => keyed::<Aes256, Hmac<Sha256>>(suite, key, mac_key),
        BulkCipher::Aes256CbcSha384 => keyed::<Aes256, Hmac<Sha384>>(suite, key, mac_key),
        _ => None,
    }
}

/// Seals records as a TLS library does, for tests.
#[cfg(test)]
pub(super) mod test {
    use super::*;
    use aes_gcm::aes::cipher::{BlockCipherEncrypt, BlockModeEncrypt, KeyIvInit};

    /// Returns a fragment with twice the padding it needs, or nearly.
    pub(crate) fn seal(suite: CipherSuite, keys: &[u8], number: [u8; 8], kind: u8, content: &[u8]) -> Vec<u8> {
        let (key, mac_key) = keys.split_at(suite.cipher.key_bytes());
        let mac = |of: &[u8]| {
            let text = [&number[..], &[kind, 3, 3], &(of.len() as u16).to_be_bytes()[..], of].concat();
            match suite.cipher.mac_bytes() {
                20 => code::<Hmac<Sha1>>(mac_key, &text),
                32 => code::<Hmac<Sha256>>(mac_key, &text),
                _ => code::<Hmac<Sha384>>(mac_key, &text),
            }
        };
        let mut text = if suite.is_mac_last { content.to_vec() } else { [content, &mac(content)].concat() };
        let padding = 2 * BLOCK - text.len() % BLOCK;
        text.extend(vec![padding as u8 - 1; padding]);
        let iv = [number, number].concat();
        let encrypted =
            if key.len() == 16 { encrypt::<Aes128>(key, &iv, text) } else { encrypt::<Aes256>(key, &iv, text) };
        let sealed = [iv, encrypted].concat();
        let last = if suite.is_mac_last { mac(&sealed) } else { Vec::new() };
        [sealed, last].concat()
    }

    fn code<M: Mac + KeyInit>(key: &[u8], text: &[u8]) -> Vec<u8> {
        let mut mac = <M as KeyInit>::new_from_slice(key).unwrap();
        mac.update(text);
        mac.finalize().into_bytes().to_vec()
    }

    fn encrypt<C>(key: &[u8], iv: &[u8], mut text: Vec<u8>) -> Vec<u8>
    where
        C: BlockCipherEncrypt,
        cbc::Encryptor<C>: KeyIvInit + BlockModeEncrypt,
    {
        let (blocks, _) = InOutBuf::from(text.as_mut_slice()).into_chunks();
        cbc::Encryptor::<C>::new_from_slices(key, iv).unwrap().encrypt_blocks_inout(blocks);
        text
    }
}
