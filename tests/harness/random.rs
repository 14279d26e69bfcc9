//! Chance that a printed seed brings back.

use std::time::Duration;

/// A small generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The seed of `THE_DEPLOYER_TEST_SEED`, or one that was not there before.
    pub(crate) fn seed() -> u64 {
        let given = std::env::var("THE_DEPLOYER_TEST_SEED").ok();
        let given = given.map(|text| text.parse().expect("the seed is a number"));
        given.unwrap_or_else(|| uuid::Uuid::now_v7().as_u64_pair().1)
    }

    /// From a seed; nothing comes of 0, so it is another one.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// A number below the bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, times: usize) -> bool {
        self.below(100) < times
    }

    /// A duration between two numbers of milliseconds.
    pub(crate) fn millis(&mut self, least: usize, most: usize) -> Duration {
        Duration::from_millis(u64::try_from(least + self.below(most - least + 1)).unwrap())
    }

    /// One of them.
    pub(crate) fn choose<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Another generator, for one who draws at the same time as others. Its state is none that this one comes to soon:
    /// two forks would draw the same numbers, one of them a draw later.
    pub(crate) fn fork(&mut self) -> Self {
        let drawn = u64::try_from(self.below(usize::MAX)).unwrap();
        let mixed = (drawn ^ (drawn >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Self::new(mixed ^ (mixed >> 27))
    }
}
