//! How long `plan` takes.

fn main() {}
