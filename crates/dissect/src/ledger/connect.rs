//! A connection's bytes outside its operations.

use overhead_model::{Account, Amounts, Side, SideTotals};

/// Handshake and teardown, and everything before the first operation.
#[derive(Debug, Default)]
pub(super) struct ConnectAmounts {
    frames: [u64; 2],
    /// Bytes of [`Account::Control`].
    control: [u64; 2],
    /// Bytes of the other accounts; absent if there are none, as on most connections.
    others: Option<Box<[Amounts; 2]>>,
}

impl ConnectAmounts {
    pub fn charge_frame(&mut self, side: Side, account: Account, bytes: u64) {
        self.frames[side as usize] += 1;
        *self.amount(side, account) += bytes;
    }

    /// Returns the bytes of an account, to be added to.
    pub fn amount(&mut self, side: Side, account: Account) -> &mut u64 {
        match account {
            Account::Control => &mut self.control[side as usize],
            _ => &mut self.others.get_or_insert_default()[side as usize][account],
        }
    }

    pub fn swap_sides(&mut self) {
        self.frames.swap(0, 1);
        self.control.swap(0, 1);
        if let Some(others) = &mut self.others {
            others.swap(0, 1);
        }
    }

    pub fn totals(&self) -> [SideTotals; 2] {
        Side::BOTH.map(|side| {
            let mut amounts = self.others.as_ref().map_or(Amounts::ZERO, |others| others[side as usize]);
            amounts[Account::Control] += self.control[side as usize];
            SideTotals { frames: self.frames[side as usize], amounts }
        })
    }
}
