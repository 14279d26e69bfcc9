//! What a sweep asks of the code host. `app` answers from the forge, the tests from memory.

use std::future::Future;

use jiff::Timestamp;
use serde_json::Value;

use crate::controller::outside::Problem;
use crate::forge::ListedStatus;
use crate::forge::delivery::{Budget, DeliveryContent, HookDelivery};
use crate::model::event::{NamedRepository, Push, Refusal};
use crate::model::id::RepoName;

/// The code host. Every call must end by itself, with a timeout of its own.
pub trait Host: Send + Sync + 'static {
    /// Events since then of which no delivery arrived, newest first, at most so many.
    fn failed_deliveries(
        &self,
        since: Timestamp,
        most: u32,
    ) -> impl Future<Output = Result<Vec<HookDelivery>, Problem>> + Send;

    /// What one of them carried.
    fn delivery(&self, id: i64) -> impl Future<Output = Result<DeliveryContent, Problem>> + Send;

    /// Repositories that the host lets us see beside those that we know, at most so many.
    fn repositories(
        &self,
        most: u32,
    ) -> impl Future<Output = Result<Vec<RepoName>, Problem>> + Send;

    /// The newest deployments of a repository, newest first, each as the host lists it.
    fn deployments(
        &self,
        repository: &RepoName,
        most: u32,
    ) -> impl Future<Output = Result<Vec<Value>, Problem>> + Send;

    /// The repository's present name, with the host's own numbers; none where the host has none.
    fn repository(
        &self,
        repository: &RepoName,
    ) -> impl Future<Output = Result<Option<NamedRepository>, Problem>> + Send;

    /// The statuses of a deployment, newest first.
    fn statuses(
        &self,
        repository: &RepoName,
        forge_id: i64,
    ) -> impl Future<Output = Result<Vec<ListedStatus>, Problem>> + Send;

    /// Shows at the host why nothing can be made of a deployment.
    fn refuse(&self, refusal: &Refusal) -> impl Future<Output = Result<(), Problem>> + Send;

    /// Hands on that a branch has moved.
    fn pushed(&self, push: &Push);

    /// How many requests are left, as far as the host said.
    fn budget(&self) -> Option<Budget>;
}
