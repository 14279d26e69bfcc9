//! SMALL SHARED THINGS: a leaf that imports nothing of ours.

pub mod cache; // a bounded cache
pub mod cause; // the innermost cause of an error
pub mod credential; // a secret that may change while we run
pub mod disk; // whether a folder takes writes
pub mod globs; // sets of globs
pub mod host; // whether a host is this machine
pub mod http; // HTTP clients, bounded bodies, Retry-After
pub mod lease; // until when something that is held may be acted on
#[cfg(test)]
pub(crate) mod log; // what one test logs
pub mod ownership; // what root makes in another's folder
pub mod percent; // percent-encoding
pub mod rate_limit; // a token bucket
pub mod retry; // when something is tried again
pub mod secret_marks; // two texts compared without their secrets
pub mod secret_mask; // the text of a YAML file without its secrets
pub mod secret_name; // names that are given to secrets
mod secret_programs; // programs that take a secret behind a short flag
pub mod secret_sections; // the parts of a WAML that hold variables and arguments
pub mod secret_text; // what looks like a secret
pub mod secret_tree; // data without its secrets
pub mod sync; // locks that outlive a panic
pub mod text; // invisible characters, truncation
pub mod time; // arithmetic with times
pub mod time_text; // times and durations as people write them
pub mod telemetry; // logs, spans, metrics
pub mod clock; // the only file that asks what time it is
