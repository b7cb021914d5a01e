//! Sums of structs.

/// Adds the named fields of one value to those of another.
#[macro_export]
macro_rules! add_fields {
    ($sum:expr, $more:expr => $($field:ident),+) => {
        $($sum.$field += $more.$field;)+
    };
}

/// Returns the items in order, without duplicates.
pub fn sorted_distinct<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    items.into_iter().collect::<std::collections::BTreeSet<T>>().into_iter().collect()
}
