//! The composition of each server's exact bytes, by pair of zones.

use super::flows::{ComposedKey, ZonePair, add_sides, zone_pair};
use super::servers::ServerEnd;
use super::shares::{RecentUse, beyond};
use super::windows::{CapturedWindow, WindowPart};
use super::zones::ZoneMap;
use overhead_model::Class;
use overhead_report::composition::{CompositionPeriods, PartTotal, TrafficPart};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most pairs of server and zones with a composition. The least used are added to one of [`ServerEnd::OTHER`].
const COMPOSITIONS: usize = 500;

/// Parts above which the lengths of the rarest answers are forgotten.
const ANSWERS: usize = 1000;

type WindowParts<'a> = BTreeMap<&'a TrafficPart, WindowPart>;

/// Lengths of answers, to attribute answers that the start of a window cut from their requests.
///
/// A window cuts operations at both ends: at its start it has only the answer, at its end only the request. Under a steady load,
/// both are alike. So the unmatched answers of a window are attributed to the statements of its unanswered requests, up to the bytes
/// that these still expect. The rest stays unmatched: answers that take longer than a window.
#[derive(Default)]
struct AnswerLengths(BTreeMap<TrafficPart, [u64; 2]>);

impl AnswerLengths {
    /// Learns from answers in the window, and moves the unmatched ones to the parts of cut requests.
    fn match_cut(&mut self, parts: &mut WindowParts<'_>) {
        for (part, traffic) in parts.iter() {
            let count = traffic.bytes.count - traffic.cut;
            let bytes = traffic.bytes.wire_bytes[1].saturating_sub(traffic.cut_bytes);
            if count > 0 && !is_unmatched(part) {
                if self.0.len() >= ANSWERS && !self.0.contains_key(*part) {
                    self.0.values_mut().flatten().for_each(|value| *value /= 2);
                    self.0.retain(|_, [count, _]| *count > 0);
                }
                let [counts, sum] = self.0.entry((*part).clone()).or_default();
                (*counts, *sum) = (*counts + count, *sum + bytes);
            }
        }
        let expected = |part: &TrafficPart, traffic: &WindowPart| {
            let [count, bytes] = self.0.get(part).copied().unwrap_or([1, 0]);
            (traffic.cut as f64 * bytes as f64 / count as f64 - traffic.cut_bytes as f64).max(0.0)
        };
        let answer = |traffic: &WindowPart| traffic.bytes.wire_bytes[1] as f64;
        let unmatched: f64 = parts.iter().filter(|(part, _)| is_unmatched(part)).map(|(_, part)| answer(part)).sum();
        let wanted: f64 = parts.iter().map(|(part, traffic)| expected(part, traffic)).sum();
        if unmatched <= 0.0 || wanted <= 0.0 {
            return;
        }
        let moved = unmatched.min(wanted);
        for (part, traffic) in parts.iter_mut() {
            let bytes = if is_unmatched(part) {
                answer(traffic) * (1.0 - moved / unmatched)
            } else {
                answer(traffic) + expected(part, traffic) / wanted * moved
            };
            traffic.bytes.wire_bytes[1] = bytes.round() as u64;
        }
    }
}

fn is_unmatched(part: &TrafficPart) -> bool {
    matches!(part, TrafficPart::Operations { class: Class::Unmatched, .. })
}

/// A composition, scaled to exact totals.
pub struct ComposedTraffic {
    pub periods: CompositionPeriods,
    /// Exact bytes of the period so far.
    current_bytes: u64,
    answers: AnswerLengths,
    /// Exact bytes of requests and of responses, of all time.
    pub sides: [u64; 2],
    recent: RecentUse,
}

impl ComposedTraffic {
    fn new(statements: usize) -> Self {
        let (periods, answers) = (CompositionPeriods::new(statements), AnswerLengths::default());
        Self { periods, current_bytes: 0, answers, sides: [0; 2], recent: RecentUse::default() }
    }

    /// Returns the bytes of a part's requests and responses. An unknown part is divided as all bytes are.
    pub fn sides(&self, part: &PartTotal) -> [u64; 2] {
        part.sides.unwrap_or_else(|| {
            let [request, all] = [self.sides[0], self.sides.iter().sum()].map(u128::from);
            let request = u128::from(part.wire_bytes) * request / all.max(1);
            let request = u64::try_from(request).unwrap_or(part.wire_bytes);
            [request, part.wire_bytes - request]
        })
    }
}

/// The compositions of all servers.
pub struct CompositionBook {
    statements: usize,
    by_key: BTreeMap<ComposedKey, ComposedTraffic>,
    /// Time in windows of this period.
    covered: Duration,
}

impl CompositionBook {
    /// Keeps this number of statements separate for each server and pair of zones.
    pub fn new(statements: usize) -> Self {
        Self { statements, by_key: BTreeMap::new(), covered: Duration::ZERO }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ComposedKey, &ComposedTraffic)> {
        self.by_key.iter()
    }

    /// Resets the sums of [`CompositionPeriods::latest`].
    pub fn clear_latest(&mut self) {
        self.by_key.values_mut().for_each(|composed| composed.periods.clear_latest());
    }

    /// Adds the traffic of a window.
    pub fn add_window(&mut self, window: &CapturedWindow, zones: &ZoneMap) {
        self.covered += window.open;
        let mut by_key = BTreeMap::<ComposedKey, WindowParts<'_>>::new();
        for ((server, client), parts) in &window.parts {
            let zones = zone_pair(zones, *client, server.address.ip());
            let sums = by_key.entry(ComposedKey { server: *server, zones }).or_default();
            for (part, bytes) in parts {
                sums.entry(part).or_default().add(bytes);
            }
        }
        for (key, mut parts) in by_key {
            let composed = self.get(key);
            composed.answers.match_cut(&mut parts);
            composed.periods.add_window(0, parts.into_iter().map(|(part, traffic)| (part, traffic.bytes)));
        }
    }

    /// Adds exact bytes of requests and of responses. With the period's length, also ends the period.
    pub fn take_growth(&mut self, growth: BTreeMap<ComposedKey, [u64; 2]>, period: Option<Duration>) {
        self.by_key.values_mut().for_each(|composed| composed.recent.fall());
        for (key, sides) in growth {
            let (bytes, network_namespace) = (sides.iter().sum(), key.server.network_namespace);
            let composed = self.get(key);
            composed.current_bytes += bytes;
            composed.recent.add(bytes, network_namespace);
            add_sides(&mut composed.sides, sides);
        }
        self.evict();
        let Some(period) = period else { return };
        let covered = std::mem::take(&mut self.covered).as_secs_f64() / period.as_secs_f64().max(f64::MIN_POSITIVE);
        for composed in self.by_key.values_mut() {
            composed.periods.end_period(std::mem::take(&mut composed.current_bytes), covered.min(1.0));
        }
    }

    /// Adds compositions beyond the limit to one for all of these, which has no statements.
    fn evict(&mut self) {
        let own = self.by_key.iter().filter(|(key, _)| key.server != ServerEnd::OTHER);
        let uses = own.map(|(key, composed)| (key, key.server.address.ip(), composed.recent));
        for key in beyond(COMPOSITIONS, uses).into_iter().cloned().collect::<Vec<_>>() {
            let Some(ComposedTraffic { periods, current_bytes, sides, .. }) = self.by_key.remove(&key) else {
                continue;
            };
            let other = self.get(ComposedKey { server: ServerEnd::OTHER, zones: ZonePair::default() });
            other.periods.absorb(periods);
            other.current_bytes += current_bytes;
            add_sides(&mut other.sides, sides);
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
    use overhead_model::Protocol;
    use overhead_report::composition::PartBytes;

    fn part(class: Class, name: &str) -> TrafficPart {
        let (name, statement) = (name.to_owned(), String::new());
        TrafficPart::Operations { class, protocol: Protocol::Resp, name, statement }
    }

    fn window(count: u64, wire_bytes: [u64; 2], cut: u64) -> WindowPart {
        WindowPart { bytes: PartBytes { count, wire_bytes }, cut, cut_bytes: 0 }
    }

    /// Answers of 100 B to GET, and of 10 B to SET, of which the window's end has cut three and two.
    #[test]
    fn answers_without_requests_belong_to_requests_without_answers() {
        let (get, set, rest) =
            (part(Class::Workload, "GET"), part(Class::Workload, "SET"), part(Class::Unmatched, "RESPONSE"));
        let matched = |unmatched: u64| {
            let answered = window(13, [130, 1_000], 3);
            let mut parts = BTreeMap::from([
                (&get, answered),
                (&set, window(4, [40, 20], 2)),
                (&rest, window(5, [0, unmatched], 0)),
            ]);
            AnswerLengths::default().match_cut(&mut parts);
            [&get, &set, &rest].map(|part| parts[part].bytes.wire_bytes[1])
        };
        assert_eq!(matched(320), [1_300, 40, 0]);
        assert_eq!(matched(160), [1_150, 30, 0], "in proportion to what they expect");
        assert_eq!(matched(1_000), [1_300, 40, 680], "the rest is of other operations");
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
            book.take_growth(growth, Some(Duration::from_secs(10)));
            assert_eq!(book.iter().count(), COMPOSITIONS + 1);
        }
        assert_eq!(book.by_key[&key("10.0.0.1:6379".to_owned())].sides, [3, 4]);
        let parts = book.iter().flat_map(|(_, composed)| composed.periods.totals());
        assert_eq!(parts.map(|part| part.wire_bytes).sum::<u64>(), 2_000 * 2 * COMPOSITIONS as u64 + 7);
    }

    #[test]
    fn many_statements_cost_no_other_the_length_of_its_answers() {
        let (rare, late): (Vec<_>, _) = (
            (0..ANSWERS).map(|number| part(Class::Workload, &number.to_string())).collect(),
            part(Class::Workload, "GET"),
        );
        let mut lengths = AnswerLengths::default();
        lengths.match_cut(&mut rare.iter().map(|part| (part, window(1, [1, 1], 0))).collect());
        lengths.match_cut(&mut BTreeMap::from([(&late, window(9, [9, 90], 0))]));
        assert_eq!((lengths.0.get(&late), lengths.0.len()), (Some(&[9, 90]), 1));
    }
}
