//! Greeting, login and the fields of authentication ("Connection Phase" in `MySQL`'s manual).

use super::session::Session;
use super::wire::{capability, lenenc, lenenc_text, nul_text, u16_at, u32_at};
use overhead_decode::{Cursor, FieldRead, Reader, Short};
use overhead_model::{Account, Side};

/// Length of the first part of a greeting's random data.
const SCRAMBLE: u64 = 8;
/// Length of `SSLRequest`, and of the fixed part of a login.
pub(super) const LOGIN: u64 = 32;
/// The fixed part before version 4.1.
const OLD_LOGIN: u64 = 5;

/// Posts a greeting of protocol version 10 or 9.
pub(super) fn greeting<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, server: &mut Option<u64>) -> FieldRead {
    let protocol = c.u8(Account::Framing, "protocol version")?;
    let version = nul_text(c, Account::Metadata, "server version")?;
    software(c, version);
    c.skip(4, Account::Metadata, "thread id")?;
    if protocol < 10 {
        nul_text(c, Account::Metadata, "random data")?;
        *server = Some(0);
        return Ok(());
    }
    c.skip(SCRAMBLE, Account::Metadata, "random data")?;
    c.skip(1, Account::Framing, "filler")?;
    let low = c.array(Account::Metadata, "capabilities").map(u16::from_le_bytes)?;
    let mut capabilities = u64::from(low);
    *server = Some(capabilities);
    if c.remaining() == 0 {
        return Ok(());
    }
    c.skip(1, Account::Metadata, "character set")?;
    c.skip(2, Account::Status, "status flags")?;
    let high = c.array(Account::Metadata, "capabilities").map(u16::from_le_bytes)?;
    capabilities |= u64::from(high) << 16;
    let data = c.u8(Account::Framing, "length of random data")?;
    c.skip(6, Account::Framing, "filler")?;
    if capabilities & capability::LONG_PASSWORD == 0 && capabilities & capability::PROTOCOL_41 != 0 {
        let extended = c.u32_le(Account::Metadata, "capabilities of MariaDB")?;
        capabilities |= u64::from(extended) << 32;
    } else {
        c.skip(4, Account::Framing, "filler")?;
    }
    *server = Some(capabilities);
    if capabilities & (capability::SECURE_CONNECTION | capability::PLUGIN_AUTH) == 0 {
        c.rest(Account::Framing, "filler");
        return Ok(());
    }
    let second = u64::from(data).saturating_sub(SCRAMBLE).max(13).min(c.remaining());
    c.skip(second.saturating_sub(1), Account::Metadata, "random data")?;
    c.skip(second.min(1), Account::Framing, "terminator")?;
    if c.remaining() > 0 {
        nul_text(c, Account::Metadata, "authentication plugin")?;
    }
    Ok(())
}

/// Reports the server's product, from its version text.
fn software<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, version: &[u8]) {
    let version = String::from_utf8_lossy(version.get(..64).unwrap_or(version));
    let (name, version) = product(&version);
    c.out().software(Side::Response, name);
    c.out().software_version(Side::Response, version);
}

/// Returns name and version of the product. Compatible servers prepend the `MySQL` version they are compatible with,
/// and `MariaDB` a 5 for old clients.
pub(super) fn product(version: &str) -> (&'static str, &str) {
    let behind = |mark: &str| version.split_once(mark).map(|(_, own)| own.trim_start_matches(['-', '_', ' ']));
    for (mark, name) in
        [("TiDB", "TiDB"), ("OceanBase", "OceanBase"), ("TDDL", "PolarDB-X"), ("PolarDB-X", "PolarDB-X")]
    {
        if let Some(own) = behind(mark) {
            return (name, if own.is_empty() { version } else { own });
        }
    }
    if version.contains("MariaDB") || version.contains("-mariadb") {
        return ("MariaDB", version.strip_prefix("5.5.5-").unwrap_or(version));
    }
    ("MySQL", version)
}

/// Returns whether the client's first packet, which has `len` bytes, requests TLS. The login follows inside it.
pub(super) fn requests_tls(payload: &[u8], len: u64) -> bool {
    let flags = u64::from(u16_at(payload, 0).unwrap_or_default());
    let is_short = len == if flags & capability::PROTOCOL_41 == 0 { OLD_LOGIN } else { LOGIN };
    is_short && flags & capability::SSL != 0
}

/// Posts the fixed part of a login, which is all of a TLS request; returns the client's capabilities.
pub(super) fn fixed<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> FieldRead<u64> {
    let low = u64::from(u16_at(c.peek(), 0).ok_or(Short)?);
    if low & capability::PROTOCOL_41 == 0 {
        c.skip(2, Account::Metadata, "capabilities")?;
        c.skip(3, Account::Metadata, "longest packet")?;
        return Ok(low);
    }
    let mut capabilities = u64::from(c.u32_le(Account::Metadata, "capabilities")?);
    c.skip(4, Account::Metadata, "longest packet")?;
    c.skip(1, Account::Metadata, "character set")?;
    c.skip(19, Account::Framing, "filler")?;
    if capabilities & capability::LONG_PASSWORD == 0 {
        capabilities |= u64::from(u32_at(c.peek(), 0).unwrap_or_default()) << 32;
        c.skip(4, Account::Metadata, "capabilities of MariaDB")?;
    } else {
        c.skip(4, Account::Framing, "filler")?;
    }
    Ok(capabilities)
}

/// Posts a login after its fixed part. Clients may omit empty fields at the end.
pub(super) fn login<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, capabilities: u64) -> FieldRead {
    let has = |flag| capabilities & flag != 0;
    nul_text(c, Account::Metadata, "user name")?;
    let is_new = has(capability::PROTOCOL_41);
    if is_new && has(capability::LENENC_AUTH) {
        optional(c, |c| lenenc_text(c, Account::Metadata, "authentication data").map(|_| ()))?;
    } else if is_new && has(capability::SECURE_CONNECTION) {
        optional(c, counted_authentication)?;
    } else {
        nul_text(c, Account::Metadata, "authentication data")?;
    }
    if has(capability::CONNECT_WITH_DB) {
        optional(c, |c| nul_text(c, Account::Metadata, "database name").map(|_| ()))?;
    }
    if has(capability::PLUGIN_AUTH) {
        optional(c, |c| nul_text(c, Account::Metadata, "authentication plugin").map(|_| ()))?;
    }
    if has(capability::CONNECT_ATTRS) {
        optional(c, attributes)?;
    }
    if has(capability::ZSTD) {
        optional(c, |c| c.skip(1, Account::Metadata, "compression level"))?;
    }
    if !has(capability::CONNECT_WITH_DB) && c.peek() == [0] {
        // Some clients send an empty database name with a terminator.
        c.skip(1, Account::Framing, "terminator")?;
    }
    Ok(())
}

/// Posts `COM_CHANGE_USER` after its command byte.
pub(super) fn change_user<R: Reader>(c: &mut Cursor<'_, '_, '_, R>, session: &Session) -> FieldRead {
    nul_text(c, Account::Metadata, "user name")?;
    if session.has(capability::SECURE_CONNECTION) == Some(false) {
        nul_text(c, Account::Metadata, "authentication data")?;
    } else {
        optional(c, counted_authentication)?;
    }
    optional(c, |c| nul_text(c, Account::Metadata, "database name").map(|_| ()))?;
    optional(c, |c| c.skip(2.min(c.remaining()), Account::Metadata, "character set"))?;
    if session.has(capability::PLUGIN_AUTH) != Some(false) {
        optional(c, |c| nul_text(c, Account::Metadata, "authentication plugin").map(|_| ()))?;
    }
    if session.has(capability::CONNECT_ATTRS) != Some(false) {
        optional(c, attributes)?;
    }
    Ok(())
}

/// Reads a field that may be omitted at the end.
fn optional<'a, 'o, 'r, R: Reader>(
    c: &mut Cursor<'a, 'o, 'r, R>,
    read: impl FnOnce(&mut Cursor<'a, 'o, 'r, R>) -> FieldRead,
) -> FieldRead {
    if c.remaining() == 0 { Ok(()) } else { read(c) }
}

fn counted_authentication<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    let len = c.u8(Account::Framing, "length")?;
    c.skip(u64::from(len), Account::Metadata, "authentication data")
}

fn attributes<R: Reader>(c: &mut Cursor<'_, '_, '_, R>) -> FieldRead {
    let len = lenenc(c, Account::Framing, "length")?;
    let behind = c.remaining().checked_sub(len).ok_or(Short)?;
    c.out().enter("attributes");
    let (mut name, mut version) = (&b""[..], &b""[..]);
    while c.remaining() > behind {
        let key = lenenc_text(c, Account::Metadata, "name")?;
        let value = lenenc_text(c, Account::Metadata, "value")?;
        match key {
            b"_client_name" => name = value,
            b"_client_version" => version = value,
            _ => {}
        }
    }
    c.out().leave();
    let text = |bytes| std::str::from_utf8(bytes).ok().filter(|text: &&str| !text.is_empty() && text.len() <= 64);
    if let Some(name) = text(name) {
        c.out().software(Side::Request, name);
        if let Some(version) = text(version) {
            c.out().software_version(Side::Request, version);
        }
    }
    Ok(())
}
