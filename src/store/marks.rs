//! Adds marks of the deploy clock that are known only after the push.

use crate::model::deploy_clock::MarkTime;
use crate::model::id::DeployId;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::interval_metrics::MarkChange;
use crate::store::mark_text;
use crate::store::query::query;
use crate::store::write::WriteTransaction;

const ADDING: &str = "recording the marks of a deployment";

impl Store {
    /// Adds marks to a deployment; a mark that it has keeps its time. The row stays locked until the end of the
    /// transaction, so that no other mark is lost. Returns the change, if there is one.
    pub(super) async fn add_marks(
        &self,
        write: &mut WriteTransaction,
        id: &DeployId,
        times: &[MarkTime],
    ) -> Result<Option<MarkChange>, StoreError> {
        let sql = "SELECT id, target, marks FROM deployments WHERE id = $1";
        let select = query(self.locking(sql, "FOR UPDATE"), id);
        let Some(row) = select.first(write.sql(), ADDING).await? else { return Ok(None) };
        let before = mark_text::decode(&row.text("marks")?);
        let mut after = before.clone();
        for time in times {
            after.insert(*time);
        }
        if after == before {
            return Ok(None);
        }
        let sql = "UPDATE deployments SET marks = $2 WHERE id = $1";
        write.later(query(sql, (id, mark_text::encode(&after))));
        Ok(Some(MarkChange { deployment: id.clone(), target: row.id("target")?, before, after }))
    }
}
