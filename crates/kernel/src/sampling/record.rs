//! Converts sampled work to the run record.

use super::join::{KindWork, OperationKey, SlotWork};
use super::{CpuWork, OTHER_CALLS};
use crate::convert;
use crate::options::ProcessRole;
use overhead_model::add_fields;
use overhead_model::record::{
    Counters, Measured, OperationKernel, OperationRow, OperationTime, OperationWork, Role as RoleRecord, Run,
    SampledRole, SampledSums, StatementRow, WorkSample,
};
use std::collections::BTreeMap;

/// As in the record: a statement without text, and one that is not shown separately.
const NO_STATEMENT: &str = "(none)";
const OTHER_STATEMENTS: &str = "(other)";

const NOTHING_SAMPLED: &str = "no work of this end was sampled for captured operations";

/// With fewer sampled operations, work per operation is withheld.
const MIN_OPERATIONS: f64 = 100.0;
/// Upper bound on what sampling adds to a system call outside its own clock readings: three program entries.
const MAX_ADDED_NS: f64 = 500.0;
/// If sampled time must be scaled down further than this, the sample was not fair.
const MIN_SCALE: f64 = 0.9;
/// Sampled over counted system calls: above this, the sample was not fair. Below: threads without sockets.
const MAX_CALL_RATIO: f64 = 1.05;
/// Share of slices whose operations may be unknown. Their work is missing from the sums.
const MAX_UNKNOWN: f64 = 0.03;

/// The work of both roles in the sampled windows, by kind of operation.
#[derive(Debug)]
pub struct SampledWork {
    pub(super) kinds: Vec<OperationKey>,
    pub(super) slots: BTreeMap<u32, SlotWork>,
    pub(super) windows: u64,
    pub(super) window_ns: u64,
    pub(super) dropped: u64,
}

#[derive(Debug)]
struct RoleSample {
    /// By kind, with the loop's work outside their rounds.
    kinds: BTreeMap<usize, KindWork>,
    unattributed: CpuWork,
    slices: u64,
    moved: f64,
    unknown: f64,
    /// System calls of all operations, sampled over counted; 1 if they were not counted.
    calls_over_counted: f64,
    /// Absent, with the reason, if the whole run's CPU time was not counted.
    correction: Measured<TimeCorrection>,
}

impl Default for RoleSample {
    fn default() -> Self {
        Self {
            kinds: BTreeMap::new(),
            unattributed: CpuWork::default(),
            slices: 0,
            moved: 0.0,
            unknown: 0.0,
            calls_over_counted: 1.0,
            correction: Measured::unavailable("no counters to compare it with"),
        }
    }
}

/// Corrects sampled time for the cost of sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TimeCorrection {
    /// Subtracted per system call.
    added_ns: f64,
    /// Applied to the rest.
    scale: f64,
}

impl Default for TimeCorrection {
    fn default() -> Self {
        Self { added_ns: 0.0, scale: 1.0 }
    }
}

impl TimeCorrection {
    fn apply(&self, ns: f64, calls: f64) -> f64 {
        (ns - self.added_ns * calls).max(0.0) * self.scale
    }
}

impl SampledWork {
    /// Writes the sampled work into a run whose counters cover the same window.
    pub fn write(&self, run: &mut Run) {
        let mut roles = ProcessRole::ALL.map(|role| self.role_sample(role));
        let of = |counters: &Counters, role: ProcessRole| match role {
            ProcessRole::Server => counters.server.clone(),
            ProcessRole::Client => counters.client.clone(),
        };
        if let Measured::Value(counters) = &run.counters {
            for (sums, role) in roles.iter_mut().zip(ProcessRole::ALL) {
                let mut charged = (0.0, 0.0);
                for row in &run.operations {
                    let (ns, calls) = sums.per_operation(&self.kinds_of(row));
                    charged.0 += ns * row.count as f64;
                    charged.1 += calls * row.count as f64;
                }
                let is_sampled = self.window_ns as f64 / counters.window_ns.max(1) as f64;
                let counters = of(counters, role);
                sums.calls_over_counted = sums.over_counted(&counters, charged.1);
                sums.correction = counted_ns(&counters).map(|ns| sums.correction(ns, charged, is_sampled));
            }
        }
        for row in &mut run.operations {
            self.write_row(row, &roles);
        }
        let Measured::Value(counters) = &mut run.counters else { return };
        let rows = &run.operations;
        let [server, client] = ProcessRole::ALL.map(|role| {
            let sums = &roles[usize::from(role == ProcessRole::Client)];
            sums.to_record(role, rows, &of(counters, role))
        });
        let slices = roles.iter().map(|role| role.slices).sum();
        let sample = WorkSample {
            windows: self.windows,
            window_ns: self.window_ns,
            slices,
            dropped: self.dropped,
            server,
            client,
        };
        counters.by_operation = Measured::Value(sample);
    }

    /// Returns the server's work by operation name, whatever the record holds.
    pub fn server_work(&self) -> BTreeMap<String, OperationWork> {
        let server = self.role_sample(ProcessRole::Server);
        let mut works = BTreeMap::new();
        for (number, kind) in self.kinds.iter().enumerate() {
            if let Measured::Value(work) = server.work(&[number], u64::MAX) {
                works.insert(kind.name.clone(), work);
            }
        }
        works
    }

    /// Sums up a role's slots with operations, and divides each thread's remaining loop work between its operations.
    fn role_sample(&self, role: ProcessRole) -> RoleSample {
        let mut all = RoleSample::default();
        for (_, slot) in self.slots.iter().filter(|(slot, _)| ProcessRole::from_slot(**slot) == Some(role)) {
            if slot.kinds.values().all(|sums| sums.operations == 0.0) {
                continue;
            }
            add_fields!(all, slot => slices, moved, unknown);
            all.unattributed.add(&slot.unattributed, 1.0);
            for (kind, work) in &slot.kinds {
                all.kinds.entry(*kind).or_default().add(work);
            }
            for thread in slot.threads.values() {
                let operations: f64 = thread.operations.values().sum();
                if operations == 0.0 {
                    all.unattributed.add(&thread.shared, 1.0);
                }
                for (kind, part) in thread.operations.iter().filter(|_| operations > 0.0) {
                    all.kinds.entry(*kind).or_default().rounds.add(&thread.shared, part / operations);
                }
            }
        }
        all
    }

    fn kinds_of(&self, row: &OperationRow) -> Vec<usize> {
        let is_of = |kind: &OperationKey| {
            kind.class == row.class
                && kind.name == row.name
                && kind.via == row.via
                && kind.protocol.name() == row.protocol
        };
        (0..self.kinds.len()).filter(|number| is_of(&self.kinds[*number])).collect()
    }

    fn write_row(&self, row: &mut OperationRow, roles: &[RoleSample; 2]) {
        let kinds = self.kinds_of(row);
        row.kernel = Some(kernel(roles, &kinds, row.count));
        if row.statements.len() == 1 {
            row.statements[0].kernel.clone_from(&row.kernel);
            return;
        }
        let texts: Vec<String> = row.statements.iter().map(|statement| statement.text.clone()).collect();
        for statement in &mut row.statements {
            let kinds: Vec<usize> =
                kinds.iter().copied().filter(|number| self.is_statement(*number, statement, &texts)).collect();
            statement.kernel = Some(kernel(roles, &kinds, statement.count));
        }
    }

    /// Returns whether a kind belongs to the row of `statement`. `texts` are all rows' texts.
    fn is_statement(&self, number: usize, statement: &StatementRow, texts: &[String]) -> bool {
        let text = match &*self.kinds[number].statement {
            "" => NO_STATEMENT,
            text => text,
        };
        let is_shown = texts.iter().any(|shown| shown == text);
        statement.text == if is_shown { text } else { OTHER_STATEMENTS }
    }
}

fn kernel(roles: &[RoleSample; 2], kinds: &[usize], count: u64) -> OperationKernel {
    let [server, client] = roles.each_ref().map(|role| role.work(kinds, count));
    OperationKernel { server, client }
}

/// Returns a role's CPU time over the whole run, unless it is withheld.
fn counted_ns(role: &Measured<RoleRecord>) -> Measured<f64> {
    let role = role.as_result().and_then(|role| role.withheld.as_deref().map_or(Ok(role), Err));
    let time = role.and_then(|role| role.on_cpu_ns.as_result());
    time.map(|time| (time.user + time.kernel) as f64).into()
}

impl RoleSample {
    /// Returns the sampled CPU time and system calls per operation, including the loop's; 0 if none was sampled.
    fn per_operation(&self, kinds: &[usize]) -> (f64, f64) {
        let charged = || kinds.iter().filter_map(|kind| self.kinds.get(kind));
        let operations: f64 = charged().map(|kind| kind.operations).sum();
        let ns: f64 = charged().map(KindWork::ns).sum();
        let calls: f64 = charged().map(KindWork::calls).sum();
        if operations > 0.0 { (ns / operations, calls / operations) } else { (0.0, 0.0) }
    }

    /// Returns the correction by which the operations' time and system calls (`charged`) match the time counted over
    /// the whole run, of which the part `is_sampled` (0 to 1) was sampled.
    ///
    /// Sampling adds time to each system call that it cannot measure itself; the counted time includes it only in the
    /// sampled part. A larger difference than that can explain means that the sample was not fair. A larger counted
    /// time belongs to threads that touch no socket, and to no operation.
    fn correction(&self, counted_ns: f64, charged: (f64, f64), is_sampled: f64) -> TimeCorrection {
        let (charged_ns, calls) = charged;
        let operations: f64 = self.kinds.values().map(KindWork::ns).sum();
        if charged_ns <= 0.0 || operations <= 0.0 || calls <= 0.0 {
            return TimeCorrection::default();
        }
        let counted_ns = counted_ns * operations / (operations + self.unattributed.ns);
        let unsampled_calls = calls * (1.0 - is_sampled.clamp(0.0, 0.9));
        let added_ns = ((charged_ns - counted_ns) / unsampled_calls).clamp(0.0, MAX_ADDED_NS);
        let (undisturbed_ns, corrected_ns) =
            (counted_ns - added_ns * (calls - unsampled_calls), charged_ns - added_ns * calls);
        TimeCorrection { added_ns, scale: (undisturbed_ns / corrected_ns.max(1.0)).clamp(0.0, 1.0) }
    }

    /// Returns why so many sampled operations are too few; `None` if they suffice.
    fn unfit_reason(&self, sampled: f64) -> Option<String> {
        if self.kinds.is_empty() {
            return Some(NOTHING_SAMPLED.to_owned());
        }
        if sampled < MIN_OPERATIONS {
            let sampled = sampled.round();
            return Some(format!("{sampled} of its operations were sampled; {MIN_OPERATIONS} are needed"));
        }
        if self.unknown > self.moved * MAX_UNKNOWN {
            let part = (100.0 * self.unknown / self.moved).round();
            return Some(format!(
                "the operation of {part}% of the sampled calls is unknown: it started long before the window, or its frames were not captured"
            ));
        }
        (self.calls_over_counted > MAX_CALL_RATIO).then(|| {
            let part = (100.0 * self.calls_over_counted).round();
            format!("the sampled system calls are {part}% of all calls counted over the run: the sample was not fair")
        })
    }

    /// Returns the work per operation of some kinds. The run has `of` such operations.
    fn work(&self, kinds: &[usize], of: u64) -> Measured<OperationWork> {
        let mut all = KindWork::default();
        kinds.iter().filter_map(|kind| self.kinds.get(kind)).for_each(|work| all.add(work));
        let (sampled, operations) = (all.sampled, all.operations);
        if let Some(reason) = self.unfit_reason(sampled) {
            return Measured::unavailable(reason);
        }
        let calls = |work: &CpuWork| {
            let mut named = BTreeMap::<String, f64>::new();
            for (number, count) in &work.calls {
                let name = convert::syscall_name(usize::from(*number), usize::from(OTHER_CALLS));
                *named.entry(name).or_default() += count / operations;
            }
            named
        };
        let time = self.correction.as_result().map_err(str::to_owned).and_then(|correction| {
            if correction.scale < MIN_SCALE {
                let part = (100.0 / correction.scale).round();
                return Err(format!(
                    "the sampled time comes to {part}% of what was counted over the whole run: the sample was not fair"
                ));
            }
            let ns = |ns: f64, work: &CpuWork| correction.apply(ns, work.count()) / operations;
            Ok(OperationTime {
                on_cpu_ns: ns(all.own.ns, &all.own),
                in_calls_ns: ns(all.own.in_calls_ns, &all.own),
                shared_ns: ns(all.rounds.ns, &all.rounds),
            })
        });
        Measured::Value(OperationWork {
            sampled: (sampled.round() as u64).min(of),
            of,
            time: time.into(),
            syscalls: calls(&all.own),
            shared_syscalls: calls(&all.rounds),
            divided: if all.own.ns > 0.0 { all.divided_ns / all.own.ns } else { 0.0 },
        })
    }

    /// Returns the ratio of sampled to counted system calls.
    fn over_counted(&self, counters: &Measured<RoleRecord>, charged: f64) -> f64 {
        let Some(role) = counters.value().filter(|role| role.withheld.is_none()) else { return 1.0 };
        let counted: u64 = role.syscalls.values().map(|call| call.count).sum();
        let operations: f64 = self.kinds.values().map(KindWork::calls).sum();
        let all = operations + self.unattributed.count();
        if counted == 0 || all <= 0.0 { 1.0 } else { charged / (counted as f64 * operations / all) }
    }

    fn corrected_by(&self, of: fn(&TimeCorrection) -> f64) -> Measured<f64> {
        self.correction.as_result().map(of).into()
    }

    fn to_record(
        &self,
        role: ProcessRole,
        rows: &[OperationRow],
        counters: &Measured<RoleRecord>,
    ) -> Measured<SampledRole> {
        if self.kinds.is_empty() {
            return Measured::unavailable(NOTHING_SAMPLED);
        }
        let sums = |quantity: fn(&CpuWork) -> f64| {
            let charged =
                |of: fn(&KindWork) -> &CpuWork| self.kinds.values().map(|kind| quantity(of(kind))).sum::<f64>();
            SampledSums {
                operations: charged(|kind| &kind.own).round() as u64,
                shared: charged(|kind| &kind.rounds).round() as u64,
                unattributed: quantity(&self.unattributed).round() as u64,
            }
        };
        let works = rows.iter().filter_map(|row| {
            let kernel = row.kernel.as_ref()?;
            let work = if role == ProcessRole::Server { &kernel.server } else { &kernel.client };
            Some((work.value()?, row.count as f64))
        });
        let (ns, calls) = works.fold((0.0, 0.0), |(ns, calls), (work, count)| {
            (ns + work.time.value().map_or(0.0, OperationTime::total_ns) * count, calls + work.calls() * count)
        });
        let rest = |counted: Option<f64>, charged: f64| match (counters, counted) {
            (Measured::Value(RoleRecord { withheld: Some(reason), .. }), _) => Measured::unavailable(reason.clone()),
            (Measured::Value(_), Some(counted)) => Measured::Value((counted - charged).round() as i64),
            (Measured::Value(_), None) => Measured::unavailable("it was not counted over the whole run"),
            (Measured::Unavailable { unavailable }, _) => Measured::unavailable(unavailable.clone()),
        };
        let role = counters.value();
        let counted_ns = role.and_then(|role| role.on_cpu_ns.value()).map(|time| (time.user + time.kernel) as f64);
        let counted_calls = role.map(|role| role.syscalls.values().map(|call| call.count).sum::<u64>() as f64);
        let operations: f64 = self.kinds.values().map(|kind| kind.sampled).sum();
        Measured::Value(SampledRole {
            operations: operations.round() as u64,
            on_cpu_ns: sums(|work| work.ns),
            syscalls: sums(CpuWork::count),
            added_ns: self.corrected_by(|correction| correction.added_ns),
            scale: self.corrected_by(|correction| correction.scale),
            unknown: if self.moved > 0.0 { self.unknown / self.moved } else { 0.0 },
            rest_ns: rest(counted_ns, ns),
            rest_syscalls: rest(counted_calls, calls),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(operations_ns: f64, unattributed_ns: f64) -> RoleSample {
        let own = CpuWork { ns: operations_ns, calls: BTreeMap::from([(0, 400.0)]), ..CpuWork::default() };
        let sums = KindWork { sampled: 200.0, operations: 200.0, own, ..KindWork::default() };
        RoleSample {
            kinds: BTreeMap::from([(0, sums)]),
            unattributed: CpuWork { ns: unattributed_ns, ..CpuWork::default() },
            ..RoleSample::default()
        }
    }

    #[test]
    fn what_sampling_adds_is_subtracted_by_call() {
        // 1,000 operations of 4 ns and 2 calls; a fifth of the sampled time belongs to no operation; half of the run was
        // sampled.
        let mut role = role(800.0, 200.0);
        assert_eq!(role.per_operation(&[0]), (4.0, 2.0));
        let correction = role.correction(4_500.0, (4_000.0, 2_000.0), 0.5);
        // 4,000 = true + 2,000 added; 0.8 * 4,500 = true + 1,000 added.
        assert_eq!(correction, TimeCorrection { added_ns: 0.4, scale: 1.0 });
        role.correction = Measured::Value(correction);
        let time = role.work(&[0], 1_000).value().unwrap().time.clone();
        assert!((time.value().unwrap().on_cpu_ns - 3.2).abs() < 1e-9, "{time:?}");
    }

    #[test]
    fn sampled_time_is_never_scaled_up_and_no_more_is_subtracted_than_sampling_can_add() {
        let role = role(1000.0, 0.0);
        assert_eq!(role.correction(9_000.0, (4_000.0, 2_000.0), 0.0), TimeCorrection::default());
        let most = role.correction(8e6, (10e6, 2_000.0), 0.0);
        assert_eq!((most.added_ns, (most.scale * 9e6).round()), (MAX_ADDED_NS, 8e6));
    }

    #[test]
    fn figures_are_of_enough_operations_in_a_fair_sample() {
        let mut role = role(800.0, 0.0);
        let time = |role: &RoleSample| role.work(&[0], 1_000).value().unwrap().time.clone();
        role.correction = Measured::Value(TimeCorrection { added_ns: 0.0, scale: 0.95 });
        assert_eq!(time(&role).value().map(|time| time.on_cpu_ns), Some(3.8));
        role.correction = Measured::Value(TimeCorrection { added_ns: 0.0, scale: 0.5 });
        assert_eq!(
            time(&role),
            Measured::unavailable(
                "the sampled time comes to 200% of what was counted over the whole run: the sample was not fair"
            )
        );
        role.correction = Measured::unavailable("not counted");
        assert_eq!(time(&role), Measured::unavailable("not counted"));
        (role.moved, role.unknown) = (100.0, 4.0);
        assert_eq!(
            role.work(&[0], 1_000),
            Measured::unavailable(
                "the operation of 4% of the sampled calls is unknown: it started long before the window, or its frames were not captured"
            )
        );
        role.unknown = 3.0;
        role.calls_over_counted = 1.1;
        assert_eq!(
            role.work(&[0], 1_000),
            Measured::unavailable(
                "the sampled system calls are 110% of all calls counted over the run: the sample was not fair"
            )
        );
        role.calls_over_counted = 1.0;
        assert!(role.work(&[0], 1_000).value().is_some());
        role.kinds.get_mut(&0).unwrap().sampled = 99.0;
        let reason = "99 of its operations were sampled; 100 are needed";
        assert_eq!(role.work(&[0], 1_000), Measured::unavailable(reason));
    }
}
