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

const MEASURING: &str = "measuring deployments of a former version";

impl Store {
    /// Measures up to so many deployments that a former version has pushed; returns their number. Until then insights
    /// do not know how long they took.
    pub async fn measure_lapses(&self, limit: u32) -> Result<u64, StoreError> {
        let sql = "SELECT id, marks FROM deployments WHERE lapses IS NULL AND state = 'succeeded' \
             AND fleet IS NULL ORDER BY id LIMIT $1";
        let rows = query(sql, limit).fetch_all(&self.readers, MEASURING).await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let mut write = self.begin(MEASURING).await?;
        let mut count = 0;
        for row in rows {
            let text = row.text("marks")?;
            let lapses = mark_text::encode_lapses(&mark_text::decode(&text));
            // Marks that came meanwhile have brought their lengths.
            let sql = "UPDATE deployments SET lapses = $2 WHERE id = $1 AND lapses IS NULL AND marks = $3";
            let id: DeployId = row.id("id")?;
            let values = (&id, lapses, text);
            count += query(sql, values).execute(write.sql(), MEASURING).await?;
        }
        write.commit().await?;
        Ok(count)
    }

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
        let sql = "UPDATE deployments SET marks = $2, lapses = $3 WHERE id = $1";
        let texts = (mark_text::encode(&after), mark_text::encode_lapses(&after));
        write.later(query(sql, (id, texts)));
        Ok(Some(MarkChange { deployment: id.clone(), target: row.id("target")?, before, after }))
    }
}
