//! The chart palette as style sheet variables and classes, for light and dark screens.

use crate::figure::{THEMED, account_colors, dark_colors};
use std::fmt::Write;

/// Returns the variables and the classes for account colours.
pub(super) fn variables() -> String {
    let mut out = String::new();
    let of = |dark: bool| {
        let mut out = String::new();
        for (name, light, night) in THEMED {
            let _ = write!(out, "--{name}:{};", if dark { night } else { light }.hex());
        }
        for (account, light, night) in account_colors() {
            let _ = write!(out, "--a-{account}:{};", if dark { night } else { light }.hex());
            let ink = if dark { night } else { light }.ink_on();
            let _ = write!(out, "--on-{account}:{};", ink.hex());
        }
        out
    };
    // Writing to a string cannot fail.
    let _ = writeln!(out, ":root{{color-scheme:light;{}}}", of(false));
    let _ = writeln!(out, "@media screen{{:root[data-theme=dark]{{color-scheme:dark;{}}}", of(true));
    let mut night = String::new();
    for (class, color) in dark_colors() {
        let _ = write!(night, ":root[data-theme=dark] .{class}{{fill:{}}}", color.hex());
    }
    let _ = writeln!(out, "{night}}}");
    let _ = writeln!(
        out,
        "@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{}}}{}}}",
        of(true),
        night.replace("[data-theme=dark]", ":not([data-theme=light])")
    );
    for (account, ..) in account_colors() {
        let _ = writeln!(out, ".a-{account}{{background:var(--a-{account});color:var(--on-{account})}}");
    }
    out
}
