//! Arithmetic with times, without overflow.

use jiff::{Timestamp, TimestampArithmetic};

/// Returns the time that much later, or the last possible time.
pub fn saturating_add(time: Timestamp, by: impl Into<TimestampArithmetic>) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}
