//! Random bytes that nobody can guess, from the system: keys, ids of sessions.

/// The system returned no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the system returned no random numbers")]
pub struct NoRandomness;

/// Draws 32 random bytes.
///
/// # Errors
/// [`NoRandomness`]
pub fn random_bytes() -> Result<[u8; 32], NoRandomness> {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}
