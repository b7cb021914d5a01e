//! Zones of addresses, such as a cloud's availability zones, and the prices of bytes between them.

use overhead_model::record::Price;
use overhead_report::text::clean;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

/// In a price, stands for any zone, and for addresses without one.
const ANY_ZONE: &str = "*";

/// Names that no zone may have: the second is shown for addresses without a zone.
const RESERVED: [&str; 3] = [ANY_ZONE, "unknown", ""];

/// Length of `::ffff:0:0/96`, the IPv4 addresses within IPv6 (RFC 4291, section 2.5.5.2).
const MAPPED_LENGTH: u8 = 96;

/// A range of addresses. IPv4 is held as IPv4-mapped IPv6: `10.0.0.0/8` is `::ffff:10.0.0.0/104`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ZonePrefix {
    length: u8,
    /// Zero after the length.
    bits: u128,
}

impl ZonePrefix {
    fn new(bits: u128, length: u8) -> Self {
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        Self { length, bits: bits & mask }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let read = || {
            let (address, length) = text.split_once('/').unzip();
            let address: IpAddr = address.unwrap_or(text).parse().ok()?;
            let most: u8 = if address.is_ipv4() { 32 } else { 128 };
            let length = length.map_or(Some(most), |length| length.parse().ok())?;
            (length <= most).then(|| (mapped(address), length + (128 - most)))
        };
        let (bits, length) =
            read().ok_or_else(|| format!("invalid network {text}: use 10.1.0.0/16, 2001:db8::/32 or one address"))?;
        let prefix = Self::new(bits, length);
        if prefix.bits == bits { Ok(prefix) } else { Err(format!("{text} has host bits set: write {prefix}")) }
    }
}

impl fmt::Display for ZonePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Ipv6Addr::from(self.bits).to_canonical() {
            IpAddr::V4(address) => write!(f, "{address}/{}", self.length.saturating_sub(MAPPED_LENGTH)),
            IpAddr::V6(address) => write!(f, "{address}/{}", self.length),
        }
    }
}

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
    .into()
}

/// An entry of `[zones]`, or a line of the zones file.
#[derive(Clone)]
struct ZoneLine<'a> {
    /// File and line, or section and key, for messages.
    place: String,
    network: &'a str,
    zone: &'a str,
}

impl<'a> ZoneLine<'a> {
    /// Parses a line of the zones file; `None` for an empty line and for a comment.
    fn parse(path: &Path, number: usize, line: &'a str) -> Option<Result<Self, String>> {
        let place = format!("{}, line {number}", path.display());
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let network = words.next()?;
        Some(match (words.next(), words.next()) {
            (Some(zone), None) => Ok(Self { place, network, zone }),
            _ => Err(format!("{place}: write a network and its zone, such as 10.1.0.0/16 a")),
        })
    }
}

/// The zones of networks. The longest prefix decides.
#[derive(Clone, Debug, Default)]
pub struct ZoneMap {
    by_length: BTreeMap<u8, HashMap<u128, Arc<str>>>,
    names: BTreeSet<Arc<str>>,
}

impl ZoneMap {
    /// Builds the map from `[zones]`, and from the path and the text of a zones file.
    pub fn new(table: &BTreeMap<String, String>, file: Option<(&Path, &str)>) -> Result<Self, String> {
        let keys =
            table.iter().map(|(network, zone)| Ok(ZoneLine { place: format!("[zones], {network:?}"), network, zone }));
        let (path, text) = file.unwrap_or((Path::new(""), ""));
        let lines = text.lines().enumerate().filter_map(|(index, line)| ZoneLine::parse(path, index + 1, line));
        for line in keys.clone().chain(lines.clone()) {
            let ZoneLine { place, zone, .. } = line?;
            if RESERVED.contains(&zone) {
                return Err(format!("{place}: {zone:?} cannot name a zone: choose another name"));
            }
        }
        Self::from_lines("zone", keys.chain(lines))
    }

    /// Builds a map of names from the networks of `[names]`.
    pub fn from_names(table: &BTreeMap<String, String>) -> Result<Self, String> {
        let lines = table.iter();
        let lines = lines.map(|(network, zone)| Ok(ZoneLine { place: format!("[names], {network:?}"), network, zone }));
        Self::from_lines("name", lines)
    }

    fn from_lines<'a>(what: &str, lines: impl Iterator<Item = Result<ZoneLine<'a>, String>>) -> Result<Self, String> {
        let mut known: HashMap<ZonePrefix, ZoneLine<'_>> = HashMap::new();
        for line in lines {
            let line = line?;
            let prefix = ZonePrefix::parse(line.network).map_err(|error| format!("{}: {error}", line.place))?;
            let first = known.entry(prefix).or_insert_with(|| line.clone());
            if first.zone != line.zone {
                let [zone, place, other] = [line.zone, &first.place, first.zone];
                return Err(format!("{}: {what} {zone}, but {place}, gives it {what} {other}: remove one", line.place));
            }
        }
        let mut map = Self::default();
        for (prefix, line) in known {
            let zone = map.names.get(line.zone).cloned().unwrap_or_else(|| Arc::from(line.zone));
            map.names.insert(Arc::clone(&zone));
            map.by_length.entry(prefix.length).or_default().insert(prefix.bits, zone);
        }
        Ok(map)
    }

    /// Returns the zone of an address; `None` if no prefix covers it. IPv4-mapped IPv6 addresses are IPv4: `::/0` does not
    /// cover them.
    ///
    /// Of both ends of a connection, pass the local addresses of their sockets where this host has the sockets. A peer's
    /// address as the other end sees it may be virtual (a load balancer, a Kubernetes service), in no zone or the wrong one.
    pub fn zone(&self, address: IpAddr) -> Option<&str> {
        let bits = mapped(address);
        let least = if address.to_canonical().is_ipv4() { MAPPED_LENGTH } else { 0 };
        let mut longest_first = self.by_length.range(least..).rev();
        longest_first.find_map(|(length, zones)| zones.get(&ZonePrefix::new(bits, *length).bits)).map(AsRef::as_ref)
    }
}

/// Lists each network with its zone, a line each.
impl fmt::Display for ZoneMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (length, zones) in &self.by_length {
            for (bits, zone) in zones.iter().collect::<BTreeMap<_, _>>() {
                writeln!(f, "zone {}: {}", clean(zone), ZonePrefix { length: *length, bits: *bits })?;
            }
        }
        Ok(())
    }
}

/// The price of bytes that one zone sends to another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ZonePrice {
    from: String,
    to: String,
    #[serde(deserialize_with = "price")]
    price: Price,
}

fn price<'de, D: Deserializer<'de>>(text: D) -> Result<Price, D::Error> {
    quoted(text, "0.01/GB", overhead_report::price)
}

/// Parses a value that must be text. For other types, the error shows the example in quotes.
pub fn quoted<'de, D, T>(value: D, example: &str, parse: fn(&str) -> Result<T, String>) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    let unquoted = |_| D::Error::custom(format!("write it in quotes, as {example:?}"));
    parse(&String::deserialize(value).map_err(unquoted)?).map_err(D::Error::custom)
}

/// Prices between zones. The first that fits decides.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ZonePrices(Vec<ZonePrice>);

/// Lists the prices, a line each.
impl fmt::Display for ZonePrices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(prices) = self;
        let mut lines = prices.iter().map(|ZonePrice { from, to, price }| (clean(from), clean(to), &price.text));
        lines.try_for_each(|(from, to, price)| writeln!(f, "price from {from} to {to}: {price}"))
    }
}

impl ZonePrices {
    /// Rejects prices of zones without a network: they are probably misspelt.
    pub fn check(&self, zones: &ZoneMap) -> Result<(), String> {
        for (index, price) in self.0.iter().enumerate() {
            for (key, zone) in [("from", price.from.as_str()), ("to", &price.to)] {
                if zone != ANY_ZONE && !zones.names.contains(zone) {
                    let fix = "add one to [zones], or write \"*\" for any zone";
                    return Err(format!("[[price]] {}, {key}: no network is in zone {zone}: {fix}", index + 1));
                }
            }
        }
        Ok(())
    }

    /// Returns the price of bytes that an end in the zone `from` sends to an end in the zone `to`; `None` if they have none.
    pub fn price_between(&self, from: Option<&str>, to: Option<&str>) -> Option<&Price> {
        let fits = |wanted: &str, zone: Option<&str>| wanted == ANY_ZONE || zone == Some(wanted);
        self.0.iter().find(|price| fits(&price.from, from) && fits(&price.to, to)).map(|price| &price.price)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zones files and their messages.
    const MISTAKES: &str = r#"10.1.2.3/16 a => zones, line 1: 10.1.2.3/16 has host bits set: write 10.1.0.0/16
10.1.0.1/0 a => zones, line 1: 10.1.0.1/0 has host bits set: write 0.0.0.0/0
2001:db8::1/33 a => zones, line 1: 2001:db8::1/33 has host bits set: write 2001:db8::/33
10.1.0.0/33 a => zones, line 1: invalid network 10.1.0.0/33: use 10.1.0.0/16, 2001:db8::/32 or one address
::/129 a => zones, line 1: invalid network ::/129: use 10.1.0.0/16, 2001:db8::/32 or one address
10.1/16 a => zones, line 1: invalid network 10.1/16: use 10.1.0.0/16, 2001:db8::/32 or one address
10.1.0.0/ a => zones, line 1: invalid network 10.1.0.0/: use 10.1.0.0/16, 2001:db8::/32 or one address
\n10.1.0.0/16 => zones, line 2: write a network and its zone, such as 10.1.0.0/16 a
10.1.0.0/16 a b => zones, line 1: write a network and its zone, such as 10.1.0.0/16 a
10.1.0.0/16 * => zones, line 1: "*" cannot name a zone: choose another name
::1 a\n0:0::1/128 b => zones, line 2: zone b, but zones, line 1, gives it zone a: remove one"#;

    fn map(lines: &str) -> Result<ZoneMap, String> {
        ZoneMap::new(&BTreeMap::new(), Some((Path::new("zones"), lines)))
    }

    #[test]
    fn the_longest_prefix_decides() {
        let zones = "# cloud\n10.0.0.0/8 cloud\n10.1.0.0/16 a # first\n\n10.1.2.3 host\n10.1.2.3/32 host\n\
                     2001:db8::/32 b\n2001:db8:0:1::/64 c\n2001:db8::1 d\n::/0 six\n::ffff:192.168.0.0/112 mapped\n";
        let zones = map(zones).unwrap();
        let cases = [
            ("9.255.255.255", None),
            ("10.0.255.255", Some("cloud")),
            ("10.1.0.0", Some("a")),
            ("10.1.255.255", Some("a")),
            ("10.2.0.0", Some("cloud")),
            ("10.1.2.3", Some("host")),
            ("::ffff:10.1.2.3", Some("host")),
            ("::ffff:10.1.2.4", Some("a")),
            ("::ffff:11.0.0.0", None),
            ("192.168.255.1", Some("mapped")),
            ("2001:db8::1", Some("d")),
            ("2001:db8::2", Some("b")),
            ("2001:db8:0:1:ffff::", Some("c")),
            ("2001:db8:0:2::", Some("b")),
            ("2001:db9::", Some("six")),
        ];
        for (address, zone) in cases {
            assert_eq!(zones.zone(address.parse().unwrap()), zone, "{address}");
        }
        assert_eq!(map("0.0.0.0/0 four").unwrap().zone("192.0.2.1".parse().unwrap()), Some("four"));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for case in MISTAKES.lines() {
            let (lines, message) = case.split_once(" => ").unwrap();
            assert_eq!(map(&lines.replace("\\n", "\n")).unwrap_err(), message);
        }
    }

    #[test]
    fn the_first_price_that_fits_decides() {
        let priced = |from: &str, to: &str, text: &str| ZonePrice {
            from: from.to_owned(),
            to: to.to_owned(),
            price: overhead_report::price(text).unwrap(),
        };
        let prices = [("a", "a", "0/GB"), ("a", "b", "1/GB"), ("a", "*", "2/GB"), ("*", "b", "3/GB")];
        let prices = ZonePrices(prices.map(|(from, to, text)| priced(from, to, text)).into());
        let between = |from, to| prices.price_between(from, to).map(|price| price.text.as_str());
        assert_eq!(between(Some("a"), Some("a")), Some("0/GB"));
        assert_eq!(between(Some("a"), Some("b")), Some("1/GB"));
        assert_eq!(between(Some("b"), Some("a")), None);
        assert_eq!(between(Some("a"), None), Some("2/GB"));
        assert_eq!(between(None, Some("b")), Some("3/GB"));
        assert_eq!(between(None, None), None);
    }

    #[test]
    fn zones_and_prices_are_listed() {
        let zones = map("10.0.0.0/8 cloud\n2001:db8::/32 b\n10.1.0.0/16 a\u{1b}[31m").unwrap();
        assert_eq!(
            zones.to_string(),
            "zone b: 2001:db8::/32\nzone cloud: 10.0.0.0/8\nzone a\\u{1b}[31m: 10.1.0.0/16\n"
        );
        let price = overhead_report::price("0.01/GB").unwrap();
        let prices = ZonePrices(vec![ZonePrice { from: "a".to_owned(), to: "*".to_owned(), price }]);
        assert_eq!(prices.to_string(), "price from a to *: 0.01/GB\n");
    }
}
