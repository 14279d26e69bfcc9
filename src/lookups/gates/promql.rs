//! Judges what Prometheus answers to an instant query. Pure.

use serde::Deserialize;
use serde_json::Value as Json;

use crate::lookups::gates::GateReply;

/// The most warnings that are shown.
const MAX_WARNINGS: usize = 3;

/// The bound of a value, as a decimal in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueBound<'a> {
    /// The value is at most this.
    AtMost(&'a str),
    /// The value is at least this.
    AtLeast(&'a str),
}

impl ValueBound<'_> {
    /// Returns the number.
    pub(super) fn limit(&self) -> Result<f64, String> {
        let (Self::AtMost(text) | Self::AtLeast(text)) = self;
        let fault = || format!("the gate's bound {text:?} is not a decimal: write it like 0.05");
        parse_decimal(text).ok_or_else(fault)
    }

    fn sentence(&self, value: &str, holds: bool) -> String {
        match (self, holds) {
            (Self::AtMost(limit), true) => format!("{value} is at most {limit}"),
            (Self::AtMost(limit), false) => format!("{value} is more than {limit}"),
            (Self::AtLeast(limit), true) => format!("{value} is at least {limit}"),
            (Self::AtLeast(limit), false) => format!("{value} is less than {limit}"),
        }
    }
}

/// Parses a decimal such as `0.05`, `-3` or `1e-7`. Two texts are compared as the nearest numbers of 64 bits, which is
/// how Prometheus computes: what it writes as `0.05` is equal to a bound of 0.05.
fn parse_decimal(text: &str) -> Option<f64> {
    let digits = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E');
    let number = text.bytes().all(digits).then(|| text.parse::<f64>().ok());
    number.flatten().filter(|number| number.is_finite())
}

/// An answer with data.
#[derive(Deserialize)]
struct QueryAnswer {
    status: String,
    data: Option<QueryData>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    warnings: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct QueryData {
    #[serde(rename = "resultType")]
    kind: String,
    result: Json,
}

/// A sample of a vector; a native histogram has no value.
#[derive(Deserialize)]
struct VectorSample {
    #[serde(default)]
    value: Option<Sample>,
}

/// A time, and the value as text.
#[derive(Deserialize)]
struct Sample(#[expect(dead_code, reason = "the time is the first of two")] Json, String);

/// Returns the text of an answer that is an error.
pub(super) fn read_error(body: &[u8]) -> Option<String> {
    serde_json::from_slice::<QueryAnswer>(body).ok()?.error
}

/// Compares the only value of an answer with the bound.
///
/// # Errors
/// The reason why the answer has no such value.
pub(super) fn judge(body: &[u8], bound: ValueBound<'_>, limit: f64) -> Result<GateReply, String> {
    let unreadable = || "Prometheus answers what cannot be read".to_owned();
    let answer: QueryAnswer = serde_json::from_slice(body).map_err(|_| unreadable())?;
    let QueryAnswer { status, data, error, warnings } = answer;
    let Some(QueryData { kind, result }) = data.filter(|_| status == "success") else {
        return Err(error.map_or_else(unreadable, |error| format!("Prometheus answers: {error}")));
    };
    let value = match kind.as_str() {
        "scalar" => {
            let Sample(_, value) = serde_json::from_value(result).map_err(|_| unreadable())?;
            Some(value)
        }
        "vector" => match only_value(result).ok_or_else(unreadable)? {
            OnlyValue::Number(value) => Some(value),
            OnlyValue::NoData => None,
            OnlyValue::Several(count) => {
                let reason = format!(
                    "the query has {count} values and not one: aggregate them, with sum() or max()"
                );
                return Ok(GateReply::NotPassed(with_warnings(reason, warnings)));
            }
            OnlyValue::Histogram => return Err("the query's value is a histogram".to_owned()),
        },
        kind => {
            return Err(format!("the query has a {kind} as its result, and not one number"));
        }
    };
    let Some(value) = value else {
        let reason = "no data: the query has no value".to_owned();
        return Ok(GateReply::NotPassed(with_warnings(reason, warnings)));
    };
    let number: f64 = value.parse().map_err(|_| unreadable())?;
    if !number.is_finite() {
        let reason = format!("the query's value is {value}, which no bound holds");
        return Ok(GateReply::NotPassed(with_warnings(reason, warnings)));
    }
    let holds = match bound {
        ValueBound::AtMost(_) => number <= limit,
        ValueBound::AtLeast(_) => number >= limit,
    };
    let sentence = with_warnings(bound.sentence(&value, holds), warnings);
    Ok(if holds { GateReply::Passed(sentence) } else { GateReply::NotPassed(sentence) })
}

/// The samples of a vector.
enum OnlyValue {
    Number(String),
    NoData,
    Several(usize),
    Histogram,
}

fn only_value(result: Json) -> Option<OnlyValue> {
    let mut samples: Vec<VectorSample> = serde_json::from_value(result).ok()?;
    Some(match (samples.pop(), samples.len()) {
        (None, _) => OnlyValue::NoData,
        (Some(VectorSample { value: Some(Sample(_, value)) }), 0) => OnlyValue::Number(value),
        (Some(VectorSample { value: None }), 0) => OnlyValue::Histogram,
        (Some(_), others) => OnlyValue::Several(others + 1),
    })
}

/// Adds the warnings: a value may be one of only a part of the data.
fn with_warnings(sentence: String, warnings: Option<Vec<String>>) -> String {
    let warnings = warnings.unwrap_or_default();
    if warnings.is_empty() {
        return sentence;
    }
    let rest = match warnings.len().saturating_sub(MAX_WARNINGS) {
        0 => String::new(),
        rest => format!("; and {rest} more"),
    };
    let texts: Vec<_> = warnings.into_iter().take(MAX_WARNINGS).collect();
    format!("{sentence} (Prometheus warns: {}{rest})", texts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges a value against "at most 0.05".
    fn judge_with(kind: &str, result: &str) -> Result<GateReply, String> {
        let body =
            format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#);
        judge(body.as_bytes(), ValueBound::AtMost("0.05"), 0.05)
    }

    fn vector(values: &[&str]) -> GateReply {
        let sample =
            |value: &&str| format!(r#"{{"metric":{{}},"value":[1795559081.7,"{value}"]}}"#);
        let samples: Vec<_> = values.iter().map(sample).collect();
        judge_with("vector", &format!("[{}]", samples.join(","))).unwrap()
    }

    fn passed(value: &str) -> GateReply {
        GateReply::Passed(value.to_owned())
    }

    fn not_passed(value: &str) -> GateReply {
        GateReply::NotPassed(value.to_owned())
    }

    #[test]
    fn the_only_value_is_compared_with_the_bound() {
        assert_eq!(vector(&["0.02"]), passed("0.02 is at most 0.05"));
        assert_eq!(vector(&["0.05"]), passed("0.05 is at most 0.05"));
        assert_eq!(
            vector(&["0.050000000000000010"]),
            not_passed("0.050000000000000010 is more than 0.05")
        );
        assert_eq!(vector(&["-1"]), passed("-1 is at most 0.05"));
        assert_eq!(
            judge_with("scalar", r#"[1795559081.7,"1e-7"]"#).unwrap(),
            passed("1e-7 is at most 0.05")
        );
        let least = |value: &str| {
            let body = format!(
                r#"{{"status":"success","data":{{"resultType":"scalar","result":[1,"{value}"]}}}}"#
            );
            judge(body.as_bytes(), ValueBound::AtLeast("99.9"), 99.9).unwrap()
        };
        assert_eq!(least("99.9"), passed("99.9 is at least 99.9"));
        assert_eq!(least("99.89"), not_passed("99.89 is less than 99.9"));
    }

    #[test]
    fn a_query_without_exactly_one_number_does_not_pass() {
        assert_eq!(vector(&[]), not_passed("no data: the query has no value"));
        assert_eq!(
            vector(&["0", "0", "0"]),
            not_passed("the query has 3 values and not one: aggregate them, with sum() or max()")
        );
        for value in ["NaN", "+Inf", "-Inf"] {
            let text = format!("the query's value is {value}, which no bound holds");
            assert_eq!(vector(&[value]), not_passed(&text));
        }
    }

    #[test]
    fn a_result_that_is_no_number_is_unanswered() {
        for (kind, result, reason) in [
            ("string", r#"[1,"a"]"#, "the query has a string as its result, and not one number"),
            ("matrix", r#"[{"metric":{},"values":[[1,"1"]]}]"#, "the query has a matrix"),
            ("vector", r#"[{"metric":{},"histogram":[1,{"count":"1"}]}]"#, "a histogram"),
            ("vector", r#"[{"metric":{},"value":[1,2]}]"#, "cannot be read"),
            ("vector", r#"{"a":1}"#, "cannot be read"),
            ("scalar", r#"[1,"one"]"#, "cannot be read"),
            ("scalar", "[1]", "cannot be read"),
        ] {
            let text = judge_with(kind, result).unwrap_err();
            assert!(text.contains(reason), "{reason}: {text}");
        }
        for body in ["", "<html>", "[]", "null", r#"{"status":"success"}"#, r#"{"status":"error"}"#]
        {
            let text = judge(body.as_bytes(), ValueBound::AtMost("1"), 1.0).unwrap_err();
            assert_eq!(text, "Prometheus answers what cannot be read", "{body}");
        }
        let error = r#"{"status":"error","errorType":"bad_data","error":"1:4: parse error"}"#;
        let text = judge(error.as_bytes(), ValueBound::AtMost("1"), 1.0).unwrap_err();
        assert_eq!(text, "Prometheus answers: 1:4: parse error");
        assert_eq!(read_error(error.as_bytes()).as_deref(), Some("1:4: parse error"));
        assert_eq!(read_error(b"<html>"), None);
    }

    #[test]
    fn warnings_are_shown_with_the_value() {
        let warned = |warnings: &str| {
            let body = format!(
                r#"{{"status":"success","data":{{"resultType":"scalar","result":[1,"2"]}},"warnings":{warnings}}}"#
            );
            judge(body.as_bytes(), ValueBound::AtMost("3"), 3.0).unwrap()
        };
        assert_eq!(
            warned(r#"["store a is away"]"#),
            passed("2 is at most 3 (Prometheus warns: store a is away)")
        );
        assert_eq!(
            warned(r#"["a","b","c","d","e"]"#),
            passed("2 is at most 3 (Prometheus warns: a; b; c; and 2 more)")
        );
        assert_eq!(warned("null"), passed("2 is at most 3"));
        assert_eq!(warned("[]"), passed("2 is at most 3"));
    }

    #[test]
    fn a_bound_is_a_decimal() {
        for text in ["0", "0.05", "-3", "+3", "1e-7", "1E3", ".5", "100."] {
            assert!(parse_decimal(text).is_some(), "{text}");
        }
        for text in
            ["", "NaN", "inf", "Infinity", "1e999", "0x1", "1_000", "1,5", " 1", "5%", "-", "e"]
        {
            assert_eq!(parse_decimal(text), None, "{text}");
        }
        let text = ValueBound::AtMost("5%").limit().unwrap_err();
        assert_eq!(text, "the gate's bound \"5%\" is not a decimal: write it like 0.05");
    }

    proptest::proptest! {
        #[test]
        fn only_a_number_within_the_bound_passes(value in proptest::num::f64::ANY, limit in -1e9..1e9_f64) {
            let result = vector_of(value);
            let bound = limit.to_string();
            let reply = judge(result.as_bytes(), ValueBound::AtMost(&bound), limit).unwrap();
            let is_passed = matches!(reply, GateReply::Passed(_));
            proptest::prop_assert_eq!(is_passed, value.is_finite() && value <= limit);
            let reply = judge(result.as_bytes(), ValueBound::AtLeast(&bound), limit).unwrap();
            let is_passed = matches!(reply, GateReply::Passed(_));
            proptest::prop_assert_eq!(is_passed, value.is_finite() && value >= limit);
        }

        /// Bytes that are almost an answer: parts of one, in any order.
        #[test]
        fn no_answer_makes_it_panic_and_none_without_a_value_passes(
            parts in proptest::collection::vec(proptest::sample::select(PARTS), 0..24),
        ) {
            let body = parts.concat();
            let _ = read_error(body.as_bytes());
            let result = judge(body.as_bytes(), ValueBound::AtMost("1"), 1.0);
            if let Ok(GateReply::Passed(text)) = result {
                proptest::prop_assert!(body.contains(r#""success""#) && body.contains(r#""1""#), "{}: {}", body, text);
            }
        }
    }

    fn vector_of(value: f64) -> String {
        let text = match value {
            f64::INFINITY => "+Inf".to_owned(),
            f64::NEG_INFINITY => "-Inf".to_owned(),
            value => value.to_string(),
        };
        format!(
            r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{}},"value":[1,"{text}"]}}]}}}}"#
        )
    }

    const PARTS: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        r#""status":"success""#,
        r#""status":"error""#,
        r#""data""#,
        r#""resultType":"scalar""#,
        r#""resultType":"vector""#,
        r#""result""#,
        r#""value""#,
        r#"[1,"1"]"#,
        r#"[1,"NaN"]"#,
        r#""warnings":["w"]"#,
        r#""error":"e""#,
        "null",
        "1e999",
        "é",
        "\u{0}",
        r#"{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"1"]}"#,
        "]}}",
    ];
}
