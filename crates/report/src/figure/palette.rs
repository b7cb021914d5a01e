//! Colours. Families of accounts share a hue - headers grey, waste red, protocol blue to green, the user's data amber -
//! and neighbours in the stack differ in lightness, so that the order can be read without seeing hues at all.

use overhead_model::Account;

/// An sRGB colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rgb(pub u8, pub u8, pub u8);

pub(crate) const PAPER: Rgb = Rgb(255, 255, 255);
pub(crate) const INK: Rgb = Rgb(26, 26, 26);
pub(crate) const MUTED: Rgb = Rgb(89, 89, 89);
pub(crate) const GRID: Rgb = Rgb(224, 224, 224);
pub(crate) const AXIS: Rgb = Rgb(150, 150, 150);
pub(crate) const ABSENT: Rgb = Rgb(244, 244, 242);
pub(crate) const WARNING: Rgb = Rgb(163, 38, 30);

/// CPU work outside and inside the kernel.
pub(crate) const USER: Rgb = Rgb(156, 198, 224);
pub(crate) const KERNEL: Rgb = Rgb(46, 94, 140);

/// System calls by rank (Tol's light scheme, ordered so that neighbours differ), then the others together.
pub(crate) const SYSCALLS: [Rgb; 6] = [
    Rgb(119, 170, 221),
    Rgb(238, 136, 102),
    Rgb(187, 204, 51),
    Rgb(255, 170, 187),
    Rgb(68, 187, 153),
    Rgb(238, 221, 136),
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
    /// Relative luminance as WCAG 2.2 defines it, 0 to 1.
    pub(crate) fn luminance(self) -> f64 {
        let linear = |channel: u8| {
            let c = f64::from(channel) / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }

    /// Contrast ratio as WCAG 2.2 defines it, 1 to 21.
    pub(crate) fn contrast(self, other: Self) -> f64 {
        let (a, b) = (self.luminance() + 0.05, other.luminance() + 0.05);
        a.max(b) / a.min(b)
    }

    /// Black or white, whichever reads better on this.
    pub(crate) fn ink_on(self) -> Self {
        if self.contrast(INK) >= self.contrast(PAPER) { INK } else { PAPER }
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
        // `tls` and `retransmission` are seldom there: then these meet.
        for (a, b) in
            [(Account::Control, Account::Framing), (Account::Tcp, Account::Framing), (Account::Framing, Account::Data)]
        {
            assert!(account(a).contrast(account(b)) > 1.3, "{a} and {b}");
        }
        assert!(USER.contrast(KERNEL) > 3.0);
    }

    #[test]
    fn text_can_be_read() {
        for account in Account::ALL.map(account).into_iter().chain(SYSCALLS).chain([OTHER_SYSCALLS, USER, KERNEL]) {
            assert!(account.contrast(account.ink_on()) >= 4.5, "{account:?}");
        }
        assert!([INK, MUTED, WARNING].iter().all(|ink| ink.contrast(PAPER) >= 4.5 && ink.contrast(ABSENT) >= 4.5));
    }
}
