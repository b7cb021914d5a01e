//! Known values, conservation, and intervals against simulated hours whose composition is known.

use super::*;

mod replay;

fn part(name: &str) -> TrafficPart {
    let (class, protocol) = (Class::Workload, Protocol::Resp);
    TrafficPart::Operations { class, protocol, name: name.to_owned(), statement: String::new() }
}

fn bytes(request: u64, response: u64) -> PartBytes {
    PartBytes { count: 1, wire_bytes: [request, response] }
}

/// Returns the sample of a window with these parts.
fn window<'a>(parts: impl IntoIterator<Item = (&'a TrafficPart, PartBytes)>) -> WindowSample {
    let mut sample = WindowSample::default();
    parts.into_iter().for_each(|(part, bytes)| sample.parts.entry(part.clone()).or_default().add(bytes));
    sample
}

/// Windows with responses of these bytes for `a`, and in total.
fn composition(windows: &[(u64, u64)]) -> Composition {
    let mut composition = Composition::new(10);
    for (of, total) in windows {
        composition.add_window(&window([(&part("a"), bytes(0, *of)), (&part("b"), bytes(0, total - of))]));
    }
    composition
}

/// Returns the ratios of the parts that a composition shows, the others merged.
fn ratios(mut composition: Composition, covered_share: f64) -> Vec<PartRatios> {
    let limit = composition.limit;
    let shown: Vec<TrafficPart> = composition.largest().into_iter().take(limit).map(|(part, _)| part.clone()).collect();
    composition.fold(|part| shown.contains(part));
    composition.ratios(covered_share)
}

fn ratios_of(composition: Composition, covered_share: f64, wanted: &TrafficPart) -> PartRatios {
    ratios(composition, covered_share).into_iter().find(|ratios| ratios.part == *wanted).unwrap()
}

fn is_near(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 1e-5 * wanted.abs().max(1.0), "{found} instead of {wanted}");
}

/// By hand, R = 18 / 60. Beale: 0.3 · (1 + 1.5 · (410 / 1,080 - 1/3)) / (1 + 1.5 · (1,400 / 3,600 - 1/3)). Without a window, the
/// ratios are 14/50, 13/40 and 9/30, and 2/3 of their squared deviations is 0.000677778. Student's t is 4.302653.
#[test]
fn the_share_and_its_error_are_those_computed_by_hand() {
    let windows = composition(&[(4, 10), (5, 20), (9, 30)]);
    let found = ratios_of(windows.clone(), 0.0, &part("a"));
    let error = found.bytes.variance([7.0, 1.0]).sqrt();
    is_near(found.bytes.values[1], 0.296_153_8);
    is_near(error, 0.026_034_17);
    let share = interval(found.bytes.values[1], error, found.freedom);
    is_near(share.high, 0.296_153_8 + 4.302_653 * 0.026_034_17);
    // Three operations in 60 bytes: 50 · (1 + 1.5 · (1/3 - 1/3)) / 1.083333.
    is_near(found.operations.values[1] * 1_000.0, 46.153_85);
    is_near(ratios(windows, 0.0).iter().map(|ratios| ratios.bytes.values[1]).sum(), 1.0);
}

/// The sides' ratios have the same windows. If they are equal, the error of the sum is the sum of the errors.
#[test]
fn sides_are_estimated_separately_and_their_errors_are_correlated() {
    let mut both = Composition::new(10);
    for (of, total) in [(4, 10), (5, 20), (9, 30)] {
        both.add_window(&window([(&part("a"), bytes(2 * of, of)), (&part("b"), bytes(2 * (total - of), total - of))]));
    }
    let found = ratios_of(both, 0.0, &part("a"));
    is_near(found.bytes.values[0], 0.296_153_8);
    is_near(found.bytes.values[1], 0.296_153_8);
    is_near(found.bytes.variance([1_000.0, 10.0]).sqrt(), 1_010.0 * 0.026_034_17);
}

/// Of three windows, two have bytes of an operation that started before, and none follows it to its end.
#[test]
fn operations_that_outlast_the_time_are_unfinished() {
    let mut composition = Composition::new(10);
    for (carried_in, carried_out, unfinished) in [(0, 30, 1), (300, 0, 0), (300, 30, 0)] {
        let parts = window([(&part("a"), bytes(10, 60))]);
        let [carried_in, carried_out] = [carried_in, carried_out].map(|bytes| [0, bytes]);
        composition.add_window(&WindowSample { carried_in, carried_out, unfinished, ..parts });
    }
    let ratio = |composition: &Composition, wanted: &TrafficPart| {
        let found = composition.ratios(1.0).into_iter().find(|found| found.part == *wanted);
        found.map(|found| found.bytes.values)
    };
    let [a, rest] = [part("a"), TrafficPart::Unfinished].map(|wanted| ratio(&composition, &wanted).unwrap());
    is_near(rest[1], 540.0 / 720.0);
    is_near(a[1], 180.0 / 720.0);
    assert_eq!((a[0], rest[0]), (1.0, 0.0));
    // Without such an operation, and without a surplus in most windows, it is the chance of where windows are.
    composition.unfinished = 0;
    assert_eq!(ratio(&composition, &TrafficPart::Unfinished), None);
    for _ in 0..20 {
        composition.add_window(&WindowSample { carried_in: [0, 300], ..window([(&part("a"), bytes(10, 60))]) });
    }
    assert!(ratio(&composition, &TrafficPart::Unfinished).unwrap()[1] > 0.7);
}

#[test]
fn what_was_seen_whole_has_no_error() {
    let found = ratios_of(composition(&[(4, 10), (5, 20), (9, 30)]), 1.0, &part("a"));
    is_near(found.bytes.values[1] * 60.0, 18.0);
    assert!(found.bytes.variance([1.0, 1.0]) <= 0.0);
}

#[test]
fn windows_without_frames_are_no_evidence() {
    let mut one = composition(&[(4, 10)]);
    one.add_window(&WindowSample::default());
    assert_eq!(one.windows(), 1);
}

/// Windows have only responses.
#[test]
fn a_side_that_no_window_shows_is_unknown() {
    let mut periods = CompositionPeriods::new(10);
    for _ in 0..2 {
        periods.add_window(&window([(&part("a"), bytes(0, 5))]));
    }
    periods.end_period([70, 30], 0.0);
    assert_eq!(total(&periods, &part("a")).sides, [0, 30]);
    assert_eq!(total(&periods, &TrafficPart::Unknown).sides, [70, 0]);
}

/// 29 windows have it, and one has another: an interval takes 30 windows, ten of them with the part.
#[test]
fn intervals_take_windows() {
    let mut periods = CompositionPeriods::new(10);
    let mut intervals = Vec::new();
    for number in 0..32 {
        periods.add_window(&window([(&part(if number < 20 { "a" } else { "b" }), bytes(1, 1))]));
        if number % 4 == 3 {
            periods.end_period([10, 10], 0.0);
            intervals.push(periods.totals().iter().filter(|total| total.has_interval).count());
        }
    }
    assert_eq!(intervals, [0, 0, 0, 0, 0, 0, 0, 2]);
    periods.clear_latest();
    (0..2).for_each(|_| periods.add_window(&window([(&part("a"), bytes(1, 1))])));
    periods.end_period([10, 10], 0.0);
    assert_eq!(
        [periods.totals(), periods.latest()].map(|totals| totals.iter().any(|total| total.has_interval)),
        [true, false]
    );
}

/// Merged parts have the same estimate as if the windows had given them as one.
#[test]
fn parts_beyond_the_limit_are_one_with_an_exact_error() {
    let (mut apart, mut merged) = (Composition::new(1), Composition::new(1));
    for (of, b, c) in [(50, 4, 9), (70, 6, 2), (90, 1, 5)] {
        let (of, b, c) = (bytes(0, of), bytes(0, b), bytes(1, c));
        apart.add_window(&window([(&part("a"), of), (&part("b"), b), (&part("c"), c)]));
        merged.add_window(&window([(&part("a"), of), (&TrafficPart::Other, b), (&TrafficPart::Other, c)]));
    }
    assert_eq!(ratios(apart, 0.1), ratios(merged, 0.1));
}

/// The first window fills all places. What finds none stays merged, though it is larger later.
#[test]
fn a_statement_that_never_repeats_takes_no_memory() {
    let mut composition = Composition::new(5);
    for number in 0..1_000 {
        let texts: Vec<_> = (0..20).map(|text| part(&format!("{number} {text}"))).collect();
        let texts = texts.iter().map(|part| (part, bytes(0, 100)));
        composition.add_window(&window(texts.chain([(&part("a"), bytes(0, 500))])));
    }
    assert_eq!(composition.parts.len(), 5 * KEPT_PER_SHOWN + 1);
    assert_eq!(ratios(composition.clone(), 1.0).len(), 6);
    is_near(ratios_of(composition, 1.0, &part("a")).bytes.values[1], 0.2);
}

/// Ends a period with windows of these bytes of `a` and in total.
fn period(periods: &mut CompositionPeriods, windows: &[(u64, u64)], total_bytes: u64) {
    for (of, total) in windows {
        periods.add_window(&window([(&part("a"), bytes(0, *of)), (&part("b"), bytes(0, total - of))]));
    }
    periods.end_period([0, total_bytes], 0.0);
}

/// Prepares counters whose blocks have few windows.
fn short_blocks(limit: usize, least: u64) -> CompositionPeriods {
    let mut periods = CompositionPeriods::new(limit);
    periods.least = least;
    periods
}

fn total(periods: &CompositionPeriods, wanted: &TrafficPart) -> PartTotal {
    periods.totals().into_iter().find(|total| total.part == *wanted).unwrap()
}

/// The share is that of the test above, 0.2961538 with a standard error of 0.0260342. Two periods have independent errors, and
/// Satterthwaite's degrees of freedom are 4, for which Student's t is 2.776445. The third borrows from the second.
#[test]
fn errors_of_periods_add_up_and_borrowed_ones_stay_the_same() {
    let (mut periods, windows) = (short_blocks(10, 3), [(4, 10), (5, 20), (9, 30)]);
    period(&mut periods, &windows, 1_000_000);
    period(&mut periods, &windows, 1_000_000);
    let two = total(&periods, &part("a"));
    assert_eq!(two.wire_bytes, 592_308);
    is_near(two.bytes.standard_error, 26_034.17 * 2.0_f64.sqrt());
    is_near(two.bytes.high - two.bytes.value, 2.776_445 * two.bytes.standard_error);
    assert_eq!(periods.borrowed_bytes(), 0);
    period(&mut periods, &[(10, 10)], 1_000_000);
    let three = total(&periods, &part("a"));
    assert_eq!((three.wire_bytes, periods.borrowed_bytes()), (888_462, 1_000_000));
    is_near(three.bytes.standard_error, 26_034.17 * 5.0_f64.sqrt());
}

/// A period without evidence is unknown; two windows of two thin periods are enough for the second.
#[test]
fn thin_periods_share_their_windows() {
    let mut periods = short_blocks(10, 2);
    period(&mut periods, &[(5, 10)], 100);
    period(&mut periods, &[(5, 10)], 100);
    assert_eq!(total(&periods, &TrafficPart::Unknown).wire_bytes, 100);
    assert_eq!(total(&periods, &TrafficPart::Unknown).sides, [0, 100]);
    assert_eq!(total(&periods, &part("a")).sides, [0, 50]);
    assert_eq!(periods.borrowed_bytes(), 100);
}

#[test]
fn a_new_statement_takes_the_counters_of_the_smallest() {
    let mut periods = short_blocks(2, 2);
    period(&mut periods, &[(2, 10), (2, 10)], 1_000);
    for _ in 0..2 {
        for _ in 0..2 {
            periods.add_window(&window([(&part("new"), bytes(0, 5)), (&part("b"), bytes(0, 5))]));
        }
        periods.end_period([0, 1_000], 0.0);
    }
    let (new, other) = (total(&periods, &part("new")), total(&periods, &TrafficPart::Other));
    assert_eq!((new.wire_bytes, new.since, other.wire_bytes), (1_000, 1, 200));
    assert!(periods.totals().iter().all(|total| total.part != part("a")));
    let latest = |periods: &CompositionPeriods, wanted: &TrafficPart| {
        periods.latest().iter().find(|total| total.part == *wanted).map(|total| total.wire_bytes)
    };
    assert_eq!(latest(&periods, &part("a")), Some(200), "under its own name, though another has its counters");
    periods.clear_latest();
    period(&mut periods, &[(5, 10), (5, 10)], 100);
    assert_eq!((latest(&periods, &part("b")), latest(&periods, &part("new"))), (Some(50), None));
}

/// Whatever happens, the parts add up to the exact totals, and no counter falls.
#[test]
fn every_byte_is_counted_once() {
    let (mut periods, mut random) = (CompositionPeriods::new(8), replay::Random(5));
    let mut before = BTreeMap::new();
    let (mut exact, mut latest_exact) = (0, 0);
    for number in 0..400_u64 {
        for _ in 0..random.below(if number % 3 == 0 { 3 } else { 12 }) {
            let texts: Vec<_> = (0..random.below(40)).map(|_| part(&random.below(30 + number).to_string())).collect();
            let parts: Vec<_> = texts.iter().map(|of| (of, bytes(random.below(500), random.below(90_000)))).collect();
            let carried_in = [random.below(9_000), random.below(3_000_000)];
            periods.add_window(&WindowSample { carried_in, unfinished: random.below(2), ..window(parts) });
        }
        let total = if number % 7 == 0 { 0 } else { random.below(1 << (1 + number % 57)) };
        exact += total;
        let requests = random.below(total + 1);
        periods.end_period([requests, total - requests], 0.01);
        let after: BTreeMap<_, _> = periods.totals().into_iter().map(|total| (total.part.clone(), total)).collect();
        assert_eq!(after.values().map(|total| total.wire_bytes).sum::<u64>(), exact);
        assert!(after.len() <= 11, "{}", after.len());
        latest_exact += total;
        assert_eq!(periods.latest().iter().map(|total| total.wire_bytes).sum::<u64>(), latest_exact);
        assert!(periods.latest().len() <= 8 * KEPT_PER_SHOWN + 3);
        if number % 50 == 49 {
            periods.clear_latest();
            latest_exact = 0;
        }
        for (part, total) in &after {
            let Some(earlier): Option<&PartTotal> = before.get(part) else { continue };
            let falls = total.wire_bytes < earlier.wire_bytes || total.operations.value < earlier.operations.value;
            assert!(!falls || total.since > earlier.since, "{earlier:?} {total:?}");
        }
        before = after;
    }
    assert_eq!(periods.total_bytes(), exact);
}
