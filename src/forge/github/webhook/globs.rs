//! Globs that remember their texts. Pure.

use std::fmt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Some globs; letter case does not count, as in GitHub's own names.
#[derive(Clone)]
pub(super) struct Globs {
    texts: Vec<String>,
    set: GlobSet,
}

impl Globs {
    /// Reads them; `slashes` says that `*` stands for a slash, too.
    ///
    /// # Errors
    /// The first glob that cannot be read.
    pub(super) fn read<'a>(
        globs: impl IntoIterator<Item = &'a str>,
        slashes: bool,
    ) -> Result<Self, globset::Error> {
        let mut set = GlobSetBuilder::new();
        let mut texts = Vec::new();
        for glob in globs {
            let mut one = GlobBuilder::new(glob);
            set.add(one.literal_separator(!slashes).case_insensitive(true).build()?);
            texts.push(glob.to_owned());
        }
        Ok(Self { texts, set: set.build()? })
    }

    /// Whether one of them matches.
    pub(super) fn are_matched_by(&self, text: &str) -> bool {
        self.set.is_match(text)
    }
}

impl fmt::Debug for Globs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.texts.fmt(f)
    }
}
