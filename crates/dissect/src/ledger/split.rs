//! Sharing a number of bytes in proportion, in integers that add up.

/// Splits `amount` in proportion to `weights` by largest remainder, ties to the earliest, and calls `give` with the
/// index and the share of each. The shares add up to `amount` where any weight is positive.
pub fn largest_remainder(amount: u64, weights: &[u64], mut give: impl FnMut(usize, u64)) {
    let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if total == 0 {
        return;
    }
    let product = |weight: u64| u128::from(amount) * u128::from(weight);
    let floor = |weight: u64| (product(weight) / total) as u64;
    let given: u64 = weights.iter().map(|&weight| floor(weight)).sum();
    let extra = usize::try_from(amount - given).unwrap_or(usize::MAX);
    if extra == 0 {
        for (index, &weight) in weights.iter().enumerate() {
            give(index, floor(weight));
        }
        return;
    }
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let remainder = |index: &usize| weights.get(*index).map_or(0, |&weight| product(weight) % total);
    order.sort_by_key(|index| (std::cmp::Reverse(remainder(index)), *index));
    for (rank, index) in order.into_iter().enumerate() {
        let weight = weights.get(index).copied().unwrap_or(0);
        give(index, floor(weight) + u64::from(rank < extra));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(amount: u64, weights: &[u64]) -> Vec<u64> {
        let mut shares = vec![0; weights.len()];
        largest_remainder(amount, weights, |index, share| shares[index] += share);
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
