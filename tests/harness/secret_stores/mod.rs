//! Stores of secrets on loopback, which people use with a login of their own.

pub(crate) mod cluster; // Secrets of an API server
pub(crate) mod vault; // Vault: the key-value engine of version 2, policies, logins
