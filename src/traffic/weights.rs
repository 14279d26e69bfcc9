//! Shares of requests: whole percents that sum to 100.

/// All requests.
pub const WHOLE: u32 = 100;

/// Scales weights so that they sum to 100, by largest remainder; a weight of 0 stays 0. `None` where all are 0.
pub fn scale_to_whole(weights: &[u32]) -> Option<Vec<u32>> {
    share_out(weights, WHOLE)
}

/// Moves one version to a share, and gives the others the rest, each as much of it as it had of theirs. Where the others
/// had nothing, the first of them gets the rest. `None` where there is no such version, no other one for the rest, or
/// more than 100 %.
pub fn shift(weights: &[u32], to: usize, percent: u32) -> Option<Vec<u32>> {
    let rest = WHOLE.checked_sub(percent)?;
    if to >= weights.len() || (rest > 0 && weights.len() < 2) {
        return None;
    }
    let mut others = weights.to_vec();
    others.remove(to);
    if others.iter().all(|weight| *weight == 0)
        && let Some(first) = others.first_mut()
    {
        *first = 1;
    }
    let mut shares = if rest == 0 { vec![0; others.len()] } else { share_out(&others, rest)? };
    shares.insert(to, percent);
    Some(shares)
}

/// Shares `whole` out by weights: each gets its part rounded down, and what is left goes one by one to the largest
/// remainders, the first of equal ones.
fn share_out(weights: &[u32], whole: u32) -> Option<Vec<u32>> {
    let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    if sum == 0 {
        return None;
    }
    let exact = |weight: &u32| u64::from(*weight) * u64::from(whole);
    let mut shares: Vec<u32> =
        weights.iter().map(|weight| u32::try_from(exact(weight) / sum).unwrap_or(whole)).collect();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|index| {
        std::cmp::Reverse(weights.get(*index).map_or(0, |weight| exact(weight) % sum))
    });
    let left = whole.saturating_sub(shares.iter().sum());
    for index in by_remainder.into_iter().take(left as usize) {
        if let Some(share) = shares.get_mut(index) {
            *share += 1;
        }
    }
    Some(shares)
}
