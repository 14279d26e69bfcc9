//! The real program, over HTTP, with everything that can happen to a process and to its input.

mod crash; // killed anywhere, and started again
