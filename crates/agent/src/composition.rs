//! The composition of each server's exact bytes, by pair of zones.

#[cfg(test)]
mod simulation;

use super::flows::{ComposedKey, ZonePair, add_sides, zone_pair};
use super::servers::ServerEnd;
use super::shares::{RecentUse, beyond};
use super::windows::CapturedWindow;
use super::zones::ZoneMap;
use overhead_report::composition::{CompositionPeriods, WindowSample};
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Most pairs of server and zones with a composition. The least used are added to one of [`ServerEnd::OTHER`].
const COMPOSITIONS: usize = 500;

/// A composition, scaled to exact totals.
#[derive(Serialize, Deserialize)]
pub struct ComposedTraffic {
    pub periods: CompositionPeriods,
    /// Exact bytes of requests and of responses of the period so far.
    current: [u64; 2],
    /// The network namespace of the latest window with its traffic.
    #[serde(skip)]
    network_namespace: u32,
    recent: RecentUse,
}

impl ComposedTraffic {
    fn new(statements: usize) -> Self {
        let (periods, recent) = (CompositionPeriods::new(statements), RecentUse::default());
        Self { periods, current: [0; 2], network_namespace: 0, recent }
    }

    fn absorb(&mut self, other: Self) {
        self.periods.absorb(other.periods);
        add_sides(&mut self.current, other.current);
    }
}

/// The compositions of all servers.
#[derive(Serialize, Deserialize)]
pub struct CompositionBook {
    statements: usize,
    #[serde(with = "overhead_model::pairs")]
    pub by_key: BTreeMap<ComposedKey, ComposedTraffic>,
    /// Time of this period in which windows sampled operations, by network namespace.
    #[serde(skip)]
    covered: HashMap<u32, Duration>,
}

impl CompositionBook {
    /// Keeps this number of statements separate for each server and pair of zones.
    pub fn new(statements: usize) -> Self {
        Self { statements, by_key: BTreeMap::new(), covered: HashMap::new() }
    }

    /// Keeps another number of statements from now on.
    pub fn set_statements(&mut self, statements: usize) {
        self.statements = statements;
        self.by_key.values_mut().for_each(|composed| composed.periods.set_limit(statements));
    }

    /// Keeps the servers apart from those of this start of the host.
    pub fn leave_boot(&mut self) {
        for (key, composed) in std::mem::take(&mut self.by_key) {
            match self.by_key.entry(ComposedKey { server: key.server.before_boot(), ..key }) {
                Entry::Vacant(place) => _ = place.insert(composed),
                Entry::Occupied(mut other) => other.get_mut().absorb(composed),
            }
        }
    }

    /// Resets the sums of [`CompositionPeriods::latest`].
    pub fn clear_latest(&mut self) {
        self.by_key.values_mut().for_each(|composed| composed.periods.clear_latest());
    }

    /// Adds the traffic of a window.
    pub fn add_window(&mut self, window: &CapturedWindow, zones: &ZoneMap) {
        *self.covered.entry(window.number).or_default() += window.sampled;
        let mut by_key = BTreeMap::<ComposedKey, WindowSample>::new();
        for ((server, client), sample) in &window.samples {
            let zones = zone_pair(zones, *client, server.address.ip());
            by_key.entry(ComposedKey { server: *server, zones }).or_default().add(sample);
        }
        for (key, sample) in by_key {
            let composed = self.get(key);
            composed.network_namespace = window.number;
            composed.periods.add_window(&sample);
        }
    }

    /// Adds exact bytes of requests and of responses.
    pub fn take_growth(&mut self, growth: BTreeMap<ComposedKey, [u64; 2]>) {
        self.by_key.values_mut().for_each(|composed| composed.recent.fall());
        for (key, sides) in growth {
            let network_namespace = key.server.network_namespace;
            let composed = self.get(key);
            composed.recent.add(sides.iter().sum(), network_namespace);
            add_sides(&mut composed.current, sides);
        }
        self.evict();
    }

    /// Ends a period of this length. With `keeps_unknown`, bytes that no window shows are part of the next one.
    pub fn end_period(&mut self, period: Duration, keeps_unknown: bool) {
        let covered = std::mem::take(&mut self.covered);
        for composed in self.by_key.values_mut().filter(|composed| !keeps_unknown || composed.periods.is_known()) {
            let covered = covered.get(&composed.network_namespace).copied().unwrap_or_default().as_secs_f64();
            let share = covered / period.as_secs_f64().max(f64::MIN_POSITIVE);
            composed.periods.end_period(std::mem::take(&mut composed.current), share.min(1.0));
        }
    }

    /// Adds compositions beyond the limit to one for all of these, which has no statements.
    fn evict(&mut self) {
        let own = self.by_key.iter().filter(|(key, _)| key.server != ServerEnd::OTHER);
        let uses = own.map(|(key, composed)| (key, key.server.address.ip(), composed.recent));
        for key in beyond(COMPOSITIONS, uses).into_iter().cloned().collect::<Vec<_>>() {
            let Some(composed) = self.by_key.remove(&key) else { continue };
            self.get(ComposedKey { server: ServerEnd::OTHER, zones: ZonePair::default() }).absorb(composed);
        }
    }

    fn get(&mut self, key: ComposedKey) -> &mut ComposedTraffic {
        let statements = self.statements;
        self.by_key.entry(key).or_insert_with(|| ComposedTraffic::new(statements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_report::composition::{PartBytes, TrafficPart};

    /// The first period is short, so few windows may have a server's traffic.
    #[test]
    fn bytes_that_no_window_shows_wait_for_the_second_period() {
        let server = ServerEnd::new("10.0.0.1:6379".parse().unwrap(), 7);
        let key = ComposedKey { server, zones: ZonePair::default() };
        let mut book = CompositionBook::new(5);
        let window = || {
            let bytes = PartBytes { count: 1, wire_bytes: [1, 2] };
            let parts = BTreeMap::from([(TrafficPart::Unfinished, bytes)]);
            let samples = [((server, server.address.ip()), WindowSample { parts, ..WindowSample::default() })].into();
            let (frames, sampled, open) = (2, Duration::from_millis(100), Duration::from_millis(100));
            CapturedWindow { number: 7, samples, sampled, frames, dropped: 0, open, work: Ok(None) }
        };
        for (is_first, totals) in [(true, vec![]), (false, vec![(TrafficPart::Unfinished, 14)])] {
            book.take_growth(BTreeMap::from([(key.clone(), [3, 4])]));
            book.add_window(&window(), &ZoneMap::default());
            book.end_period(Duration::from_secs(10), is_first);
            let parts = book.by_key[&key].periods.totals();
            assert_eq!(parts.into_iter().map(|total| (total.part, total.wire_bytes)).collect::<Vec<_>>(), totals);
        }
    }

    #[test]
    fn servers_of_one_user_cost_no_other_server_its_statements() {
        let key = |server: String| ComposedKey {
            server: ServerEnd::new(server.parse().unwrap(), 7),
            zones: ZonePair::default(),
        };
        let flood = || (0..2 * COMPOSITIONS).map(|number| key(format!("127.{}.{}.2:6379", number / 250, number % 250)));
        let mut book = CompositionBook::new(5);
        for late in [false, true] {
            let mut growth: BTreeMap<_, _> = flood().map(|key| (key, [1_000, 0])).collect();
            growth.extend(late.then(|| (key("10.0.0.1:6379".to_owned()), [3, 4])));
            book.take_growth(growth);
            book.end_period(Duration::from_secs(10), false);
            assert_eq!(book.by_key.len(), COMPOSITIONS + 1);
        }
        let late = book.by_key[&key("10.0.0.1:6379".to_owned())].periods.totals();
        assert_eq!(late.iter().map(|part| part.sides).collect::<Vec<_>>(), [[3, 4]]);
        let parts = book.by_key.values().flat_map(|composed| composed.periods.totals());
        assert_eq!(parts.map(|part| part.wire_bytes).sum::<u64>(), 2_000 * 2 * COMPOSITIONS as u64 + 7);
    }
}
