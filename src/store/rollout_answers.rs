//! The answers of the gates of rollouts. Questions in a row that have the same answer share a row, and of each gate the
//! newest rows are kept.

use jiff::Timestamp;

use crate::model::id::RolloutId;
use crate::model::rollout_words::GateOutcome;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::query::query;
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

/// The most rows of one gate.
const MAX_ROWS: i64 = 200;
/// The most rows of one rollout that are read; the older ones are left out.
const MAX_READ: i64 = 2_000;

const DOING: &str = "noting the answer of a gate";
const READING: &str = "reading the answers of gates";

/// An answer of a gate, as often as it came in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateAnswers {
    /// The number of the gate's step.
    pub step: usize,
    /// The time of the first question with this answer.
    pub first_at: Timestamp,
    /// The time of the last one.
    pub last_at: Timestamp,
    /// The number of questions.
    pub asked: u32,
    /// The result.
    pub result: GateOutcome,
    /// The value, or the reason why there is none.
    pub value: String,
}

impl GateAnswers {
    /// Makes one answer.
    pub fn new(step: usize, at: Timestamp, (result, value): (GateOutcome, String)) -> Self {
        Self { step, first_at: at, last_at: at, asked: 1, result, value }
    }
}

impl Store {
    /// Returns the answers of the gates of a rollout, each gate's in the order in which they came.
    pub async fn gate_answers(&self, rollout: &RolloutId) -> Result<Vec<GateAnswers>, StoreError> {
        let sql = "SELECT rollout AS id, step, first_at, last_at, asked, result, value FROM rollout_gate_answers \
             WHERE rollout = $1 ORDER BY version DESC LIMIT $2";
        let rows = query(sql, (rollout, MAX_READ)).fetch_all(&self.readers, READING).await?;
        rows.iter().rev().map(read).collect()
    }
}

/// Notes an answer that the record of this version has, in the transaction that stores the record.
pub(super) async fn note(
    write: &mut WriteTransaction,
    (rollout, version): (&RolloutId, i64),
    new: &GateAnswers,
) -> Result<(), StoreError> {
    let GateAnswers { step, first_at: _, last_at: at, asked: _, result, value } = new;
    let step = i64::try_from(*step).unwrap_or(i64::MAX);
    let sql = "UPDATE rollout_gate_answers SET last_at = $5, asked = asked + 1 WHERE rollout = $1 AND step = $2 \
         AND result = $3 AND value = $4 AND version = (SELECT MAX(a.version) FROM rollout_gate_answers a \
         WHERE a.rollout = $1 AND a.step = $2)";
    let again = query(sql, (rollout, step, result.as_str(), value, *at));
    if again.execute(write.sql(), DOING).await? > 0 {
        return Ok(());
    }
    let sql = "INSERT INTO rollout_gate_answers (rollout, version, step, first_at, last_at, asked, result, value) \
         VALUES ($1, $2, $3, $4, $4, 1, $5, $6)";
    let values = ((rollout, version), (step, *at), (result.as_str(), value));
    query(sql, values).execute(write.sql(), DOING).await?;
    let sql = "DELETE FROM rollout_gate_answers WHERE rollout = $1 AND step = $2 AND version <= \
         (SELECT a.version FROM rollout_gate_answers a WHERE a.rollout = $1 AND a.step = $2 \
         ORDER BY a.version DESC LIMIT 1 OFFSET $3)";
    query(sql, (rollout, step, MAX_ROWS)).execute(write.sql(), DOING).await.map(drop)
}

fn read(row: &Row) -> Result<GateAnswers, StoreError> {
    Ok(GateAnswers {
        step: row.count("step")?,
        first_at: row.time("first_at")?,
        last_at: row.time("last_at")?,
        asked: row.count("asked")?,
        result: row.word("result", GateOutcome::parse)?,
        value: row.text("value")?,
    })
}
