//! `PromQL`, as far as it can be checked without a Prometheus: expressions by its grammar and types, durations, and the
//! placeholders in an alert's texts.
//!
//! This check does not know the existing metrics. The cost of an expression is limited by Prometheus.

use promql_parser::parser::value::ValueType;
use promql_parser::parser::{Expr, token};

/// The longest expression that is read, in bytes. Prometheus itself has no limit; the parser's
/// tree is as deep as the text is nested, and must fit on the stack.
pub const LONGEST: usize = 4096;

/// The depth to which parentheses may nest.
const DEEPEST: usize = 40;

/// The limit of operators in an expression: each of them makes the tree one level deeper.
const MAX_OPERATORS: usize = 200;

/// Checks an expression of an alert or of a gate.
///
/// # Errors
/// The fault, in one sentence without a full stop.
pub fn check(expression: &str) -> Result<(), String> {
    if expression.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    if expression.len() > LONGEST {
        return Err(format!("it has {} bytes, and {LONGEST} are the limit", expression.len()));
    }
    check_nesting(expression)?;
    let parsed = promql_parser::parser::parse(expression).map_err(|error| one_line(&error))?;
    match parsed.value_type() {
        ValueType::Vector | ValueType::Scalar => Ok(()),
        ValueType::Matrix => Err("it gives ranges, and not one value each".to_owned()),
        ValueType::String => Err("it gives a text, and not numbers".to_owned()),
    }
}

/// Checks that an expression that [`check`] takes may give nothing while its metrics are there: it
/// compares, takes one set from another, or looks for what is absent. `up` gives a series as long
/// as anything is measured, and so does `up > bool 1`: that gives 0 where it is not so.
pub fn has_condition(expression: &str) -> bool {
    promql_parser::parser::parse(expression).map_or(true, |parsed| may_be_empty(&parsed))
}

/// Checks that an expression may give nothing; the tree is as deep as the expression is nested,
/// which [`check`] bounds.
fn may_be_empty(expression: &Expr) -> bool {
    match expression {
        Expr::Binary(binary) => {
            let of_both = || [&binary.lhs, &binary.rhs].map(|side| may_be_empty(side));
            match binary.op.id() {
                token::T_LAND | token::T_LUNLESS => true,
                token::T_LOR => of_both() == [true, true],
                _ if binary.op.is_comparison_operator() && !binary.return_bool() => true,
                _ => of_both().contains(&true),
            }
        }
        Expr::Call(call) => match call.func.name {
            "absent" | "absent_over_time" => true,
            // A value in any case.
            "vector" | "scalar" => false,
            _ => call.args.args.iter().any(|argument| may_be_empty(argument)),
        },
        Expr::Aggregate(aggregate) => may_be_empty(&aggregate.expr),
        Expr::Paren(inner) => may_be_empty(&inner.expr),
        Expr::Unary(inner) => may_be_empty(&inner.expr),
        Expr::Subquery(inner) => may_be_empty(&inner.expr),
        Expr::NumberLiteral(_)
        | Expr::StringLiteral(_)
        | Expr::VectorSelector(_)
        | Expr::MatrixSelector(_)
        | Expr::Extension(_) => false,
    }
}

/// Removes the `bool` behind the comparisons of an expression, where leaving that out makes it a
/// condition.
pub fn without_bool(expression: &str) -> Option<String> {
    let mut rest = expression;
    let mut stripped = String::with_capacity(expression.len());
    while let Some(at) = rest.find(['<', '>', '=']) {
        let (before, after) = rest.split_at_checked(at + 1)?;
        stripped.push_str(before);
        let word = after.strip_prefix('=').unwrap_or(after);
        stripped.push_str(after.get(..after.len() - word.len())?);
        let trimmed = word.trim_start();
        let is_bool = trimmed.get(..4).is_some_and(|text| text.eq_ignore_ascii_case("bool"))
            && !trimmed.get(4..)?.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        rest = if is_bool { trimmed.get(4..)? } else { word };
    }
    stripped.push_str(rest);
    (stripped != expression && check(&stripped).is_ok() && has_condition(&stripped))
        .then_some(stripped)
}

/// Checks that brackets outside of texts match, and neither they nor operators are nested without
/// measure.
fn check_nesting(expression: &str) -> Result<(), String> {
    let code = without_texts(expression)?;
    let mut open = Vec::new();
    for c in code.chars() {
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(c) => {
                return Err(format!("its brackets do not match: there is a `{c}` too many"));
            }
            _ => {}
        }
        if open.len() > DEEPEST {
            return Err(format!("its brackets are nested deeper than {DEEPEST}"));
        }
    }
    if let Some(missing) = open.last() {
        return Err(format!("its brackets do not match: there is no `{missing}` at the end"));
    }
    if operators(&code) > MAX_OPERATORS {
        return Err(format!("it has more than {MAX_OPERATORS} operators"));
    }
    Ok(())
}

/// Removes quoted texts from the expression; `` ` `` knows no escapes.
fn without_texts(expression: &str) -> Result<String, String> {
    let (mut code, mut quote, mut escaped) = (String::new(), None, false);
    for c in expression.chars() {
        match quote {
            _ if escaped => escaped = false,
            Some('"' | '\'') if c == '\\' => escaped = true,
            Some(end) if end == c => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'' | '`') => quote = Some(c),
            None => code.push(c),
        }
    }
    match quote {
        Some(quote) => Err(format!("a text in it has no closing {quote}")),
        None => Ok(code),
    }
}

fn operators(code: &str) -> usize {
    let is_word =
        |word: &&str| ["and", "or", "unless"].iter().any(|w| word.eq_ignore_ascii_case(w));
    let words = code.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_word).count();
    words + code.chars().filter(|c| "+-*/%^<>=@".contains(*c)).count()
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text: String = words.join(" ").chars().take(200).collect();
    match text.as_str() {
        "" | "invalid promql query" => "it is not PromQL".to_owned(),
        _ => text,
    }
}

/// Parses a duration as Prometheus writes it, `1h30m`, into seconds. Units go from large to small,
/// each at most once, and `0` needs none: the grammar of the `for` of `PrometheusRule`.
pub fn seconds(duration: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 7] = [
        ("y", 365.0 * 86_400.0),
        ("w", 7.0 * 86_400.0),
        ("d", 86_400.0),
        ("h", 3600.0),
        ("m", 60.0),
        ("s", 1.0),
        ("ms", 0.001),
    ];
    if duration == "0" {
        return Some(0.0);
    }
    let (mut rest, mut units, mut sum) = (duration, UNITS.as_slice(), 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at_checked(digits)?;
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        let at = units.iter().position(|(name, _)| *name == unit)?;
        // Nine digits of any unit are within what Prometheus can count in nanoseconds but for years.
        let number: f64 = (1..=9).contains(&number.len()).then(|| number.parse().ok())??;
        sum += number * units.get(at)?.1;
        units = units.get(at + 1..)?;
        rest = after;
    }
    (!duration.is_empty()).then_some(sum)
}

/// Escapes a foreign text so that Prometheus does not take it for a template: it expands `{{ … }}` in labels and
/// annotations, and refuses the rule when that fails.
pub fn literal(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}

/// Checks that the `{{ … }}` of a text open and close in turn.
pub fn has_whole_placeholders(text: &str) -> bool {
    let mut rest = text;
    loop {
        match (rest.find("{{"), rest.find("}}")) {
            (None, None) => return true,
            (Some(open), Some(close)) if open < close => {
                let inner = rest.get(open + 2..close).unwrap_or_default();
                if inner.trim().is_empty() || inner.contains("{{") {
                    return false;
                }
                rest = rest.get(close + 2..).unwrap_or_default();
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expressions_are_checked_by_grammar_and_type() {
        for good in [
            "up == 0",
            "vector(1)",
            "1 > bool 0",
            r#"sum by (pod) (rate(http_requests_total{code=~"5..", path="/a)"}[5m])) > 0.1"#,
            "a * on (x) group_left () b unless c",
            "max_over_time(a[1h:5m] offset 1d) > 0",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, message) in [
            ("", "it is empty"),
            ("sum(rate(a[5m])", "its brackets do not match: there is no `)` at the end"),
            ("a[5m}", "its brackets do not match: there is a `}` too many"),
            ("a{b=\"c}", "a text in it has no closing \""),
            ("a[5m]", "it gives ranges, and not one value each"),
            ("'a'", "it gives a text, and not numbers"),
        ] {
            assert_eq!(check(bad), Err(message.to_owned()), "{bad}");
        }
        for bad in ["rate(a)", "sum by a", "a > > b", "nope(a)", "a{b}", "a > 1)("] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_condition_leaves_something_out() {
        for expression in [
            "up == 0",
            "rate(x[5m]) > 1",
            "a unless b",
            "absent(up)",
            "sum(x > 1)",
            "(count(up == 0)) >= bool 1",
            "max_over_time((a > 1)[5m:1m])",
            "a > 1 or b > 2",
            "-(a < 3)",
            "absent_over_time(x[5m])",
        ] {
            assert!(has_condition(expression), "{expression}");
        }
        for expression in [
            "up",
            "rate(x[5m]) > bool 1",
            "rate(x[5m]) >bool 1",
            "sum(a{b!=\"c\"}) == BOOL 3",
            "a > 1 or vector(0)",
            "vector(1)",
            "1 > bool 0",
            "and_more{x=\"and\"} + on (a) group_left () b",
            "time()",
        ] {
            assert_eq!(check(expression), Ok(()), "{expression}");
            assert!(!has_condition(expression), "{expression}");
        }
        assert_eq!(without_bool("rate(x[5m]) > bool 1").as_deref(), Some("rate(x[5m]) > 1"));
        assert_eq!(without_bool("a >=bool b").as_deref(), Some("a >= b"));
        for expression in ["up", "1 > bool 0", "a > 1", "a == boolean"] {
            assert_eq!(without_bool(expression), None, "{expression}");
        }
    }

    #[test]
    fn what_is_nested_without_measure_is_refused_before_it_is_parsed() {
        assert!(
            check(&format!("{}1{}", "(".repeat(41), ")".repeat(41)))
                .unwrap_err()
                .contains("41".trim_end_matches('1'))
        );
        assert!(check(&"-".repeat(300)).is_err());
        assert!(check(&vec!["a"; 300].join(" or ")).unwrap_err().contains("operators"));
        assert!(check(&"a".repeat(5000)).unwrap_err().contains("bytes"));
    }

    #[test]
    fn durations_are_those_of_prometheus() {
        for (text, expected) in [
            ("0", 0.0),
            ("5m", 300.0),
            ("1h30m", 5400.0),
            ("1d", 86_400.0),
            ("90s", 90.0),
            ("500ms", 0.5),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in ["", "5", "m", "5 m", "-5m", "1m1h", "5min", "1.5h", "1m1m", "9999999999y"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn placeholders_are_whole_and_other_texts_are_literal() {
        for good in ["", "a", "{{ $value }}", "{ } {{ a }} b {{ c }}"] {
            assert!(has_whole_placeholders(good), "{good}");
        }
        for bad in ["{{", "}}", "{{ a", "{{}}", "}} {{", "{{ a {{ b }}", "{{ a }} }}"] {
            assert!(!has_whole_placeholders(bad), "{bad}");
        }
        assert_eq!(literal("#{{x}}"), "#{{ \"{{\" }}x}}");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[ -~\\n]{0,80}") {
            let _ = (check(&text), seconds(&text), has_whole_placeholders(&text));
        }

        #[test]
        fn nothing_like_an_expression_makes_the_parser_panic(
            parts in proptest::collection::vec(
                prop::sample::select(vec![
                    "a", "sum", "by", "(", ")", "{", "}", "[", "]", "5m", ":", "1", "\"x\"", "=~", "and",
                    "on", "group_left", "offset", "@", "-", "rate", "bool", ",", "> ", "topk", "inf", "0x", "é",
                    "start()", "without", "1e999", "999999999999y",
                ]),
                0..30,
            ),
            blank in prop::bool::ANY,
        ) {
            let _ = check(&parts.join(if blank { " " } else { "" }));
        }
    }
}
