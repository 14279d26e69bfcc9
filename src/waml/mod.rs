//! (see docs/architecture.md)
