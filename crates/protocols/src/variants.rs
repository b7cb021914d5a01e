//! Enums with a constant for each variant.

/// Defines an enum, and a method that returns the constant of a variant.
macro_rules! enum_with {
    (
        $(#[$on:meta])* $vis:vis enum $Name:ident, $method:ident: $Constant:ty {
            $($(#[$about:meta])* $Variant:ident = $constant:expr),+ $(,)?
        }
    ) => {
        $(#[$on])*
        $vis enum $Name {
            $($(#[$about])* $Variant),+
        }

        impl $Name {
            #[inline]
            pub const fn $method(self) -> $Constant {
                match self {
                    $(Self::$Variant => $constant),+
                }
            }
        }
    };
}
pub(crate) use enum_with;
