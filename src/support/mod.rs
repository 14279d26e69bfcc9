//! SHARED HELPERS: a leaf that imports no other module of the crate.
//!
//! Time and ids come from [`clock`]; [`lease`], [`rate_limit`], [`retry`] and [`cache`] take times as arguments and are
//! pure. [`http`] makes every HTTP client. [`secret_text`] recognizes secrets; [`secret_mask`], [`secret_tree`] and
//! [`secret_marks`] keep them out of texts, data and differences. [`telemetry`] sets up logs and metrics.

pub mod cache; // a bounded cache
pub mod cause; // the innermost cause of an error
pub mod credential; // a secret that may change at run time
pub mod disk; // checks that a folder is writable
pub mod globs; // sets of globs
pub mod host; // checks whether a host is this machine
pub mod http; // HTTP clients, bounded bodies, Retry-After
pub mod lease; // leases by two clocks
#[cfg(test)]
pub(crate) mod log; // the log of one test
pub mod log_text; // logs of other programs: no control characters, no secrets
pub mod markdown; // foreign text in Markdown
pub mod ownership; // owners of files that root makes
pub mod percent; // percent-encoding
pub mod random; // random bytes that nobody can guess
pub mod rate_limit; // a token bucket
pub mod retry; // backoff of retries
pub mod sealed; // texts that only the holder of a key can read
pub mod secret_marks; // comparisons without secrets
pub mod secret_mask; // the text of a YAML file without its secrets
pub mod secret_name; // names of secrets
mod secret_programs; // programs that take a secret after a short flag
pub mod secret_sections; // secrets in variables and arguments of a WAML
pub mod secret_text; // recognizes secrets in text
pub mod secret_tree; // data without its secrets
pub mod sync; // mutexes that survive a panic
pub mod text; // invisible characters, truncation
pub mod time; // arithmetic with times
pub mod time_text; // parses times and durations
pub mod telemetry; // logs, spans, metrics
pub mod clock; // the only file that reads the time
