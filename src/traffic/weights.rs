//! Shares of requests: whole percents that sum to 100.

/// All requests.
pub const WHOLE: u32 = 100;

/// Scales weights so that they sum to 100; a weight of 0 stays 0. `None` where all are 0.
///
/// Each gets its part rounded down, and what is left goes one by one to the largest remainders, the first of equal ones.
pub fn scale_to_whole(weights: &[u32]) -> Option<Vec<u32>> {
    let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    if sum == 0 {
        return None;
    }
    let exact = |weight: &u32| u64::from(*weight) * u64::from(WHOLE);
    let mut shares: Vec<u32> =
        weights.iter().map(|weight| u32::try_from(exact(weight) / sum).unwrap_or(WHOLE)).collect();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|index| {
        std::cmp::Reverse(weights.get(*index).map_or(0, |weight| exact(weight) % sum))
    });
    let left = WHOLE.saturating_sub(shares.iter().sum());
    for index in by_remainder.into_iter().take(left as usize) {
        if let Some(share) = shares.get_mut(index) {
            *share += 1;
        }
    }
    Some(shares)
}
