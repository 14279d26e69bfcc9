//! The real program, over HTTP, with everything that can happen to a process and to its input.

mod chaos; // killed again and again at random
mod crash; // killed anywhere, and started again
