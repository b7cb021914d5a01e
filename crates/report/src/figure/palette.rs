//! Colours. Account families share a hue: headers grey, waste red, protocol blue to green, user data amber. Neighbours in the
//! stack differ in lightness, so their order is legible without colour vision.

use overhead_model::Account;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rgb(pub u8, pub u8, pub u8);

pub(crate) const PAPER: Rgb = Rgb(255, 255, 255);
pub(crate) const INK: Rgb = Rgb(26, 26, 26);
pub(crate) const MUTED: Rgb = Rgb(89, 89, 89);
pub(crate) const GRID: Rgb = Rgb(224, 224, 224);
pub(crate) const AXIS: Rgb = Rgb(150, 150, 150);
pub(crate) const ABSENT: Rgb = Rgb(244, 244, 242);
pub(crate) const WARNING: Rgb = Rgb(163, 38, 30);

/// Text colours on light and dark parts of a bar, regardless of background.
const ON_LIGHT: Rgb = Rgb(24, 24, 24);
const ON_DARK: Rgb = Rgb(254, 254, 254);

/// Named colours of everything except data, for light and dark screens. Only the page uses the last two: links and focus.
pub(crate) const THEMED: [(&str, Rgb, Rgb); 9] = [
    ("paper", PAPER, Rgb(23, 25, 29)),
    ("ink", INK, Rgb(232, 232, 230)),
    ("muted", MUTED, Rgb(168, 170, 174)),
    ("grid", GRID, Rgb(54, 57, 63)),
    ("axis", AXIS, Rgb(116, 120, 128)),
    ("absent", ABSENT, Rgb(34, 37, 42)),
    ("warning", WARNING, Rgb(255, 150, 134)),
    ("link", Rgb(20, 88, 160), Rgb(138, 190, 248)),
    ("focus", Rgb(204, 92, 0), Rgb(255, 176, 80)),
];

/// Data colours that are hard to see on a dark screen, with lighter replacements of the same hue.
pub(super) const ON_A_DARK_SCREEN: [(Rgb, Rgb); 5] = [
    (account(Account::Framing), Rgb(58, 104, 168)),
    (account(Account::Retransmission), Rgb(196, 58, 52)),
    (account(Account::Unknown), Rgb(122, 98, 146)),
    (KERNEL, Rgb(58, 108, 158)),
    (Rgb(60, 60, 60), Rgb(205, 205, 205)),
];

pub(crate) const USER: Rgb = Rgb(156, 198, 224);
pub(crate) const KERNEL: Rgb = Rgb(46, 94, 140);

/// Line colours in legend order: hues that readers with colour blindness can distinguish.
pub(crate) const LINES: [Rgb; 8] = [
    Rgb(0, 114, 178),
    Rgb(213, 94, 0),
    Rgb(0, 158, 115),
    Rgb(204, 121, 167),
    Rgb(230, 159, 0),
    Rgb(86, 180, 233),
    Rgb(60, 60, 60),
    Rgb(150, 150, 150),
];

/// System calls, each with a fixed colour and stack position in every chart. Receiving is blue, sending orange, waiting green,
/// registration and setup pale, so that they recede, synchronisation and sleep pink, files and memory brown; lightness varies
/// within a family.
/// Unlisted calls are drawn together.
pub(crate) const SYSCALLS: [(&str, Rgb); 35] = [
    ("read", Rgb(119, 170, 221)),
    ("recvfrom", Rgb(173, 208, 240)),
    ("recvmsg", Rgb(96, 150, 205)),
    ("readv", Rgb(205, 228, 248)),
    ("recvmmsg", Rgb(140, 196, 222)),
    ("write", Rgb(238, 136, 102)),
    ("sendto", Rgb(250, 190, 150)),
    ("sendmsg", Rgb(226, 120, 80)),
    ("writev", Rgb(253, 218, 194)),
    ("sendfile", Rgb(243, 160, 124)),
    ("epoll_wait", Rgb(68, 187, 153)),
    ("epoll_pwait", Rgb(122, 210, 180)),
    ("epoll_pwait2", Rgb(160, 224, 200)),
    ("poll", Rgb(150, 200, 90)),
    ("ppoll", Rgb(187, 204, 51)),
    ("select", Rgb(205, 220, 120)),
    ("pselect6", Rgb(222, 232, 160)),
    ("io_uring_enter", Rgb(100, 180, 120)),
    ("epoll_ctl", Rgb(232, 228, 216)),
    ("accept4", Rgb(222, 214, 184)),
    ("connect", Rgb(242, 238, 200)),
    ("setsockopt", Rgb(210, 202, 160)),
    ("futex", Rgb(255, 170, 187)),
    ("sched_yield", Rgb(255, 205, 216)),
    ("nanosleep", Rgb(240, 140, 165)),
    ("clock_nanosleep", Rgb(232, 160, 190)),
    ("getpid", Rgb(214, 190, 226)),
    ("clock_gettime", Rgb(196, 166, 214)),
    ("gettimeofday", Rgb(226, 208, 236)),
    ("fsync", Rgb(200, 160, 120)),
    ("fdatasync", Rgb(214, 178, 142)),
    ("pread64", Rgb(188, 150, 116)),
    ("pwrite64", Rgb(226, 198, 168)),
    ("lseek", Rgb(236, 216, 192)),
    ("madvise", Rgb(204, 186, 160)),
];
pub(crate) const OTHER_SYSCALLS: Rgb = Rgb(187, 187, 187);

pub(crate) const fn account(account: Account) -> Rgb {
    match account {
        Account::Link => Rgb(112, 112, 112),
        Account::Ip => Rgb(158, 158, 158),
        Account::Tcp => Rgb(204, 204, 204),
        Account::Control => Rgb(226, 148, 130),
        Account::Retransmission => Rgb(158, 32, 32),
        Account::Tls => Rgb(184, 160, 208),
        Account::Framing => Rgb(28, 69, 120),
        Account::Metadata => Rgb(98, 160, 212),
        Account::Schema => Rgb(184, 218, 240),
        Account::Query => Rgb(0, 128, 120),
        Account::Data => Rgb(242, 176, 30),
        Account::Status => Rgb(112, 178, 128),
        Account::Unknown => Rgb(38, 38, 38),
    }
}

impl Rgb {
    /// Returns the colour's variant for a dark screen.
    pub(crate) fn dark(self) -> Self {
        let themed = THEMED.iter().map(|(_, light, dark)| (light, dark));
        let data = ON_A_DARK_SCREEN.iter().map(|(light, dark)| (light, dark));
        themed.chain(data).find(|(light, _)| **light == self).map_or(self, |(_, dark)| *dark)
    }

    /// Returns the colour in the notation of style sheets and SVG.
    pub(crate) fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }

    /// Returns the relative luminance as WCAG 2.2 defines it, 0 to 1.
    pub(crate) fn luminance(self) -> f64 {
        let linear = |channel: u8| {
            let c = f64::from(channel) / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }

    /// Returns the contrast ratio as WCAG 2.2 defines it, 1 to 21.
    pub(crate) fn contrast(self, other: Self) -> f64 {
        let (a, b) = (self.luminance() + 0.05, other.luminance() + 0.05);
        a.max(b) / a.min(b)
    }

    /// Returns black or white, whichever is more legible on this colour.
    pub(crate) fn ink_on(self) -> Self {
        if self.contrast(ON_LIGHT) >= self.contrast(ON_DARK) { ON_LIGHT } else { ON_DARK }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_differ_in_lightness() {
        for pair in Account::ALL.windows(2) {
            let contrast = account(pair[0]).contrast(account(pair[1]));
            assert!(contrast > 1.3, "{} and {}: {contrast:.2}", pair[0], pair[1]);
        }
        // These become neighbours without `tls` and `retransmission`, which are rare.
        for (a, b) in
            [(Account::Control, Account::Framing), (Account::Tcp, Account::Framing), (Account::Framing, Account::Data)]
        {
            assert!(account(a).contrast(account(b)) > 1.3, "{a} and {b}");
        }
        assert!(USER.contrast(KERNEL) > 3.0);
    }

    #[test]
    fn each_system_call_has_one_colour_of_its_own() {
        for (at, (name, color)) in SYSCALLS.iter().enumerate() {
            for (other, another) in SYSCALLS.iter().take(at) {
                assert_ne!(name, other);
                let apart = |a: u8, b: u8| u32::from(a.abs_diff(b));
                let distance = apart(color.0, another.0) + apart(color.1, another.1) + apart(color.2, another.2);
                assert!(distance >= 20, "{name} and {other} look alike");
            }
        }
    }

    #[test]
    fn text_can_be_read() {
        for account in Account::ALL.map(account).into_iter().chain(SYSCALLS.map(|(_, color)| color)).chain([
            OTHER_SYSCALLS,
            USER,
            KERNEL,
        ]) {
            assert!(account.contrast(account.ink_on()) >= 4.5, "{account:?}");
        }
        for theme in [|color: Rgb| color, Rgb::dark] {
            for ink in [INK, MUTED, WARNING, THEMED[7].1].map(theme) {
                assert!(ink.contrast(theme(PAPER)) >= 4.5 && ink.contrast(theme(ABSENT)) >= 4.5, "{ink:?}");
            }
        }
    }

    #[test]
    fn a_dark_screen_shows_all_that_paper_does() {
        let paper = PAPER.dark();
        assert!(paper.luminance() < 0.02 && INK.dark().contrast(paper) > 12.0);
        let data = Account::ALL.map(account).into_iter().chain([USER, KERNEL]).chain(LINES);
        for color in data {
            let dark = color.dark();
            assert!(dark.contrast(paper) >= 3.0, "{color:?} as {dark:?}: {:.2}", dark.contrast(paper));
        }
        for color in Account::ALL.map(account).into_iter().chain([USER, KERNEL]).map(Rgb::dark) {
            assert!(color.contrast(color.ink_on()) >= 4.5, "{color:?}");
        }
        for pair in Account::ALL.windows(2) {
            let contrast = account(pair[0]).dark().contrast(account(pair[1]).dark());
            assert!(contrast > 1.2, "{} and {}: {contrast:.2}", pair[0], pair[1]);
        }
    }
}
