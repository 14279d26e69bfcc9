//! Arithmetic with times that does not overflow.

use jiff::{Timestamp, TimestampArithmetic};

/// Computes the time that much later, or the end of time.
pub fn saturating_add(time: Timestamp, by: impl Into<TimestampArithmetic>) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}
