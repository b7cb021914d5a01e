//! Sums of structs.

/// Adds the named fields of one value to those of another.
#[macro_export]
macro_rules! add_fields {
    ($sum:expr, $more:expr => $($field:ident),+) => {
        $($sum.$field += $more.$field;)+
    };
}
