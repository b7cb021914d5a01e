//! The thirteen accounts of the ledger, in stack order.

use schemars::JsonSchema;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::{AddAssign, Index, IndexMut};

crate::enum_with! {
    /// Where a byte of a captured frame is posted. The identifiers ([`Account::name`]) are stable.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[repr(u8)]
    pub enum Account, name: &'static str {
        /// Link-layer header and trailing padding of frames that carry new payload.
        Link = "link",
        /// IPv4/IPv6 header with options, extension headers and tunnel headers of such frames.
        Ip = "ip",
        /// TCP header with options of such frames.
        Tcp = "tcp",
        /// Whole frames without payload: SYN, ACK, FIN, RST, window updates, keep-alives.
        Control = "control",
        /// Frames, or parts of them, whose payload was seen before.
        Retransmission = "retransmission",
        /// TLS record headers, nonces, tags, padding, handshake and alerts.
        Tls = "tls",
        /// Bytes that delimit and type protocol messages.
        Framing = "framing",
        /// Bytes that steer or identify an operation.
        Metadata = "metadata",
        /// Bytes that describe the shape of the user's data.
        Schema = "schema",
        /// The request itself: SQL, CQL, command words, collection names.
        Query = "query",
        /// The user's own keys, parameters and values.
        Data = "data",
        /// The outcome: tags, counts, errors, warnings.
        Status = "status",
        /// Payload that was not decoded.
        Unknown = "unknown",
    }
}

impl Account {
    pub const COUNT: usize = Self::ALL.len();

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|account| account.name() == name)
    }

    /// Returns whether it is an account of TCP payload (`tls` to `unknown`), whose bytes count once each.
    pub const fn is_payload(self) -> bool {
        self as u8 >= Self::Tls as u8
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One amount, in bytes, per account.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Amounts([u64; Account::COUNT]);

impl Amounts {
    pub const ZERO: Self = Self([0; Account::COUNT]);

    /// Returns amounts that are zero except for one account.
    pub fn new(account: Account, bytes: u64) -> Self {
        let mut amounts = Self::ZERO;
        amounts[account] = bytes;
        amounts
    }

    /// Sums all accounts: wire bytes.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds `other` a number of times.
    #[inline]
    pub fn add_times(&mut self, other: &Self, times: u64) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs * times;
        }
    }

    #[inline]
    pub fn add_payload(&mut self, payload: &PayloadAmounts) {
        for (mine, theirs) in self.0.iter_mut().skip(FIRST_OF_PAYLOAD).zip(payload.0) {
            *mine += theirs;
        }
    }

    /// Returns the additions since `earlier`, account by account.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut added = *self;
        for account in Account::ALL {
            added[account] = added[account].saturating_sub(earlier[account]);
        }
        added
    }

    /// Sums the payload accounts.
    pub fn payload(&self) -> u64 {
        self.0[FIRST_OF_PAYLOAD..].iter().sum()
    }

    /// Iterates over all accounts in stack order, including zeros.
    pub fn iter(&self) -> impl Iterator<Item = (Account, u64)> + '_ {
        Account::ALL.into_iter().zip(self.0.iter().copied())
    }
}

/// One amount, in bytes, per payload account.
#[derive(Clone, Copy, Debug)]
pub struct PayloadAmounts([u64; Account::COUNT - FIRST_OF_PAYLOAD]);

const FIRST_OF_PAYLOAD: usize = Account::Tls as usize;

impl PayloadAmounts {
    pub const ZERO: Self = Self([0; Account::COUNT - FIRST_OF_PAYLOAD]);

    /// Adds `bytes` to `account`, which must be a payload account.
    #[inline]
    pub fn add(&mut self, account: Account, bytes: u64) {
        debug_assert!(account.is_payload(), "{account} is not for payload");
        // Bytes that are added nowhere show up as an imbalance.
        if let Some(amount) = self.0.get_mut((account as usize).wrapping_sub(FIRST_OF_PAYLOAD)) {
            *amount += bytes;
        }
    }
}

/// Compares one by one: amounts that were written a moment ago are slow to load in vectors.
impl PartialEq for Amounts {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(mine, theirs)| mine == theirs)
    }
}

impl Index<Account> for Amounts {
    type Output = u64;
    #[inline]
    fn index(&self, account: Account) -> &u64 {
        &self.0[account as usize]
    }
}

impl IndexMut<Account> for Amounts {
    #[inline]
    fn index_mut(&mut self, account: Account) -> &mut u64 {
        &mut self.0[account as usize]
    }
}

impl AddAssign for Amounts {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

/// As a JSON object with all thirteen names, in stack order.
impl Serialize for Amounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// All thirteen names, as they are written.
impl JsonSchema for Amounts {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Amounts".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        // The descriptions of the accounts are those of their names.
        let described = generator.subschema_for::<Account>();
        let names = Account::ALL.map(Account::name);
        let amount = serde_json::json!({"type": "integer", "format": "uint64", "minimum": 0});
        let properties: serde_json::Map<_, _> = names.iter().map(|name| ((*name).to_owned(), amount.clone())).collect();
        schemars::json_schema!({
            "description": "One amount, in bytes, per account.",
            "type": "object",
            "propertyNames": described,
            "properties": properties,
            "required": names,
        })
    }
}

/// Accounts that are not named are zero; names that are not accounts are ignored, as the contract requires of readers.
impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AmountsVisitor;
        impl<'de> Visitor<'de> for AmountsVisitor {
            type Value = Amounts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of account names and byte counts")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Amounts, M::Error> {
                let mut amounts = Amounts::ZERO;
                while let Some(name) = map.next_key::<String>()? {
                    match Account::from_name(&name) {
                        Some(account) => amounts[account] = map.next_value()?,
                        None => drop(map.next_value::<serde::de::IgnoredAny>()?),
                    }
                }
                Ok(amounts)
            }
        }
        deserializer.deserialize_map(AmountsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_stay_in_stack_order() {
        for (position, account) in Account::ALL.into_iter().enumerate() {
            assert_eq!(account as usize, position);
            assert_eq!(Account::from_name(account.name()), Some(account));
            assert_eq!(serde_json::to_value(account).unwrap(), account.name());
        }
        assert!(!Account::Retransmission.is_payload());
        assert!(Account::Tls.is_payload());
    }

    #[test]
    fn amounts_survive_json_and_ignore_foreign_names() {
        let mut amounts = Amounts::new(Account::Data, 108);
        amounts[Account::Ip] = 20;
        let json = serde_json::to_string(&amounts).unwrap();
        assert!(json.starts_with(r#"{"link":0,"ip":20,"tcp":0"#), "{json}");
        assert_eq!(serde_json::from_str::<Amounts>(&json).unwrap(), amounts);
        let foreign = r#"{"data": 1, "colour": {"red": 2}}"#;
        assert_eq!(serde_json::from_str::<Amounts>(foreign).unwrap().total(), 1);
    }
}
