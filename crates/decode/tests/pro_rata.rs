//! How the bytes of a compressed message are divided among accounts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use overhead_decode::{OperationShares, Out};
use overhead_model::{Account, Amounts, Side};
use overhead_testing::transcript::Transcript;
use proptest::prelude::*;

/// Returns how `wire` bytes that decompress to `amounts` are posted.
fn posted(amounts: &Amounts, wire: u64) -> Amounts {
    let mut transcript = Transcript::default();
    let mut out = Out::new(&mut transcript, Side::Request, None);
    out.orphan("(test)");
    OperationShares::default().post(amounts, wire, "compressed", &mut out);
    transcript.ops[0].amounts[Side::Request as usize]
}

#[test]
fn remainders_go_to_the_largest_then_to_the_earliest() {
    let mut amounts = Amounts::new(Account::Framing, 1);
    amounts[Account::Schema] = 1;
    amounts[Account::Data] = 2;
    let given = posted(&amounts, 3);
    assert_eq!((given[Account::Framing], given[Account::Schema], given[Account::Data]), (1, 1, 1));
}

#[test]
fn what_nothing_is_compressed_to_is_framing() {
    assert_eq!(posted(&Amounts::ZERO, 9), Amounts::new(Account::Framing, 9));
}

proptest! {
    #[test]
    fn shares_add_up(parts in prop::array::uniform13(0u64..1 << 40), wire in 0u64..1 << 40) {
        let mut amounts = Amounts::ZERO;
        for (account, part) in Account::ALL.into_iter().zip(parts) {
            amounts[account] = part;
        }
        prop_assert_eq!(posted(&amounts, wire).total(), wire);
    }
}
