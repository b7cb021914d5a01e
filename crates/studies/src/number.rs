//! Numbers as sentences and tables print them. Anything but a number is an error, not an empty place.

use crate::query::error;
use minijinja::Error;
use minijinja::value::Value;
use overhead_report::text::number;

fn figure(value: &Value) -> Result<f64, Error> {
    f64::try_from(value.clone()).map_err(|_| error(format!("{value:?} is not a number")))
}

/// Bytes, with one digit after the point if they are not whole: `1,234`, `25.5`.
pub(crate) fn bytes(value: &Value) -> Result<String, Error> {
    Ok(signed_by(figure(value)?, false, number::bytes_label))
}

/// A difference of bytes with its sign: `+33`, `−7.5`.
pub(crate) fn signed(value: &Value) -> Result<String, Error> {
    Ok(signed_by(figure(value)?, true, number::bytes_label))
}

/// About three significant digits: `0.032`, `3.21`, `1,234`.
pub(crate) fn digits(value: &Value) -> Result<String, Error> {
    Ok(signed_by(figure(value)?, false, number::significant))
}

/// A whole number: `1,234`.
pub(crate) fn whole(value: &Value) -> Result<String, Error> {
    Ok(signed_by(figure(value)?, false, |value| number::with_digits(value, 0)))
}

/// Nanoseconds in microseconds.
pub(crate) fn microseconds(value: &Value) -> Result<String, Error> {
    Ok(number::significant(figure(value)? / 1e3))
}

/// A part of one: `12.3%`.
pub(crate) fn percent(value: &Value) -> Result<String, Error> {
    Ok(signed_by(figure(value)? * 100.0, false, |value| number::with_digits(value, 1)) + "%")
}

fn signed_by(value: f64, plus: bool, print: impl Fn(f64) -> String) -> String {
    let text = print(value.abs());
    let is_zero = text.bytes().all(|byte| !byte.is_ascii_digit() || byte == b'0');
    match value {
        _ if is_zero => text,
        value if value < 0.0 => format!("−{text}"),
        _ if plus => format!("+{text}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_with_their_sign_and_what_is_none_is_refused() {
        assert_eq!(bytes(&Value::from(1234)).unwrap(), "1,234");
        assert_eq!(bytes(&Value::from(25.46)).unwrap(), "25.5");
        assert_eq!(signed(&Value::from(-7.5)).unwrap(), "−7.5");
        assert_eq!(signed(&Value::from(33)).unwrap(), "+33");
        assert_eq!(signed(&Value::from(0.001)).unwrap(), "0");
        assert_eq!(percent(&Value::from(0.123)).unwrap(), "12.3%");
        assert_eq!(microseconds(&Value::from(12_345)).unwrap(), "12.3");
        assert!(bytes(&Value::from("many")).is_err() && whole(&Value::UNDEFINED).is_err());
    }
}
