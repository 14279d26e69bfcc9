//! A copy of one moment, made by SQLite itself beside whoever reads and writes, and proved before
//! it gets its name.

use std::path::Path;

use sqlx::Connection as _;

use crate::store::connect;
use crate::store::embedded::file::{
    Contents, Embedded, EmbeddedError, beside, make, proved, settle,
};

impl Embedded {
    /// Copies the database into a file that is not there yet, for its owner alone. A service may be
    /// running on it; the copy is of one moment, and whole.
    ///
    /// # Errors
    /// [`EmbeddedError`]; then there is no file.
    pub async fn backup(&self, file: &Path) -> Result<Contents, EmbeddedError> {
        if !self.path().is_file() {
            return Err(EmbeddedError::NotThere { path: self.path().to_owned() });
        }
        // Takes the name, so that two backups never write one file.
        drop(make(file)?);
        let part = beside(file, &format!(".part-{}", std::process::id()));
        let copied = self.copied(&part, file).await;
        if copied.is_err() {
            let _nothing_of_it_is_left = (std::fs::remove_file(&part), std::fs::remove_file(file));
        }
        copied
    }

    async fn copied(&self, part: &Path, file: &Path) -> Result<Contents, EmbeddedError> {
        // SQLite writes into an empty file as into none; this one has its permissions already.
        drop(make(part)?);
        let path = part.to_str().ok_or_else(|| EmbeddedError::File {
            doing: "write",
            path: part.to_owned(),
            source: std::io::Error::other("SQLite takes a path in UTF-8 only"),
        })?;
        let failed = EmbeddedError::database(self.path());
        let mut connection =
            connect::sqlite_connection(self.path(), "mode=rw").await.map_err(&failed)?;
        let copy = sqlx::query("VACUUM INTO $1").bind(path).execute(&mut connection).await;
        let _unused = connection.close().await;
        copy.map_err(&failed)?;
        let contents = proved(part).await?;
        settle(part)?;
        std::fs::rename(part, file).map_err(EmbeddedError::file("write", file))?;
        settle(file)?;
        Ok(contents)
    }
}
