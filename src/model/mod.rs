//! The nouns: plain values with their rules of form, and nothing that does anything.
//!
//! Imports nothing of ours, knows no file, no clock and no network. What is here may be
//! stored, printed and sent; a value that exists is well formed.

pub(crate) mod words; // enums with a word for each variant
pub mod id; // a newtype for each identifier
pub mod platform; // what a cluster has to offer
pub mod kubernetes; // which Kubernetes a cluster has
pub mod target; // one cluster
pub mod snapshot; // the clusters, as they are told elsewhere
pub mod namespaces; // names that no app may take
pub mod ssh; // where a repository behind ssh is
pub mod violation; // one broken rule, and all of them
pub mod release; // what is to be deployed
pub mod template; // the text of templates
pub mod change; // what becomes of an object
pub mod revision; // one entry of an app's history
pub mod lock; // a person's or the calendar's no
pub mod window; // windows read: when a target is open
pub mod stateful; // kinds of objects that keep data
pub mod route; // where apps are reached, and when two are in each other's way
pub mod facts; // what rules must know of the world
pub mod claim; // what a deployment takes when it begins to push
pub mod callers; // who may call the API, and see the pages
pub mod person; // who somebody is at the forge, and what they may there
pub mod event; // what can come in from a forge
pub mod hand_edit; // what somebody changed beside us
pub mod deployment; // one release to one target: the record
pub mod app_instance; // an app where it is
pub mod rollback; // a former revision made live again, and the hold it takes
pub mod live_history; // which revision was live after which, and to which one a rollback goes
pub mod lane; // who is next, and who is superseded
pub mod audit; // who did what, and why
pub mod removal; // an app taken off a target: the record
pub mod past; // what was done, as commits say
pub mod status; // what the forge is told
pub mod waiting; // what an unfinished deployment waits for
pub mod notice; // who is told
pub mod announcement; // what programs are told of
pub mod preview; // what a pull request's check run says
