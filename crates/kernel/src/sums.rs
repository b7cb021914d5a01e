//! Sums of counters, and their differences.

use crate::skeleton::types;
use overhead_model::record::Softirq;
use std::collections::BTreeMap;

/// Counters that only grow.
pub(crate) trait CounterSum {
    fn add(&mut self, more: &Self);
    /// Returns what was counted after `then`.
    fn since(&self, then: &Self) -> Self;
}

impl CounterSum for u64 {
    fn add(&mut self, more: &Self) {
        *self += more;
    }

    fn since(&self, then: &Self) -> Self {
        self.saturating_sub(*then)
    }
}

/// By position. A missing counter is 0.
impl<T: CounterSum + Clone + Default> CounterSum for Vec<T> {
    fn add(&mut self, more: &Self) {
        self.resize(more.len().max(self.len()), T::default());
        self.iter_mut().zip(more).for_each(|(sum, more)| sum.add(more));
    }

    fn since(&self, then: &Self) -> Self {
        let none = T::default();
        let then = then.iter().chain(std::iter::repeat(&none));
        self.iter().zip(then).map(|(now, then)| now.since(then)).collect()
    }
}

impl<T: CounterSum + Default> CounterSum for BTreeMap<u32, T> {
    fn add(&mut self, more: &Self) {
        for (number, more) in more {
            self.entry(*number).or_default().add(more);
        }
    }

    fn since(&self, then: &Self) -> Self {
        let none = T::default();
        self.iter().map(|(number, now)| (*number, now.since(then.get(number).unwrap_or(&none)))).collect()
    }
}

/// For structs whose fields are all counters.
macro_rules! counter_sums {
    ($($type:ty { $($field:ident),+ $(,)? })+) => {$(
        impl $crate::sums::CounterSum for $type {
            fn add(&mut self, more: &Self) {
                $(self.$field.add(&more.$field);)+
            }

            fn since(&self, then: &Self) -> Self {
                Self { $($field: self.$field.since(&then.$field)),+ }
            }
        }
    )+};
}
pub(crate) use counter_sums;

counter_sums! {
    types::call { count, errors, timed, timed_ns }
    types::usage { cpu_ns, user_ns, system_ns, voluntary, involuntary, migrations, faults }
    types::socket_use { send_calls, send_bytes, recv_calls, recv_bytes }
    types::cycle_use { user, kernel, enabled_ns, running_ns, missed }
    Softirq { rx_count, rx_ns, tx_count, tx_ns }
}
