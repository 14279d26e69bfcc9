//! Records acts on secrets, which people do in the store with a login of their own.

use crate::deployments::{AUDIT, Deployments};
use crate::model::app_instance::AppInstance;
use crate::model::audit::{AuditRecord, Principal};
use crate::model::id::TargetName;
use crate::model::secret_key::SecretKeyName;
use crate::store::{Reply, StoreError};

/// An act on secrets of an app: the names of keys, and no value.
#[derive(Debug, Clone)]
pub(crate) struct SecretActRecord {
    /// The act: `set`, `unset`, `copy`, `reveal`, `run`.
    pub(crate) act: &'static str,
    /// The app.
    pub(crate) instance: AppInstance,
    /// The keys; at least one.
    pub(crate) keys: Vec<SecretKeyName>,
    /// The target that values were copied from.
    pub(crate) from: Option<TargetName>,
}

/// The reason why an act was not recorded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretActError {
    /// There is no such target.
    #[error("{0}")]
    Target(String),
    /// The database fails.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Deployments {
    /// Records an act on secrets in the audit log; a dry run only checks that it can be. Returns whether it was recorded.
    pub(crate) async fn record_secret_act(
        &self,
        record: SecretActRecord,
        dry_run: bool,
        by: Principal,
        reply: &Reply<bool>,
    ) -> Result<bool, SecretActError> {
        let SecretActRecord { act, instance: AppInstance { target, app }, keys, from } = record;
        for target in std::iter::once(&target).chain(&from) {
            let check = self.ledger.check_target(target);
            check
                .map_err(|(message, hint)| SecretActError::Target(format!("{message}: {hint}")))?;
        }
        if dry_run {
            return Ok(false);
        }
        let names: Vec<&str> = keys.iter().map(SecretKeyName::as_str).collect();
        let names = names.join(", ");
        let subject = match from {
            Some(from) => format!("{names} (from {from})"),
            None => names,
        };
        let entry = AuditRecord {
            act: format!("secrets-{act}").into(),
            target: Some(target),
            app: Some(app),
            subject,
            ..self.ledger.entry("secrets", String::new(), by)
        };
        self.store.audit_act(&entry, reply.answer(&true).as_ref()).await?;
        let (by, subject) = (&entry.by.name, &entry.subject);
        tracing::info!(target: AUDIT, act, by, subject, "secrets changed or read by a person");
        Ok(true)
    }
}
