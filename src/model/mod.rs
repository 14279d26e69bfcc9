//! The nouns of the service: plain values with their rules of form, without any effect.
//!
//! The module imports nothing else of the crate, and knows no file, no clock and no network. Its values may be stored,
//! printed and sent; a value that exists is well formed.
//!
//! In reading order:
//!
//! - [`id`] has the identifiers, [`violation`] a broken rule with its place and a way out.
//! - [`target`], [`platform`], [`lock`] and [`window`] describe a cluster and the stops of deployments to it, [`fleets`] sets
//!   of clusters.
//! - [`release`], [`event`] and [`deployment`] are the request to deploy and its record; [`lane`] decides their order,
//!   [`deploy_clock`] measures how long each part took, and [`insights`] sums it up.
//! - [`facts`] has the results of lookups, [`claim`] the names that a deployment reserves.
//! - [`revision`], [`change`], [`canary`], [`app_instance`] and [`live_history`] describe an app's manifests; [`hand_edit`] is a
//!   manual edit of them.
//! - [`rollback`], [`removal`] and [`audit`] are acts of people.
//! - [`status`], [`notice`], [`announcement`], [`preview`] and [`environment`] are what the code host and other receivers
//!   get.

pub(crate) mod words; // enums with a word for each variant
pub mod id; // a newtype for each identifier
pub mod platform; // ingress, certificates, secrets, cloud, monitoring of a cluster
pub mod kubernetes; // the Kubernetes version of a cluster
pub mod target; // one cluster
pub mod fleet; // several clusters, over which an app is spread
pub mod fleets; // sets of clusters that are deployed to as one target
pub mod snapshot; // the clusters, as the service sends them to others
pub mod namespace_globs; // globs of their names
pub mod namespaces; // names that no app may take
pub mod ssh; // the address of a repository behind ssh
pub mod violation; // one broken rule, and a rejection
pub mod release; // app, commit and image tag
pub mod template; // the text of templates
pub mod change; // the change of an object
pub mod canary; // the steps and times of a canary
pub mod revision; // one entry of an app's history
pub mod lock; // locks, and the policies of a target
pub mod window; // the times at which a target is open
pub mod stateful; // kinds of objects that keep data
pub mod route; // hosts and paths of apps, and their overlaps
pub mod facts; // the results of lookups
pub mod claim; // the names that a deployment reserves when it begins to push
pub mod callers; // API tokens, and the access to pages
pub mod person; // a person's identity and permissions at the code host
pub mod event; // the events from a code host
pub mod hand_edit; // a manual edit in a manifest repository
pub mod deployment; // one release to one target: the record
pub mod fleet_progress; // a deployment over all clusters of a fleet
pub mod app_progress; // a deployment of all apps of a repository
pub mod app_instance; // an app on one target
pub mod rollback; // a former revision made live again, and its hold
pub mod live_history; // the order of live revisions, and the choice of a rollback's revision
pub mod lane; // the order of deployments, and the superseded ones
pub mod audit; // the audit log
pub mod removal; // an app taken off a target: the record
pub mod commit_record; // the acts that commits record
pub mod status; // the status at the code host
pub mod github_deployment; // a deployment as people create it at GitHub
pub mod waiting; // what an unfinished deployment waits for
pub mod deploy_clock; // the times of a deployment's steps, and the intervals between them
pub mod insights; // averages and percentiles, and DORA's figures
pub mod notice; // the receivers of a change
pub mod announcement; // the kinds of events for other programs
pub mod preview; // the text of a pull request's check run
pub mod rollout_news; // the state of a rollout, for commits and channels
pub mod secret_key; // names of keys in secrets
pub mod rollout_words; // the words of a rollout's states and gates
pub mod environment; // preview environments: workloads of others that name a commit
