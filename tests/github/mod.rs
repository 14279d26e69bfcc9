//! The GitHub of the tests, and the real client against it.

mod world; // what it answers, and what it refuses
