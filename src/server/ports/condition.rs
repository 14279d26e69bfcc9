//! How the program is.

/// One thing that must work before traffic makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name: `database`, `manifests`.
    pub name: String,
    /// What it is waiting for; `None` when it works. Shown to anybody: no secrets.
    pub waiting_for: Option<String>,
    /// What else there is to say, in both cases.
    pub note: Option<String>,
}

/// How the program is.
pub trait Condition: Send + Sync + 'static {
    /// All checks, made now; each bounds itself.
    fn checks(&self) -> impl Future<Output = Vec<Check>> + Send;

    /// What whoever looks at deployments should know: the code host limits us, so that what it shows
    /// comes late. Shown to anybody.
    fn remark(&self) -> impl Future<Output = Option<String>> + Send;

    /// All metrics in the text format that Prometheus reads.
    fn metrics(&self) -> String;
}
