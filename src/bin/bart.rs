//! The developer's command.

fn main() {}
