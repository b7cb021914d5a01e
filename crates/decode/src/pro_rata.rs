//! Bodies that were compressed as a whole: the compressed bytes are posted in proportion to the accounts of what they
//! decompress to, because that is all that can be said of them.

use super::{Note, OpId, Out, Reader, Split};
use overhead_model::{Account, Amounts, Class, Outcome, Side};

/// A reader that adds up accounts and forgets everything else.
#[derive(Debug, Default)]
pub struct Shares {
    amounts: Amounts,
}

impl Shares {
    /// What `decode` posts to an output of its own, per account.
    pub fn of(side: Side, decode: impl FnOnce(&mut Out<'_, Self>)) -> Amounts {
        let mut shares = Self::default();
        decode(&mut Out::new(&mut shares, side, Some(OpId(0))));
        shares.amounts
    }
}

impl Reader for Shares {
    fn open(&mut self) -> OpId {
        OpId(0)
    }
    fn post(&mut self, _: Side, _: OpId, account: Account, _: &'static str, len: u64) {
        self.amounts[account] += len;
    }
    fn wants_free(&self) -> bool {
        false
    }
    fn label(&mut self, _: OpId, _: Class, _: &str, _: &'static str) {}
    fn close(&mut self, _: OpId, _: Outcome) {}
    fn software(&mut self, _: Side, _: &str) {}
    fn note(&mut self, _: Note) {}
}

impl<R: Reader> Out<'_, R> {
    /// Posts `len` compressed bytes in proportion to `amounts`, by largest remainder, in stack order; to `unknown`
    /// where `amounts` are all zero.
    pub fn post_pro_rata(&mut self, amounts: &Amounts, field: &'static str, len: u64) {
        self.note(Note::ProRata);
        for (account, share) in shares(amounts, len) {
            self.post(account, field, share);
        }
    }
}

/// `len` split in proportion to `amounts`. Ties go to the earlier account.
fn shares(amounts: &Amounts, len: u64) -> [(Account, u64); Account::COUNT] {
    let mut given = Account::ALL.map(|account| (account, 0));
    if *amounts == Amounts::ZERO {
        given[Account::Unknown as usize].1 = len;
        return given;
    }
    let mut split = Split::default();
    split.begin(amounts.iter().map(|(_, amount)| amount));
    split.amount(len, |index, share| given[index].1 = share);
    given
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn remainders_go_to_the_largest_then_to_the_earliest() {
        let mut amounts = Amounts::of(Account::Framing, 1);
        amounts[Account::Schema] = 1;
        amounts[Account::Data] = 2;
        let given = shares(&amounts, 3);
        let of = |account: Account| given[account as usize].1;
        assert_eq!((of(Account::Framing), of(Account::Schema), of(Account::Data)), (1, 1, 1));
        assert_eq!(shares(&Amounts::ZERO, 9)[Account::Unknown as usize].1, 9);
    }

    proptest! {
        #[test]
        fn shares_add_up(parts in prop::array::uniform13(0u64..1 << 40), len in 0u64..1 << 40) {
            let mut amounts = Amounts::ZERO;
            for (account, part) in Account::ALL.into_iter().zip(parts) {
                amounts[account] = part;
            }
            prop_assert_eq!(shares(&amounts, len).iter().map(|(_, share)| share).sum::<u64>(), len);
        }
    }
}
