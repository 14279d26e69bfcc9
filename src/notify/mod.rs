//! PEOPLE AND PROGRAMS ARE TOLD: what is said, and the clients that say it. What is said is made
//! by pure functions; when, and what happens after a failure, is decided elsewhere.

pub mod events; // CloudEvents for programs, pure
pub mod signature; // how they are signed, pure
pub mod webhook; // who they are sent to
