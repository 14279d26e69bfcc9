//! SMALL SHARED THINGS: a leaf that imports nothing of ours.

pub mod disk; // whether a folder takes writes
pub mod lease; // until when something that is held may be acted on
#[cfg(test)]
pub(crate) mod log; // what one test logs
pub mod ownership; // what root makes in another's folder
pub mod secret_mask; // the text of a YAML file without its secrets
pub mod secret_text; // what looks like a secret
pub mod text; // characters that nobody sees
pub mod time_text; // times and durations as people write them
