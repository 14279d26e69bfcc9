//! Reads a page of a registry's list of tags as it comes, so that what a page holds beside the tags that are kept
//! takes no memory. Pure.
//!
//! ```text
//! {"name": …, "tags": ["1.0", …], "manifest": {"sha256:…": {"tag": ["1.0"], "timeCreatedMs": "…"}}}
//!                                  └─ Google's registries: the times of all images
//! ```

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::error::Category;

use crate::lookups::registry::tags::{TagListing, is_plausible};

/// The limit of tags of one image in the list; those beyond have no time.
const TAGS_OF_ONE: usize = 32;

/// Adds the tags of a page. Of one that is cut short by its length (`cut`) the part before the end counts. `false`
/// where it is no page of tags.
pub(super) fn read_page(body: &[u8], is_cut: bool, listing: &mut TagListing) -> bool {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let page = Seed { part: Part::Page, listing };
    match page.deserialize(&mut reader).and_then(|()| reader.end()) {
        Ok(()) => true,
        Err(error) => is_cut && error.classify() == Category::Eof,
    }
}

/// A part of a page, and the list that its tags are added to.
struct Seed<'a> {
    part: Part,
    listing: &'a mut TagListing,
}

#[derive(Clone, Copy)]
enum Part {
    Page,
    /// A list of tags, or `null` where there is none.
    Tags,
    /// The images by digest, each with its tags and times, or `null`.
    Times,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Key {
    Tags,
    Manifest,
    #[serde(other)]
    Other,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.part {
            Part::Page => "a page of tags",
            Part::Tags => "a list of tags",
            Part::Times => "images by their digests",
        })
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        match self.part {
            Part::Page => Err(E::invalid_type(Unexpected::Unit, &self)),
            Part::Tags | Part::Times => Ok(()),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Part::Tags = self.part else {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        };
        while let Some(tag) = list.next_element::<Text<'_>>()? {
            self.listing.add_tag(&tag.0);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let listing = match self.part {
            Part::Page => self.listing,
            Part::Tags => return Err(A::Error::invalid_type(Unexpected::Map, &self)),
            Part::Times => {
                while let Some((_, image)) = map.next_entry::<IgnoredAny, Dated<'_>>()? {
                    let Some(at) = image.time() else { continue };
                    image.tag.iter().for_each(|tag| self.listing.add_time(&tag.0, at));
                }
                return Ok(());
            }
        };
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Tags => map.next_value_seed(Seed { part: Part::Tags, listing })?,
                Key::Manifest => map.next_value_seed(Seed { part: Part::Times, listing })?,
                Key::Other => map.next_value::<IgnoredAny>().map(|_| ())?,
            }
        }
        Ok(())
    }
}

/// A text that is not copied where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dated<'a> {
    #[serde(default, borrow, deserialize_with = "first::<_, _, TAGS_OF_ONE>")]
    tag: Vec<Text<'a>>,
    #[serde(borrow)]
    time_created_ms: Option<Text<'a>>,
    #[serde(borrow)]
    time_uploaded_ms: Option<Text<'a>>,
}

impl Dated<'_> {
    /// Builds that are reproducible say that they were made in 1970, or 1980; then the upload counts.
    fn time(&self) -> Option<Timestamp> {
        let parse = |text: &Option<Text<'_>>| {
            let at = Timestamp::from_millisecond(text.as_ref()?.0.parse().ok()?).ok();
            at.filter(|at| is_plausible(*at))
        };
        parse(&self.time_created_ms).or_else(|| parse(&self.time_uploaded_ms))
    }
}

/// Reads the first `MAX` of a list; the others are skipped.
pub(super) fn first<'de, D, T, const MAX: usize>(reader: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct First<T, const MAX: usize>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for First<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut first = Vec::new();
            while let Some(element) = list.next_element()? {
                if first.len() < MAX {
                    first.push(element);
                }
            }
            Ok(first)
        }
    }
    reader.deserialize_seq(First::<T, MAX>(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookups::registry::tags::MAX_TAGS;
    use crate::lookups::registry::tags::select_likely;

    fn page(body: &[u8]) -> Option<TagListing> {
        let mut listing = TagListing::default();
        read_page(body, false, &mut listing).then_some(listing)
    }

    #[test]
    fn a_page_is_a_list_of_tags() {
        let listing =
            page(br#"{"name": "a/b", "x": [[{}]], "tags": ["1.0", "2\u002e0"]}"#).unwrap();
        assert_eq!(listing.tags, ["1.0", "2.0"]);
        assert_eq!(page(br#"{"tags": null, "manifest": null}"#), Some(TagListing::default()));
        for none in [&b"<html>"[..], b"[]", b"{", br#"{"tags": [1]}"#, br#"{"tags": ["a"]} x"#] {
            assert_eq!(page(none), None);
        }
    }

    #[test]
    fn google_says_the_times_of_all_in_one_answer() {
        let body = br#"{"tags": ["1", "2", "3"], "manifest": {
            "sha256:a": {"tag": ["1", "latest"], "timeCreatedMs": "1700000000000", "timeUploadedMs": "1"},
            "sha256:b": {"tag": ["2"], "timeCreatedMs": "0", "timeUploadedMs": "1600000000000"},
            "sha256:c": {"tag": ["3"], "timeCreatedMs": "soon"}}}"#;
        let page = page(body).unwrap();
        let at = |tag: &str| page.times.get(tag).map(|at| at.as_millisecond());
        assert_eq!(at("1"), Some(1_700_000_000_000));
        assert_eq!(
            at("2"),
            Some(1_600_000_000_000),
            "one that was made in 1970 was uploaded later"
        );
        assert_eq!(at("3"), None);
        assert_eq!(select_likely(&page.tags, &page.times, 2), ["1", "2"]);
    }

    #[test]
    fn what_is_no_tag_of_an_image_is_no_build() {
        let signature = format!("sha256-{}.sig", "ab".repeat(32));
        let long = "x".repeat(129);
        let tags =
            [signature.as_str(), "1.0", "a/b", "", "a\u{202e}b", "a b", "\u{1b}[2J", ".x", &long];
        let body = serde_json::json!({"tags": tags}).to_string();
        assert_eq!(page(body.as_bytes()).unwrap().tags, ["1.0"]);
    }

    #[test]
    fn no_more_is_kept_than_anybody_needs() {
        let tags: Vec<String> = (0..MAX_TAGS + 5).map(|n| n.to_string()).collect();
        let images: serde_json::Map<_, _> = (0..3)
            .map(|n| {
                (n.to_string(), serde_json::json!({"tag": tags, "timeCreatedMs": "1700000000000"}))
            })
            .collect();
        let body = serde_json::json!({"tags": tags, "manifest": images}).to_string();
        let listing = page(body.as_bytes()).unwrap();
        assert_eq!(
            (listing.tags.len(), listing.times.len(), listing.is_full),
            (MAX_TAGS, TAGS_OF_ONE, true)
        );
        let few = page(br#"{"tags": ["1"]}"#).unwrap();
        assert!(!few.is_full);
    }

    #[test]
    fn of_a_page_that_is_cut_what_was_read_counts() {
        let mut listing = TagListing::default();
        assert!(read_page(br#"{"tags": ["1.0", "2.0", "3."#, true, &mut listing));
        assert_eq!(listing.tags, ["1.0", "2.0"]);
        assert!(!read_page(br#"{"tags": ["1.0", "2.0", "3."#, false, &mut listing));
        assert!(!read_page(b"<html>", true, &mut listing));
    }

    #[test]
    fn deep_nesting_is_no_page_and_no_end_of_the_program() {
        let deep = |part: &str| format!("{part}{}", "[".repeat(1_000_000));
        for body in
            [deep(""), deep(r#"{"tags": "#), deep(r#"{"x": "#), deep(r#"{"manifest": {"a": "#)]
        {
            assert_eq!(page(body.as_bytes()), None);
        }
    }
}
