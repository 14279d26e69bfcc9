//! Plain scalars read as a boolean, a number or text, or without a wanted type.
//!
//! YAML 1.1 and 1.2 disagree on words such as `on`, `017` and `1_000`. Where text is wanted the spelling is kept; where
//! a number or a boolean is wanted, a spelling that the two read differently is refused with a right form, and never
//! guessed.

use serde_json::Value as Json;

use crate::waml::node::{Node, Scalar, Value};

/// Words that YAML 1.1 reads as booleans and YAML 1.2 as text.
const YAML11_WORDS: [&str; 6] = ["yes", "no", "on", "off", "y", "n"];

/// The error of a scalar of the wrong type, with the right form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScalarError {
    /// Its actual type: `is text`.
    pub(crate) why: String,
    /// The right form.
    pub(crate) help: String,
}

impl ScalarError {
    /// Makes a misreading with a line to write as its help, which the place makes.
    pub(crate) fn with_example(why: &str) -> Self {
        Self { why: why.to_owned(), help: String::new() }
    }
}

/// Checks that a plain text means null.
pub(crate) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Reads the boolean that the scalar means.
pub(crate) fn boolean(scalar: &Scalar) -> Result<bool, ScalarError> {
    let not_boolean =
        |why: &str, help: &str| ScalarError { why: why.to_owned(), help: help.to_owned() };
    match (scalar.text.as_str(), scalar.quoted) {
        ("true" | "True" | "TRUE", false) => Ok(true),
        ("false" | "False" | "FALSE", false) => Ok(false),
        ("true" | "false", true) => {
            Err(not_boolean("is quoted, so it is text", "remove the quotes"))
        }
        (word, _) if YAML11_WORDS.contains(&word.to_ascii_lowercase().as_str()) => Err(
            not_boolean("is a boolean in YAML 1.1 and text in YAML 1.2", "write `true` or `false`"),
        ),
        _ => Err(not_boolean("is not a boolean", "write `true` or `false`")),
    }
}

/// Reads the whole number that the scalar means.
pub(crate) fn integer(scalar: &Scalar) -> Result<i64, ScalarError> {
    let text = scalar.text.as_str();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if scalar.quoted && all_digits {
        return Err(scalar_error(
            "is quoted, so it is text",
            format!("write {text} without quotes"),
        ));
    }
    if all_digits && digits.len() > 1 && digits.starts_with('0') {
        let plain = digits.trim_start_matches('0');
        return Err(scalar_error(
            "is octal in YAML 1.1 and decimal in YAML 1.2",
            format!("write {} without leading zeros", if plain.is_empty() { "0" } else { plain }),
        ));
    }
    if digits.contains('_') && digits.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        let plain = text.replace('_', "");
        return Err(scalar_error("is a number only in YAML 1.1", format!("write {plain}")));
    }
    if digits.starts_with("0x") || digits.starts_with("0o") || digits.starts_with("0b") {
        return Err(scalar_error("is not decimal", "write the number in decimal".to_owned()));
    }
    if !all_digits {
        return Err(scalar_error("is not a whole number", "write digits only".to_owned()));
    }
    text.strip_prefix('+').unwrap_or(text).parse().map_err(|_| {
        scalar_error("is too large a number", "write a number that fits into 64 bits".to_owned())
    })
}

/// Reads the number that the scalar means, fractions allowed.
pub(crate) fn number(scalar: &Scalar) -> Result<f64, ScalarError> {
    match integer(scalar) {
        #[expect(clippy::cast_precision_loss, reason = "a number with a fraction was asked for")]
        Ok(integer) => Ok(integer as f64),
        Err(misread) if is_decimal(&scalar.text) && !scalar.quoted => {
            scalar.text.parse().map_err(|_| misread)
        }
        Err(ScalarError { why, help }) if why == "is not a whole number" => Err(ScalarError {
            why: "is not a number".to_owned(),
            help: help.replace("digits only", "a decimal number, such as 99.9"),
        }),
        Err(misread) => Err(misread),
    }
}

fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    matches!(digits.split_once('.'), Some((integer_part, fraction))
        if !integer_part.is_empty() && !fraction.is_empty()
            && integer_part.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()))
}

fn scalar_error(why: &str, help: String) -> ScalarError {
    ScalarError { why: why.to_owned(), help }
}

/// Reads a value without a wanted type, as YAML 1.2's core schema reads it.
pub(crate) fn read_untyped(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::List(list) => Json::Array(list.iter().map(read_untyped).collect()),
        Value::Map(map) => Json::Object(
            map.iter().map(|(key, entry)| (key.clone(), read_untyped(&entry.node))).collect(),
        ),
        Value::Scalar(scalar) => untyped_scalar(scalar),
    }
}

fn untyped_scalar(scalar: &Scalar) -> Json {
    let text = scalar.text.as_str();
    let as_text = || Json::String(text.to_owned());
    if scalar.quoted {
        return as_text();
    }
    // Most values are texts, and an error is made for whatever a text is not: the first character says most of it.
    match text.as_bytes().first() {
        Some(b't' | b'T' | b'f' | b'F') => boolean(scalar).map_or_else(|_| as_text(), Json::Bool),
        Some(b'0'..=b'9' | b'-' | b'+') => match integer(scalar) {
            Ok(integer) => Json::from(integer),
            Err(_) => number(scalar).map_or_else(|_| as_text(), Json::from),
        },
        _ => as_text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Scalar {
        Scalar { text: text.to_owned(), quoted: false }
    }

    #[test]
    fn what_both_versions_read_alike_is_taken() {
        assert_eq!(integer(&plain("8000")), Ok(8000));
        assert_eq!(integer(&plain("-1")), Ok(-1));
        assert_eq!(integer(&plain("0")), Ok(0));
        assert_eq!(boolean(&plain("true")), Ok(true));
        assert_eq!(number(&plain("99.9")), Ok(99.9));
        assert_eq!(number(&plain("100")), Ok(100.0));
    }

    #[test]
    fn what_they_read_differently_is_refused_with_the_right_spelling() {
        assert_eq!(integer(&plain("017")).unwrap_err().help, "write 17 without leading zeros");
        assert_eq!(integer(&plain("1_000")).unwrap_err().help, "write 1000");
        for text in ["0x1F", "0o17", "1e3", "1.0", "", "12a", "99999999999999999999", "--1"] {
            assert!(integer(&plain(text)).is_err(), "{text}");
        }
        for text in ["yes", "No", "on", "OFF", "1", "y"] {
            assert!(boolean(&plain(text)).is_err(), "{text}");
        }
        for text in [".5", "1.", "1e3", ".nan", ".inf", "1.2.3", "0x1.8"] {
            assert!(number(&plain(text)).is_err(), "{text}");
        }
    }
}
