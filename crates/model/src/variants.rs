//! Enums with a constant for each variant.

/// Defines an enum, a list of its variants, and a method that returns the constant of a variant.
#[macro_export]
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

        #[allow(dead_code, reason = "some enums need no list")]
        impl $Name {
            /// All variants, in the order of their declaration.
            $vis const ALL: [Self; [$(Self::$Variant),+].len()] = [$(Self::$Variant),+];

            /// Returns the constant of this variant.
            #[inline]
            $vis const fn $method(self) -> $Constant {
                match self {
                    $(Self::$Variant => $constant),+
                }
            }
        }
    };
}
