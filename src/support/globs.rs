//! A set of globs with their texts. Pure.

use std::fmt;

pub use globset::{Error as GlobError, ErrorKind as GlobErrorKind};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// A set of globs, in globset's syntax; by default it matches everything.
#[derive(Clone)]
pub struct Globs {
    texts: Vec<String>,
    set: GlobSet,
}

/// The options of globs over the owner and name of a repository.
#[derive(Debug, Clone, Copy, Default)]
pub struct GlobOptions {
    /// Letter case does not count.
    pub ignore_case: bool,
    /// `*` and `?` stop at a slash.
    pub literal_separator: bool,
}

impl Globs {
    /// Parses globs; the set matches a text if one glob does, and `*` also matches slashes.
    ///
    /// # Errors
    /// The first glob that cannot be parsed, or that together they are too many patterns.
    pub fn parse<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Result<Self, GlobError> {
        Self::parse_with(GlobOptions::default(), texts)
    }

    /// Parses globs with these options.
    ///
    /// # Errors
    /// The first glob that cannot be parsed, or that together they are too many patterns.
    pub fn parse_with<T: Into<String>>(
        options: GlobOptions,
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Self, GlobError> {
        let texts: Vec<String> = texts.into_iter().map(Into::into).collect();
        let mut set = GlobSetBuilder::new();
        for text in &texts {
            let mut glob = GlobBuilder::new(text);
            glob.literal_separator(options.literal_separator).case_insensitive(options.ignore_case);
            set.add(glob.build()?);
        }
        Ok(Self { set: set.build()?, texts })
    }

    /// Parses the valid globs: the configuration has refused the others.
    pub fn parse_readable<'a>(texts: impl IntoIterator<Item = &'a String>) -> Self {
        let readable = texts.into_iter().filter(|text| check_glob(text).is_ok());
        let no_globs = Self { texts: Vec::new(), set: GlobSet::empty() };
        Self::parse(readable).unwrap_or(no_globs)
    }

    /// Returns whether one of the globs matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.set.is_match(text)
    }

    /// Returns whether there are no globs, so that nothing matches.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Returns whether the set matches everything, whatever names there will be.
    pub fn match_all(&self) -> bool {
        self.texts.iter().any(|text| text == "*" || text == "**")
    }

    /// Returns the globs as they were written.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }
}

/// Checks that a glob can be parsed and compiled: one that is nested too deeply cannot.
///
/// # Errors
/// The problem of the glob.
pub fn check_glob(text: &str) -> Result<(), GlobError> {
    Globs::parse([text]).map(drop)
}

impl Default for Globs {
    fn default() -> Self {
        Self::parse(["*"]).expect("a star is a glob")
    }
}

impl fmt::Debug for Globs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.texts.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_a_slash_unless_it_is_to_stop_there() {
        let globs = Globs::parse(["release/*"]).unwrap();
        assert!(globs.is_match("release/1/2") && !globs.is_match("Release/1"));
        let options = GlobOptions { ignore_case: true, literal_separator: true };
        let globs = Globs::parse_with(options, ["acme/*"]).unwrap();
        assert!(globs.is_match("Acme/web") && !globs.is_match("acme/web/1"));
    }

    #[test]
    fn none_match_nothing_and_the_default_matches_everything() {
        let no_globs = Globs::parse::<String>([]).unwrap();
        assert!(no_globs.is_empty() && !no_globs.match_all() && !no_globs.is_match(""));
        let every_name = Globs::default();
        assert!(
            every_name.match_all() && every_name.is_match("devx/web") && every_name.is_match("")
        );
        assert_eq!(format!("{every_name:?}"), r#"["*"]"#);
    }

    #[test]
    fn an_unreadable_glob_is_an_error_that_names_it_or_matches_nothing() {
        let texts = ["a", "{"].map(str::to_owned);
        assert_eq!(Globs::parse(&texts).unwrap_err().glob(), Some("{"));
        let globs = Globs::parse_readable(&texts);
        assert!(globs.is_match("a") && !globs.is_match("{"));
        assert_eq!(globs.texts(), ["a"]);
    }
}
