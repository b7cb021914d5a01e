//! Divides a number of bytes in proportion to weights, in integers that add up.

#[derive(Debug, Default)]
pub struct ProportionalSplit {
    weights: Vec<u64>,
    total: u64,
    are_equal: bool,
    /// The shares of each amount in turn; and the remainders of the last division.
    shares: Vec<u64>,
    remainders: Vec<u64>,
    order: Vec<u32>,
}

impl ProportionalSplit {
    pub fn begin(&mut self, weights: impl Iterator<Item = u64>) {
        self.weights.clear();
        self.weights.extend(weights);
        self.total = self.weights.iter().sum();
        let first = self.weights.first();
        self.are_equal = self.weights.iter().all(|weight| Some(weight) == first);
    }

    /// Divides each amount by largest remainder, ties to the earliest, and calls `give` with each index and its shares. The
    /// shares add up to the amount if any weight is positive.
    #[inline]
    pub fn amounts<const N: usize>(&mut self, amounts: [u64; N], mut give: impl FnMut(usize, [u64; N])) {
        if self.total == 0 {
            return;
        }
        let heads = self.weights.len();
        let each = amounts.map(|amount| (amount / heads as u64, amount % heads as u64));
        if !self.are_equal {
            self.shares.clear();
            for amount in amounts {
                self.in_proportion(amount);
            }
        }
        for index in 0..heads {
            let given = if self.are_equal {
                each.map(|(share, extra)| share + u64::from((index as u64) < extra))
            } else {
                std::array::from_fn(|of| self.shares.get(of * heads + index).copied().unwrap_or_default())
            };
            give(index, given);
        }
    }

    /// Divides `amount` by these weights into `given`; zeros if the weights are zero.
    pub fn all(&mut self, amount: u64, weights: impl Iterator<Item = u64>, given: &mut Vec<u64>) {
        self.begin(weights);
        given.clear();
        given.resize(self.weights.len(), 0);
        self.amounts([amount], |index, [share]| {
            if let Some(given) = given.get_mut(index) {
                *given = share;
            }
        });
    }

    /// Appends the shares of an amount.
    fn in_proportion(&mut self, amount: u64) {
        let (begun, total) = (self.shares.len(), self.total);
        self.remainders.clear();
        for &weight in &self.weights {
            let (share, remainder) = divided(amount, weight, total);
            self.shares.push(share);
            self.remainders.push(remainder);
        }
        let shares = self.shares.get_mut(begun..).unwrap_or_default();
        let given: u64 = shares.iter().sum();
        let extra = usize::try_from(amount - given).unwrap_or(usize::MAX);
        if extra > 0 {
            self.order.clear();
            self.order.extend(0..shares.len() as u32);
            let remainder = |index: u32| self.remainders.get(index as usize).copied().unwrap_or_default();
            self.order.sort_unstable_by_key(|&index| (std::cmp::Reverse(remainder(index)), index));
            for &index in self.order.iter().take(extra) {
                if let Some(share) = shares.get_mut(index as usize) {
                    *share += 1;
                }
            }
        }
    }
}

/// Returns `amount * weight / total` and the remainder.
fn divided(amount: u64, weight: u64, total: u64) -> (u64, u64) {
    if let Some(product) = amount.checked_mul(weight) {
        return (product / total, product % total);
    }
    let (product, total) = (u128::from(amount) * u128::from(weight), u128::from(total));
    ((product / total) as u64, (product % total) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(amount: u64, weights: &[u64]) -> Vec<u64> {
        let mut shares = vec![0; weights.len()];
        let mut split = ProportionalSplit::default();
        split.begin(weights.iter().copied());
        split.amounts([amount, 0], |index, [share, none]| shares[index] += share + none);
        shares
    }

    #[test]
    fn ties_go_to_the_earliest() {
        assert_eq!(shares(14, &[25, 25, 25, 25]), [4, 4, 3, 3]);
        assert_eq!(shares(20, &[1, 2]), [7, 13]);
        assert_eq!(shares(0, &[1, 2]), [0, 0]);
    }

    proptest! {
        #[test]
        fn shares_add_up_and_are_within_one_of_exact(amount in 0u64..100_000, weights in prop::collection::vec(0u64..70_000, 1..40)) {
            prop_assume!(weights.iter().any(|&weight| weight > 0));
            let total: u64 = weights.iter().sum();
            let shares = shares(amount, &weights);
            prop_assert_eq!(shares.iter().sum::<u64>(), amount);
            for (share, weight) in shares.iter().zip(&weights) {
                let exact = amount as f64 * *weight as f64 / total as f64;
                prop_assert!((*share as f64 - exact).abs() < 1.0);
            }
        }
    }
}
