//! The composition of each server's exact bytes, by pair of zones.

use super::flows::{FlowBook, ZonePair, wire_bytes, zone_pair};
use super::servers::ServerEnd;
use super::windows::{CapturedWindow, WindowPart};
use super::zones::ZoneMap;
use overhead_model::Class;
use overhead_report::composition::{CompositionPeriods, PartTotal, TrafficPart};
use std::collections::BTreeMap;
use std::time::Duration;

/// Pairs of server and zones with a composition. Those that come later have none.
const COMPOSITIONS: usize = 500;

/// Parts whose answers' lengths are remembered.
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
            let has_room = self.0.len() < ANSWERS || self.0.contains_key(*part);
            if count > 0 && has_room && !is_unmatched(part) {
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

/// The connections that share a composition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComposedKey {
    pub server: ServerEnd,
    pub zones: ZonePair,
}

/// A composition, scaled to exact totals.
pub struct ComposedTraffic {
    pub periods: CompositionPeriods,
    /// Exact bytes of the period so far.
    current_bytes: u64,
    answers: AnswerLengths,
    /// Exact bytes of requests and of responses, of all time.
    pub sides: [u64; 2],
}

impl ComposedTraffic {
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
            if let Some(composed) = self.get(key) {
                composed.answers.match_cut(&mut parts);
                composed.periods.add_window(0, parts.into_iter().map(|(part, traffic)| (part, traffic.bytes)));
            }
        }
    }

    /// Sets the exact totals. With the period's length, also ends the period.
    pub fn take_totals(&mut self, book: &FlowBook, period: Option<Duration>) {
        let mut totals = BTreeMap::<ComposedKey, [u64; 2]>::new();
        for (flow, sums) in book.flows() {
            let key = ComposedKey { server: flow.server, zones: flow.zones.clone() };
            let sides = totals.entry(key).or_default();
            sides.iter_mut().zip(wire_bytes(sums)).for_each(|(sum, bytes)| *sum += bytes);
        }
        for (key, sides) in totals {
            if let Some(composed) = self.get(key) {
                let [now, before] = [sides, composed.sides].map(|sides| sides.iter().sum::<u64>());
                composed.current_bytes += now.saturating_sub(before);
                composed.sides = sides;
            }
        }
        let Some(period) = period else { return };
        let covered = std::mem::take(&mut self.covered).as_secs_f64() / period.as_secs_f64().max(f64::MIN_POSITIVE);
        for composed in self.by_key.values_mut() {
            composed.periods.end_period(std::mem::take(&mut composed.current_bytes), covered.min(1.0));
        }
    }

    fn get(&mut self, key: ComposedKey) -> Option<&mut ComposedTraffic> {
        if self.by_key.len() >= COMPOSITIONS && !self.by_key.contains_key(&key) {
            return None;
        }
        let statements = self.statements;
        Some(self.by_key.entry(key).or_insert_with(|| ComposedTraffic {
            periods: CompositionPeriods::new(statements),
            current_bytes: 0,
            answers: AnswerLengths::default(),
            sides: [0; 2],
        }))
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
}
