//! Describes the difference between two kinds of operations in a sentence.

use super::render::with_sign;
use super::{AccountDifference, FieldDifference, KindPair};
use crate::number::{bytes_label, decimal};
use overhead_model::{Account, Side};

/// Bytes per operation below which a difference rounds to nothing and gets no mention.
pub(super) const VISIBLE: f64 = 0.05;
/// Share of a direction's difference that the named accounts and fields must cover.
const TOLD: f64 = 0.9;
/// Maximum fields named one by one; for more, the sentence gives their common group.
const FIELDS: usize = 2;

/// Returns text such as `request alike; response 43 B smaller (−14.2%): schema −33, framing −10 (rows.metadata.column)`.
pub(super) fn difference(pair: &KindPair) -> String {
    let [request, response] = Side::BOTH.map(|side| Direction::new(pair, side));
    match (request.is_alike(), response.is_alike()) {
        (true, true) => {
            format!(
                "alike on the wire: request {}, response {} B",
                decimal(request.bytes[0]),
                decimal(response.bytes[0])
            )
        }
        (false, true) => format!("{}; response alike", request.text()),
        (true, false) => format!("{}; request alike", response.text()),
        (false, false) if request.difference().abs() > response.difference().abs() => {
            format!("{}; {}", request.text(), response.text())
        }
        (false, false) => format!("{}; {}", response.text(), request.text()),
    }
}

struct Direction<'a> {
    side: Side,
    /// Bytes on the wire, by subject.
    bytes: [f64; 2],
    accounts: Vec<&'a AccountDifference>,
    fields: Vec<&'a FieldDifference>,
}

impl<'a> Direction<'a> {
    fn new(pair: &'a KindPair, side: Side) -> Self {
        let bytes = pair.operations.each_ref().map(|subject| subject.wire[side as usize]);
        let accounts = pair.accounts.iter().filter(|account| account.side == side && is_visible(account.difference));
        let fields = pair.fields.iter().flatten().filter(|field| field.side == side && is_visible(field.difference));
        Self { side, bytes, accounts: accounts.collect(), fields: fields.collect() }
    }

    fn difference(&self) -> f64 {
        self.bytes[1] - self.bytes[0]
    }

    /// Returns whether both the sum and all accounts are equal: one account's loss can hide another's gain.
    fn is_alike(&self) -> bool {
        self.accounts.is_empty() && !is_visible(self.difference())
    }

    fn text(&self) -> String {
        let (side, difference) = (self.side.name(), self.difference());
        let how = if is_visible(difference) {
            let word = if difference < 0.0 { "smaller" } else { "larger" };
            let percent = percent(self.bytes).map_or_else(String::new, |percent| format!(" ({percent})"));
            format!("{side} {} B {word}{percent}", bytes_label(difference.abs()))
        } else {
            format!("{side} as long, and made of other things")
        };
        let causes = self.causes();
        if causes.is_empty() { how } else { format!("{how}: {causes}{}", self.names()) }
    }

    /// Returns causes such as `schema −33, framing −10`; frame headers count as one.
    fn causes(&self) -> String {
        let is_header = |account: Account| matches!(account, Account::Link | Account::Ip | Account::Tcp);
        let headers: f64 =
            self.accounts.iter().filter(|account| is_header(account.account)).map(|account| account.difference).sum();
        let others = self.accounts.iter().filter(|account| !is_header(account.account));
        let mut causes: Vec<(&str, f64)> = others.map(|account| (account.account.name(), account.difference)).collect();
        if is_visible(headers) {
            causes.push(("headers", headers));
        }
        causes.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        let main = main_part(causes.iter().map(|cause| cause.1));
        // Also name the cause if only one is left, so that they add up to the difference.
        let named = if main + 1 == causes.len() { causes.len() } else { main };
        let text = |(name, by): &(&str, f64)| format!("{name} {}", with_sign(*by, bytes_label));
        let text = causes.iter().take(named).map(text).collect::<Vec<_>>().join(", ");
        if named < causes.len() { text + ", …" } else { text }
    }

    /// Returns the main fields, or their common group, such as ` (rows.metadata.column)`.
    fn names(&self) -> String {
        let mut fields = self.fields.clone();
        fields.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
        let main = main_part(fields.iter().map(|field| field.difference));
        let main: Vec<&str> = fields.iter().take(main).map(|field| field.field.as_str()).collect();
        let named = match (main.as_slice(), common_group(&main)) {
            ([], _) => return String::new(),
            ([_, _, ..], Some(group)) => group.to_owned(),
            (names, _) if names.len() <= FIELDS => names.join(", "),
            (names, _) => format!("{}, …", names[..FIELDS].join(", ")),
        };
        format!(" ({named})")
    }
}

/// Returns the deepest group common to all these fields.
fn common_group<'a>(names: &[&'a str]) -> Option<&'a str> {
    let mut group = names.first()?.rsplit_once('.')?.0;
    loop {
        let is_in = |name: &&str| name.strip_prefix(group).is_some_and(|rest| rest.starts_with('.'));
        if names.iter().all(is_in) {
            return Some(group);
        }
        group = group.rsplit_once('.')?.0;
    }
}

/// Returns how many of these differences, the largest first, make up most of their sum.
fn main_part(differences: impl Iterator<Item = f64> + Clone) -> usize {
    let all: f64 = differences.clone().map(f64::abs).sum();
    let mut told = 0.0;
    let is_main = |by: &f64| {
        let more = told < all * TOLD;
        told += by.abs();
        more
    };
    differences.take_while(is_main).count()
}

fn is_visible(bytes: f64) -> bool {
    bytes.abs() >= VISIBLE
}

/// Returns the difference in percent of the first, or `None` if the first is zero.
fn percent([first, second]: [f64; 2]) -> Option<String> {
    let percent = (second - first) / first * 100.0;
    let sign = if percent < 0.0 { '−' } else { '+' };
    percent.is_finite().then(|| format!("{sign}{:.1}%", percent.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(differences: &[(Account, f64)]) -> String {
        let account = |&(account, difference): &(Account, f64)| AccountDifference {
            side: Side::Request,
            account,
            bytes: [0.0, difference],
            difference,
        };
        let accounts: Vec<AccountDifference> = differences.iter().map(account).collect();
        let direction =
            Direction { side: Side::Request, bytes: [0.0; 2], accounts: accounts.iter().collect(), fields: Vec::new() };
        direction.causes()
    }

    #[test]
    fn causes_come_to_the_difference_or_say_that_there_are_more() {
        let (query, framing, metadata) = ((Account::Query, -55.9), (Account::Framing, 29.0), (Account::Metadata, 9.0));
        let (data, status) = ((Account::Data, 4.9), (Account::Status, 1.0));
        assert_eq!(causes(&[data, query, metadata, framing]), "query −55.9, framing +29, metadata +9, data +4.9");
        assert_eq!(causes(&[query, framing, metadata, data, status]), "query −55.9, framing +29, metadata +9, …");
        assert_eq!(causes(&[framing]), "framing +29");
    }
}
