//! Numbers for people: thousands separators, fixed digits, one unit at a time.

/// Formats `1234567` as `1,234,567`.
pub fn grouped(value: u64) -> String {
    group(&value.to_string())
}

fn group(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats one decimal digit with thousands separators: `1,234.5`. Not for negative values.
pub(crate) fn decimal(value: f64) -> String {
    with_digits(value, 1)
}

/// Formats `digits` decimal digits with thousands separators. Not for negative values.
pub fn with_digits(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", group(whole)),
        None => group(&text),
    }
}

/// Formats whole bytes without a decimal digit, and mixed means with one.
pub fn bytes_label(value: f64) -> String {
    let is_whole = (value - value.round()).abs() < 0.05;
    with_digits(value, usize::from(!is_whole && value < 1_000.0))
}

/// Formats about three significant digits: `0.032`, `3.21`, `32.1`, `1,234`.
pub fn significant(value: f64) -> String {
    match value {
        v if v == 0.0 || v >= 100.0 => with_digits(v, 0),
        v if v >= 10.0 => with_digits(v, 1),
        v if v >= 0.1 => with_digits(v, 2),
        v => with_digits(v, 3),
    }
}

/// Formats money with at least two decimal digits, or more to show three significant ones.
pub fn money(value: f64) -> String {
    let digits = if value > 0.0 && value < 1.0 { 2 - value.log10().floor() as i32 } else { 2 };
    with_digits(value, digits.clamp(2, 12) as usize)
}

/// Formats a share such as `12.3%`, or a dash if the whole is zero.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { DASH.to_owned() } else { format!("{:.1}%", part as f64 * 100.0 / whole as f64) }
}

/// Formats microseconds, the unit of latency columns, with one decimal digit.
pub(crate) fn microseconds(ns: u64) -> String {
    decimal(ns as f64 / 1e3)
}

/// Formats a duration in a suitable unit: `850 ns`, `12.3 µs`, `4.56 s`.
pub fn duration(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", significant(value / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", significant(value / 1e6)),
        _ => format!("{} s", significant(value / 1e9)),
    }
}

/// Formats `1 frame`, `2 frames`, `3 bodies`, `4 directions of a connection`.
pub fn counted(count: u64, noun: &str) -> String {
    let number = grouped(count);
    if count == 1 {
        return format!("{number} {noun}");
    }
    let (head, tail) = noun.split_at(noun.find(" of ").unwrap_or(noun.len()));
    match head.strip_suffix('y') {
        Some(stem) => format!("{number} {stem}ies{tail}"),
        None => format!("{number} {head}s{tail}"),
    }
}

/// Placeholder for a missing number.
pub(crate) const DASH: &str = "-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 1_234.56, 999.96].map(decimal), ["0.0", "1,234.6", "1,000.0"]);
        assert_eq!([0.0, 0.0321, 3.214, 32.14, 1_234.4].map(significant), ["0", "0.032", "3.21", "32.1", "1,234"]);
        assert_eq!([850, 12_300, 4_560_000_000].map(duration), ["850 ns", "12.3 µs", "4.56 s"]);
        let counts = [(1, "frame"), (2_000, "byte"), (2, "body"), (3, "direction of a connection")];
        assert_eq!(
            counts.map(|(count, noun)| counted(count, noun)),
            ["1 frame", "2,000 bytes", "2 bodies", "3 directions of a connection"]
        );
        assert_eq!(
            [0.0, 0.000_012_34, 0.1, 1.0, 1_234.567].map(money),
            ["0.00", "0.0000123", "0.100", "1.00", "1,234.57"]
        );
        assert_eq!(percent(1, 8), "12.5%");
        assert_eq!(percent(1, 0), DASH);
    }
}
