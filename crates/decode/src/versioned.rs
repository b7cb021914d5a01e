//! Decoder state with a version number.
//!
//! [`Decoder::idle_state`](super::Decoder::idle_state) promises equal postings for equal bytes while its number is the same. A
//! decoder that keeps all its state in a [`Versioned`] and returns [`Versioned::version`] keeps that promise by
//! construction: the state can be read freely, but changed only through the wrapper.

use std::ops::Deref;

/// A value and its version. Equal versions mean equal values.
///
/// A value that changes back still gets a new version, because old values are not kept. State that changes with every
/// request is better encoded in separate bits of the number that [`Decoder::idle_state`](super::Decoder::idle_state) returns.
#[derive(Clone, Debug, Default)]
pub struct Versioned<T> {
    value: T,
    version: u64,
}

impl<T> Versioned<T> {
    /// Returns the value in version 0.
    pub fn new(value: T) -> Self {
        Self { value, version: 0 }
    }

    /// Returns the number of changes so far.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Changes the value. Always increments the version.
    #[inline]
    pub fn change<A>(&mut self, change: impl FnOnce(&mut T) -> A) -> A {
        self.version += 1;
        change(&mut self.value)
    }

    /// Changes the value, and increments the version only if the value differs. Clones the value: for small values.
    #[inline]
    pub fn update<A>(&mut self, change: impl FnOnce(&mut T) -> A) -> A
    where
        T: Clone + PartialEq,
    {
        let before = self.value.clone();
        let result = change(&mut self.value);
        self.version += u64::from(self.value != before);
        result
    }

    /// Sets a part of the value. Increments the version only if the part differs.
    #[inline]
    pub fn put<P: PartialEq>(&mut self, place: impl FnOnce(&mut T) -> &mut P, part: P) {
        let place = place(&mut self.value);
        if *place != part {
            *place = part;
            self.version += 1;
        }
    }
}

impl<T> Deref for Versioned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::Versioned;
    use proptest::prelude::*;

    #[test]
    fn a_change_is_a_new_version_even_where_nothing_came_out_different() {
        let mut value = Versioned::new(vec![1]);
        assert_eq!((value.version(), value.len()), (0, 1));
        assert_eq!(value.change(Vec::pop), Some(1));
        value.change(|_| {});
        assert_eq!((value.version(), value.len()), (2, 0));
    }

    #[test]
    fn putting_the_same_again_is_no_new_version() {
        let mut value = Versioned::new((1, "one".to_owned()));
        value.put(|(_, name)| name, "one".to_owned());
        assert_eq!(value.version(), 0);
        value.put(|(_, name)| name, "two".to_owned());
        assert_eq!((value.version(), value.1.as_str()), (1, "two"));
    }

    #[test]
    fn what_was_before_and_comes_back_has_a_new_version() {
        let mut value = Versioned::new(false);
        value.put(|open| open, true);
        value.put(|open| open, false);
        assert_eq!(value.version(), 2);
        value.update(|open| (*open, *open) = (true, false));
        assert_eq!(value.version(), 2);
    }

    proptest! {
        #[test]
        fn equal_versions_mean_equal_values(steps in prop::collection::vec((0..3u8, 0..4u8, 0..2usize), 0..30)) {
            let mut value = Versioned::new([0u8; 2]);
            let mut seen = vec![(value.version(), *value)];
            for (way, part, place) in steps {
                match way {
                    0 => value.change(|list| list[place] = part),
                    1 => value.update(|list| list[place] = part),
                    _ => value.put(|list| &mut list[place], part),
                }
                seen.push((value.version(), *value));
            }
            for (version, list) in &seen {
                prop_assert!(seen.iter().all(|(other, values)| other != version || values == list));
            }
        }
    }
}
