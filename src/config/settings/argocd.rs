//! Argo CDs that are told of pushes.

use secrecy::SecretString;

/// Where one cluster's Argo CD takes events of pushes.
#[derive(Debug, Clone)]
pub struct ArgoCdWebhook {
    /// `https://HOST/api/webhook`
    pub url: String,
    /// What events are signed with.
    pub secret: SecretString,
}
