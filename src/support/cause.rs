//! Finds the cause of an error.

use std::error::Error;

/// Finds the innermost cause: `connection refused`. The outer ones of an HTTP client repeat the
/// address, which can be a secret.
pub fn innermost_cause<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("https://token@example.com: {0}")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn the_last_of_a_chain_is_found() {
        let error = Outer(std::io::Error::other("connection refused"));
        assert_eq!(innermost_cause(&error).to_string(), "connection refused");
        let single = std::io::Error::other("alone");
        assert_eq!(innermost_cause(&single).to_string(), "alone");
    }
}
