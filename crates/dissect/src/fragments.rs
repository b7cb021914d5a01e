//! Reassembles IP packets from their fragments (RFC 791 section 3.2, RFC 8200 section 4.5).
//!
//! A complete set becomes one packet. All other fragments are returned as bytes that belong to nothing: incomplete sets, repeats, and
//! sets with overlapping fragments, which receivers reject (RFC 5722).

use crate::limits;
use crate::packet::{self, Datagram, Fragment, FragmentKey, Packet};
use overhead_model::add_fields;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Sets that wait for their missing fragments.
#[derive(Debug, Default)]
pub struct FragmentSets {
    sets: HashMap<FragmentKey, FragmentSet>,
    /// Keys in order of their first fragment, with its time to distinguish successive sets with the same key.
    ages: VecDeque<(u64, FragmentKey)>,
    kept_bytes: usize,
}

#[derive(Debug)]
struct FragmentSet {
    first_ns: u64,
    parts: BTreeMap<u32, FragmentPart>,
    kept_bytes: usize,
    len: u32,
    /// Length of the whole packet, once the last fragment was seen.
    end: Option<u32>,
    wire_len: u32,
    frames: u32,
    link: u32,
    ip: u32,
    passed: u32,
}

#[derive(Debug)]
struct FragmentPart {
    len: u32,
    bytes: Vec<u8>,
    protocol: u8,
}

/// The result of adding a fragment.
#[derive(Debug, Default)]
struct FragmentOutcome {
    whole: Option<Datagram>,
    /// Bytes of discarded frames.
    discarded: u64,
}

impl FragmentSets {
    /// Adds a fragment; hands any packet it completes to `take`, with its datagram. Returns the bytes of discarded frames.
    pub fn take(&mut self, fragment: &Fragment<'_>, take: impl FnOnce(&Packet<'_>, &Datagram)) -> u64 {
        let FragmentOutcome { mut whole, mut discarded } = self.add(fragment);
        // The header limit ends nested fragmentation.
        while let Some(datagram) = whole {
            match packet::parse_datagram(&datagram) {
                Packet::Fragment(fragment) => {
                    let outcome = self.add(&fragment);
                    discarded += outcome.discarded;
                    whole = outcome.whole;
                }
                packet => {
                    take(&packet, &datagram);
                    break;
                }
            }
        }
        discarded
    }

    fn add(&mut self, fragment: &Fragment<'_>) -> FragmentOutcome {
        let mut discarded = self.expire(fragment.time_ns);
        if !is_sane(fragment) {
            return FragmentOutcome { whole: None, discarded: discarded + u64::from(fragment.wire_len) };
        }
        let key = fragment.key;
        let set = self.sets.entry(key).or_insert_with(|| {
            self.ages.push_back((fragment.time_ns, key));
            FragmentSet::new(fragment.time_ns)
        });
        match set.place(fragment) {
            FragmentFit::Repeat => discarded += u64::from(fragment.wire_len),
            FragmentFit::Conflict => discarded += u64::from(fragment.wire_len) + self.discard(&key),
            FragmentFit::New => {
                set.insert(fragment);
                self.kept_bytes += fragment.bytes.len();
                // The parts never overlap, so their total length decides.
                if set.end == Some(set.len) {
                    let whole = self.remove(&key).map(|set| set.assemble(key, fragment.time_ns));
                    return FragmentOutcome { whole, discarded };
                }
                discarded += self.make_room();
            }
        }
        FragmentOutcome { whole: None, discarded }
    }

    /// Gives up incomplete packets and returns the bytes of their frames.
    pub fn finish(&mut self) -> u64 {
        self.ages.clear();
        std::mem::take(&mut self.sets).values().map(|set| u64::from(set.wire_len)).sum()
    }

    fn remove(&mut self, key: &FragmentKey) -> Option<FragmentSet> {
        let set = self.sets.remove(key)?;
        self.kept_bytes -= set.kept_bytes;
        Some(set)
    }

    fn discard(&mut self, key: &FragmentKey) -> u64 {
        self.remove(key).map_or(0, |set| u64::from(set.wire_len))
    }

    fn expire(&mut self, now_ns: u64) -> u64 {
        let mut discarded = 0;
        while let Some(&(first_ns, _)) = self.ages.front() {
            if now_ns.saturating_sub(first_ns) <= limits::FRAGMENT_NS {
                break;
            }
            discarded += self.discard_oldest();
        }
        discarded
    }

    /// Gives up the oldest sets while the limits are exceeded.
    fn make_room(&mut self) -> u64 {
        let mut discarded = 0;
        while self.kept_bytes > limits::FRAGMENT_BYTES || self.ages.len() > limits::FRAGMENT_SETS {
            discarded += self.discard_oldest();
        }
        discarded
    }

    fn discard_oldest(&mut self) -> u64 {
        let Some((first_ns, key)) = self.ages.pop_front() else {
            // Every set has an age; this ends the loops above in any case.
            self.kept_bytes = 0;
            return 0;
        };
        let same = self.sets.get(&key).is_some_and(|set| set.first_ns == first_ns);
        if same { self.discard(&key) } else { 0 }
    }
}

/// Returns whether a fragment ends within the longest packet and, unless it is the last, consists of 8-byte units.
fn is_sane(fragment: &Fragment<'_>) -> bool {
    let whole_units = fragment.len.is_multiple_of(8) && fragment.len > 0;
    (whole_units || !fragment.more)
        && fragment.offset.checked_add(fragment.len).is_some_and(|end| u16::try_from(end).is_ok())
}

/// How a fragment relates to those before it.
enum FragmentFit {
    New,
    /// Same offset and length as an earlier one.
    Repeat,
    /// Overlaps another, lies beyond the end, gives another end, or is one too many.
    Conflict,
}

impl FragmentSet {
    fn new(first_ns: u64) -> Self {
        let parts = BTreeMap::new();
        Self { first_ns, parts, kept_bytes: 0, len: 0, end: None, wire_len: 0, frames: 0, link: 0, ip: 0, passed: 0 }
    }

    fn place(&self, fragment: &Fragment<'_>) -> FragmentFit {
        let (start, end) = (fragment.offset, fragment.offset + fragment.len);
        if self.parts.get(&start).is_some_and(|part| part.len == fragment.len) {
            return FragmentFit::Repeat;
        }
        let before = self.parts.range(..=start).next_back().map_or(0, |(at, part)| at + part.len);
        let after = self.parts.range(start..).next().map_or(u32::MAX, |(&at, _)| at);
        let ends_elsewhere = match self.end {
            Some(known) if fragment.more => end > known,
            Some(known) => end != known,
            None => !fragment.more && self.parts.last_key_value().is_some_and(|(at, part)| at + part.len > end),
        };
        // The sum overflows if frames claim gigabytes of padding.
        let much = self.parts.len() >= limits::FRAGMENTS || self.wire_len.checked_add(fragment.wire_len).is_none();
        if before > start || after < end || ends_elsewhere || much { FragmentFit::Conflict } else { FragmentFit::New }
    }

    fn insert(&mut self, fragment: &Fragment<'_>) {
        let Fragment { len, protocol, .. } = *fragment;
        self.parts.insert(fragment.offset, FragmentPart { len, bytes: fragment.bytes.to_vec(), protocol });
        self.kept_bytes += fragment.bytes.len();
        self.len += len;
        if !fragment.more {
            self.end = Some(fragment.offset + len);
        }
        add_fields!(self, fragment => wire_len, frames, link, ip);
        self.passed = self.passed.max(fragment.passed);
    }

    /// Returns the packet up to the first byte that was not captured.
    fn assemble(self, key: FragmentKey, time_ns: u64) -> Datagram {
        let protocol = self.parts.first_key_value().map_or(0, |(_, part)| part.protocol);
        let mut bytes = Vec::with_capacity(self.kept_bytes);
        for part in self.parts.values() {
            bytes.extend_from_slice(&part.bytes);
            if part.bytes.len() < part.len as usize {
                break;
            }
        }
        let Self { wire_len, frames, link, ip, len, passed, .. } = self;
        Datagram { key, protocol, time_ns, wire_len, frames, link, ip, len, bytes, passed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn fragment(id: u32, offset: u32, more: bool, bytes: &[u8]) -> Fragment<'_> {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let len = bytes.len() as u32;
        Fragment {
            time_ns: 1,
            wire_len: len + 34,
            frames: 1,
            link: 14,
            ip: 20,
            key: FragmentKey { source: address, destination: address, id, protocol: 6 },
            protocol: 6,
            offset,
            more,
            len,
            bytes,
            passed: 2,
        }
    }

    #[test]
    fn a_set_in_any_order_is_one_packet() {
        let (a, b, c) = ([1; 16], [2; 8], [3; 5]);
        let mut fragments = FragmentSets::default();
        assert!(fragments.add(&fragment(7, 16, true, &b)).whole.is_none());
        assert!(fragments.add(&fragment(7, 24, false, &c)).whole.is_none());
        let whole = fragments.add(&fragment(7, 0, true, &a)).whole.unwrap();
        assert_eq!(whole.bytes, [&a[..], &b, &c].concat());
        assert_eq!((whole.len, whole.link, whole.ip, whole.frames, whole.wire_len), (29, 42, 60, 3, 131));
        assert_eq!((fragments.finish(), fragments.kept_bytes), (0, 0));
    }

    #[test]
    fn a_repeat_is_discarded_and_an_overlap_discards_the_set() {
        let part = [1; 16];
        let mut fragments = FragmentSets::default();
        assert_eq!(fragments.add(&fragment(7, 0, true, &part)).discarded, 0);
        assert_eq!(fragments.add(&fragment(7, 0, true, &part)).discarded, 50);
        assert_eq!(fragments.add(&fragment(7, 8, true, &part)).discarded, 100);
        assert!(fragments.add(&fragment(7, 16, false, &part)).whole.is_none());
        assert_eq!(fragments.finish(), 50);
    }

    #[test]
    fn fragments_that_cannot_be_are_discarded() {
        let mut fragments = FragmentSets::default();
        for odd in [fragment(1, 0, true, &[0; 7]), fragment(1, 0, true, &[]), fragment(1, 65_528, false, &[0; 8])] {
            assert_eq!(fragments.add(&odd).discarded, u64::from(odd.wire_len));
        }
        // Two ends, and one before what was seen.
        assert_eq!(fragments.add(&fragment(2, 8, false, &[0; 8])).discarded, 0);
        assert_eq!(fragments.add(&fragment(2, 16, false, &[0; 8])).discarded, 84);
        assert_eq!(fragments.add(&fragment(3, 16, true, &[0; 8])).discarded, 0);
        assert_eq!(fragments.add(&fragment(3, 0, false, &[0; 8])).discarded, 84);
        assert_eq!(fragments.finish(), 0);
    }

    #[test]
    fn sets_are_given_up_by_age_and_by_number() {
        let mut fragments = FragmentSets::default();
        for id in 0..limits::FRAGMENT_SETS as u32 {
            assert_eq!(fragments.add(&fragment(id, 0, true, &[0; 8])).discarded, 0);
        }
        assert_eq!(fragments.add(&fragment(u32::MAX, 0, true, &[0; 8])).discarded, 42);
        let late = Fragment { time_ns: limits::FRAGMENT_NS + 2, ..fragment(5, 8, false, &[0; 8]) };
        let outcome = fragments.add(&late);
        assert_eq!((outcome.whole.is_none(), outcome.discarded), (true, limits::FRAGMENT_SETS as u64 * 42));
        assert_eq!(fragments.finish(), 42);
    }

    #[test]
    fn what_follows_a_snapped_fragment_is_not_at_hand() {
        let mut fragments = FragmentSets::default();
        let snapped = Fragment { bytes: &[1; 3], ..fragment(7, 0, true, &[1; 8]) };
        fragments.add(&snapped);
        let whole = fragments.add(&fragment(7, 8, false, &[2; 4])).whole.unwrap();
        assert_eq!((whole.bytes, whole.len), (vec![1; 3], 12));
    }

    proptest! {
        /// Each frame's bytes end up in a packet or are returned.
        #[test]
        fn bytes_are_conserved(parts in prop::collection::vec((0u32..3, 0u32..12, any::<bool>(), 0usize..4, 0usize..9), 0..60)) {
            let mut fragments = FragmentSets::default();
            let (mut seen, mut posted) = (0, 0);
            for (id, offset, more, units, rest) in parts {
                let bytes = vec![0; units * 8 + if more { 0 } else { rest }];
                let fragment = fragment(id, offset * 8, more, &bytes);
                seen += u64::from(fragment.wire_len);
                let FragmentOutcome { whole, discarded } = fragments.add(&fragment);
                posted += discarded;
                if let Some(whole) = whole {
                    prop_assert_eq!(whole.link + whole.ip + whole.len, whole.wire_len);
                    prop_assert_eq!(whole.bytes.len() as u32, whole.len);
                    posted += u64::from(whole.wire_len);
                }
            }
            prop_assert_eq!(posted + fragments.finish(), seen);
        }
    }
}
