//! The template engine, set up so that no value can break out of its place.
//!
//! Every text that a template inserts is written as a double-quoted YAML scalar in which all but letters and digits are
//! escaped. In every place it adds letters, digits, backslashes and two quotes: never a colon, a newline or a bracket.
//! A value that was meant as one stays one, or the result is not YAML and is refused. Numbers and booleans are inserted
//! as they are; whole lists and maps through the filter `yaml`.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;

use tera::{Context, ErrorKind, Kwargs, State, Tera, TeraResult};

use crate::model::template::TemplateFile;
use crate::model::violation::{Position, Violation};
use crate::templates::turns;
use crate::templates::turns::Insertions;

/// The ending of a template file's name.
pub(crate) const SUFFIX: &str = ".yaml.tmpl";

/// The prefix of a shared file's name.
pub(crate) const COMPONENTS: &str = "components/";

/// The limit of one rendered file, in bytes. Kubernetes takes objects up to 1.5 MiB (etcd's limit).
const LARGEST_FILE: usize = 1024 * 1024;

/// The files of one version of a template, parsed, with what all templates share.
#[derive(Debug)]
pub(crate) struct TemplateEngine {
    tera: Tera,
    insertions: Insertions,
}

/// Parses the files of one version of a template, and the shared ones.
///
/// Each version has an engine of its own: no other version sees a component that it defines itself.
pub(crate) fn load<'a>(
    shared: &'a [TemplateFile],
    files: impl Iterator<Item = &'a TemplateFile>,
) -> Result<TemplateEngine, Vec<Violation>> {
    let prefixed =
        |prefix: &str, file: &TemplateFile| (format!("{prefix}{}", file.path), file.text.clone());
    let shared = shared.iter().map(|file| prefixed(COMPONENTS, file));
    let texts: Vec<(String, String)> = shared.chain(files.map(|file| prefixed("", file))).collect();
    // First as they are written: only what can be parsed can be made to count.
    let parsed_texts =
        parse_templates(texts.clone(), &Insertions::default()).map_err(|violations| {
            violations
                .into_iter()
                .map(|violation| at_unclosed_tag(violation, &texts))
                .collect::<Vec<_>>()
        })?;
    if let Some(violation) = find_missing_argument(&parsed_texts, &texts) {
        return Err(vec![violation]);
    }
    let (counted_texts, insertions) = turns::insert_counts(&texts);
    Ok(TemplateEngine { tera: parse_templates(counted_texts, &insertions)?, insertions })
}

fn parse_templates(
    texts: Vec<(String, String)>,
    insertions: &Insertions,
) -> Result<Tera, Vec<Violation>> {
    let mut tera = Tera::new();
    tera.autoescape_on([SUFFIX]);
    tera.set_escape_fn(escape);
    tera.register_filter("yaml", yaml);
    turns::register(&mut tera);
    // A load error reaches the authors of templates, and never a person who deploys.
    let to_violations = |error: tera::Error| -> Vec<Violation> {
        violations(&error, insertions).into_iter().map(for_operators).collect()
    };
    tera.add_raw_templates(texts).map_err(to_violations)?;
    Ok(tera)
}

/// Finds a component that takes an argument from its caller and does not get it: the template's own files would not
/// show its reads.
fn find_missing_argument(tera: &Tera, files: &[(String, String)]) -> Option<Violation> {
    let mut names: Vec<&str> = tera.get_component_names().collect();
    names.sort_unstable();
    let (name, argument) = names.into_iter().find_map(|name| {
        let definition = tera.get_component_definition(name)?;
        let implicit = definition.args().iter().find(|argument| argument.is_implicit())?;
        Some((name, implicit.name().to_owned()))
    })?;
    let defines = |line: &str| line.contains(&format!("component {name}"));
    let position = files.iter().find_map(|(file, text)| {
        let line = text.lines().position(defines)?;
        let line = narrow(line + 1);
        Some(Position { file: Arc::from(file.as_str()), line, column: 1, length: 1 })
    });
    let message = format!("the component `{name}` takes `{argument}` and does not get it");
    let help =
        format!("write `{argument}` for `@{argument}`, and pass it where the component is called");
    Some(Violation::error("template", message).at("", position).help(help))
}

/// Lists the top-level names that the files look at.
pub(crate) fn variables(engine: &TemplateEngine, files: &[String]) -> HashSet<String> {
    let variables_of = |file: &String| engine.tera.get_template_variables(file).unwrap_or_default();
    files.iter().flat_map(variables_of).map(str::to_owned).collect()
}

/// Renders one file.
pub(crate) fn render(
    engine: &TemplateEngine,
    file: &str,
    context: &Context,
) -> Result<String, Violation> {
    let mut out = Capped { bytes: Vec::new() };
    let (rendered, is_stopped) =
        turns::run_limited(|| engine.tera.render_to(file, context, &mut out));
    if is_stopped {
        let message =
            format!("{file} does not come to an end: it loops too often, or over too much");
        return Err(Violation::error("rendered", message).help("look for a loop in the template"));
    }
    if out.bytes.len() >= LARGEST_FILE {
        let message = format!("{file} renders to more than {LARGEST_FILE} bytes");
        return Err(Violation::error("rendered", message).help("look for a loop in the template"));
    }
    rendered.map_err(|error| violation(&error, file, &engine.insertions))?;
    String::from_utf8(out.bytes)
        .map_err(|_| Violation::error("rendered", format!("{file} does not render to text")))
}

fn escape(text: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut quoted = Vec::with_capacity(text.len() * 2 + 2);
    quoted.push(b'"');
    for c in text.chars() {
        match u32::from(c) {
            _ if c.is_ascii_alphanumeric() => quoted.push(c as u8),
            code @ ..=0xff => digits(b'x', 2, code, &mut quoted),
            code @ ..=0xffff => digits(b'u', 4, code, &mut quoted),
            code => digits(b'U', 8, code, &mut quoted),
        }
    }
    quoted.push(b'"');
    insert(&quoted, out)
}

/// Writes an inserted text, if the file still has room for it.
fn insert(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    if turns::spend(bytes.len()) {
        out.write_all(bytes)
    } else {
        Err(io::ErrorKind::FileTooLarge.into())
    }
}

/// Writes a character by its number: `\x2f`, `\u20ac`, `\U0001f600`.
fn digits(sort: u8, count: u32, code: u32, out: &mut Vec<u8>) {
    out.extend([b'\\', sort]);
    let digit = |place: u32| char::from_digit(code >> (4 * place) & 0xf, 16).unwrap_or('0') as u8;
    out.extend((0..count).rev().map(digit));
}

/// Writes a list, a map or any other value on one line, as data.
fn yaml(value: &tera::Value, _: Kwargs, _: &State) -> TeraResult<tera::Value> {
    let json =
        serde_json::to_value(value).map_err(|error| tera::Error::message(error.to_string()))?;
    let mut out = Vec::new();
    flow(&json, &mut out).map_err(|error| tera::Error::message(error.to_string()))?;
    if !turns::spend(out.len()) {
        return Err(tera::Error::message("the output is larger than a file may be"));
    }
    Ok(tera::Value::safe_string(&String::from_utf8_lossy(&out)))
}

fn flow(json: &serde_json::Value, out: &mut Vec<u8>) -> io::Result<()> {
    match json {
        serde_json::Value::String(text) => escape(text, out),
        serde_json::Value::Array(list) => {
            out.write_all(b"[")?;
            for value in list {
                flow(value, out)?;
                out.write_all(b", ")?;
            }
            out.write_all(b"]")
        }
        serde_json::Value::Object(map) => {
            out.write_all(b"{")?;
            for (key, value) in map {
                escape(key, out)?;
                out.write_all(b": ")?;
                flow(value, out)?;
                out.write_all(b", ")?;
            }
            out.write_all(b"}")
        }
        other => write!(out, "{other}"),
    }
}

/// Stops a template that writes without end.
struct Capped {
    bytes: Vec<u8>,
}

impl Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = LARGEST_FILE.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        if bytes.len() > room { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lists the violations of a set of templates. Unknown names (a component, a filter) come as one text with a report for
/// each: `error: MESSAGE`, then ` --> FILE:LINE:COLUMN`.
fn violations(error: &tera::Error, insertions: &Insertions) -> Vec<Violation> {
    let text = error.to_string();
    let reports: Vec<Violation> = text.split("\n\n").filter_map(parse_report).collect();
    match error.kind() {
        ErrorKind::Msg(_) if !reports.is_empty() => reports,
        _ => vec![violation(error, "the templates", insertions)],
    }
}

fn parse_report(report: &str) -> Option<Violation> {
    let (message, rest) = report.strip_prefix("error: ")?.split_once('\n')?;
    let place = rest.lines().next()?.trim_start().strip_prefix("--> ")?;
    let mut parts = place.rsplitn(3, ':');
    let (column, line, file) = (parts.next()?, parts.next()?, parts.next()?);
    let (line, column) = (line.parse().ok()?, column.parse().ok()?);
    Some(mistake(message, Position { file: Arc::from(file), line, column, length: 1 }))
}

/// Puts a template error at its place in the template.
fn violation(error: &tera::Error, message: &str, insertions: &Insertions) -> Violation {
    let (ErrorKind::SyntaxError(report) | ErrorKind::RenderingError(report)) = error.kind() else {
        return Violation::error("template", format!("{message}: {error}"));
    };
    let (file, span) = (report.filename(), report.span());
    let written_column = |line: usize, column: usize| {
        insertions.written(file, narrow(line), narrow(column.saturating_add(1)))
    };
    let column = written_column(span.start_line, span.start_col);
    let position = Position {
        file: Arc::from(file),
        line: narrow(span.start_line),
        column,
        length: written_column(span.end_line, span.end_col).saturating_sub(column).max(1),
    };
    mistake(report.message(), position)
}

/// The help for people who deploy. The author of the templates has another one: see [`for_operators`].
const DEVELOPER_HELP: &str =
    "this is a mistake in the template, not in the WAML: tell the operator";

fn mistake(message: &str, position: Position) -> Violation {
    Violation::error("template", message.to_owned()).at("", Some(position)).help(DEVELOPER_HELP)
}

/// Rewords a violation for the authors of templates.
pub(crate) fn for_operators(mut violation: Violation) -> Violation {
    if violation.help.as_deref() == Some(DEVELOPER_HELP) {
        violation.help = Some("correct the template at this place".to_owned());
    }
    violation
}

/// Moves the report of a tag that is not closed to where it begins: the parser notices it only at
/// what follows, often lines later.
fn at_unclosed_tag(violation: Violation, texts: &[(String, String)]) -> Violation {
    let Some(place) = violation.position.clone() else { return violation };
    let Some((_, text)) = texts.iter().find(|(file, _)| **file == *place.file) else {
        return violation;
    };
    let Some((line, column, opening)) = unclosed_tag(text, place.line as usize) else {
        return violation;
    };
    let closing = if opening == "{{" { "}}" } else { "%}" };
    let (line, column) = (narrow(line), narrow(column));
    let message = format!("the `{opening}` of this line has no `{closing}`");
    let position = Position { line, column, length: 2, ..place };
    let help = format!("close it with `{closing}`");
    Violation::error("template", message).at("", Some(position)).help(help)
}

/// Finds the first tag that is not closed before another one begins, unless it begins behind that
/// line: its line and column, and how it begins. What is in quotes within a tag is left out.
fn unclosed_tag(text: &str, until: usize) -> Option<(usize, usize, &'static str)> {
    let mut open: Option<(usize, usize, &'static str)> = None;
    let (mut quote, mut is_comment) = (None, false);
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let mut chars = line.chars().zip(line.chars().skip(1).chain([' '])).enumerate();
        while let Some((at, (current, next))) = chars.next() {
            let opening = match (current, next) {
                _ if is_comment => {
                    is_comment = (current, next) != ('#', '}');
                    continue;
                }
                ('{', '#') if open.is_none() => {
                    is_comment = true;
                    continue;
                }
                ('{', '{') => "{{",
                ('{', '%') => "{%",
                ('}' | '%', '}') if open.is_some() && quote.is_none() => {
                    (open, _) = (None, chars.next());
                    continue;
                }
                (c @ ('"' | '\'' | '`'), _) if open.is_some() => {
                    quote = match quote {
                        None => Some(c),
                        Some(open_quote) if open_quote == c => None,
                        open_quote => open_quote,
                    };
                    continue;
                }
                _ => continue,
            };
            if let Some(unclosed) = open {
                // A map may stand in a tag, and begin with another: `{{ {"a": {}} }}`.
                let is_next = opening == "{%" || unclosed.0 < number;
                return (is_next && unclosed.0 <= until).then_some(unclosed);
            }
            (open, quote) = (Some((number, at + 1, opening)), None);
            chars.next();
        }
    }
    open.filter(|(line, ..)| *line <= until)
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds an engine of one component and one file.
    fn load_one(component: &str, file: &str) -> Result<TemplateEngine, Vec<Violation>> {
        let template_file =
            |path: &str, text: &str| TemplateFile { path: path.into(), text: text.into() };
        let file = template_file("a/latest/b.yaml.tmpl", file);
        load(&[template_file("c.yaml.tmpl", component)], std::iter::once(&file))
    }

    fn context() -> Context {
        Context::from_serialize(&serde_json::json!({"hostile": "a\nb: c", "list": ["x: y"]}))
            .unwrap()
    }

    #[test]
    fn what_a_component_inserts_stays_in_its_place() {
        let component = "{% component c(text, list) -%}\nt: {{ text }}\nl: {{ list | yaml }}\n{%- endcomponent c %}";
        let file = "a:\n  {{<c text={hostile} list/> | indent(width=2)}}\nb:\n    {{<c text=\"fixed\" list/> | indent}}";
        let text = render(&load_one(component, file).unwrap(), "a/latest/b.yaml.tmpl", &context())
            .unwrap();
        let document: serde_json::Value = serde_yaml::from_str(&text).unwrap();
        let expected = |text: &str| serde_json::json!({"t": text, "l": ["x: y"]});
        assert_eq!(document, serde_json::json!({"a": expected("a\nb: c"), "b": expected("fixed")}));
    }

    /// Each would take hours, or gigabytes.
    #[test]
    fn what_does_not_end_is_stopped() {
        let no_component = "{% component unused() %}{% endcomponent unused %}".to_owned();
        let calls: String = (1..18)
            .map(|n| {
                let call = format!("{{{{<c{}/>}}}}", n + 1);
                format!("{{% component c{n}() %}}{}{{% endcomponent c{n} %}}", call.repeat(3))
            })
            .chain(["{% component c18() %}{% endcomponent c18 %}".to_owned()])
            .collect();
        let captured = "{% component c(list) %}{% for a in range(end=100000) %}{{ list | yaml }}{{ list | yaml }}{{ list | yaml }}{% endfor %}{% endcomponent c %}";
        for (components, file) in [
            (
                &no_component,
                "{% for a in range(end=100000) %}{% for b in range(end=100000) %}{% endfor %}{% endfor %}",
            ),
            (
                &no_component,
                "{% for a in range(end=100000) %}{% set b = [c for c in range(end=100000)] %}{% endfor %}",
            ),
            (
                &no_component,
                "{% for a in range(end=100000) %}{% for b in [c for c in range(end=9)] %}{% for d in range(end=100000) -%} {% endfor %}{% endfor %}{% endfor %}",
            ),
            (&calls, "{{<c1/>}}"),
            (&captured.to_owned(), "a: {{<c list/> | indent}}"),
        ] {
            let error =
                render(&load_one(components, file).unwrap(), "a/latest/b.yaml.tmpl", &context());
            let message = error.unwrap_err().to_string();
            assert!(
                message.contains("a/latest/b.yaml.tmpl does not come to an end"),
                "{file}: {message}"
            );
        }
    }

    #[test]
    fn a_mistake_behind_a_loop_is_told_at_its_place() {
        let file = "a: 1\n{% for x in [y for y in list] %}{{ x }}{{ nowhere }}{% endfor %}";
        let engine = load_one("", file).unwrap();
        let error = render(&engine, "a/latest/b.yaml.tmpl", &context()).unwrap_err();
        assert!(error.to_string().starts_with("a/latest/b.yaml.tmpl:2:43: "), "{error}");
        let violations = load_one("", "{% for x in list %}{{ x | nope }}{% endfor %}").unwrap_err();
        assert!(
            violations[0].to_string().starts_with("a/latest/b.yaml.tmpl:1:27: "),
            "{violations:?}"
        );
    }

    #[test]
    fn what_a_component_is_given_is_used() {
        let component =
            "{% component c(text, list) %}{{ text }}{{ list | yaml }}{% endcomponent c %}";
        let tera = load_one(component, "{{<c text={hostile?.part} list/>}}").unwrap();
        let names = variables(&tera, &["a/latest/b.yaml.tmpl".to_owned()]);
        assert_eq!(names, HashSet::from(["hostile".to_owned(), "list".to_owned()]));
    }

    #[test]
    fn a_mistake_in_a_component_is_told_at_its_place() {
        let messages = |component: &str, file: &str| {
            let violations = match load_one(component, file) {
                Ok(tera) => vec![render(&tera, "a/latest/b.yaml.tmpl", &context()).unwrap_err()],
                Err(violations) => violations,
            };
            let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
            lines.join("\n")
        };
        let undefined_name = "{% component c(text) %}\n  {{ nowhere }}{% endcomponent c %}";
        assert_eq!(
            messages(undefined_name, "x: {{<c text={hostile}/>}}"),
            "components/c.yaml.tmpl:2:6: Variable `nowhere` is not defined. Available variables: text [template]"
        );
        assert!(
            messages("{% component c(text) %}\n{{ 1 + }}", "")
                .starts_with("components/c.yaml.tmpl:2:8: ")
        );
        let fine = "{% component c(text) %}{{ text }}{% endcomponent c %}";
        assert!(messages(fine, "x: 1\ny: {{<c/>}}").starts_with("a/latest/b.yaml.tmpl:2:6: "));
        assert_eq!(
            messages("{% component c() %}{{ 1 | shout }}{% endcomponent c %}", "x: {{<d/>}}"),
            "a/latest/b.yaml.tmpl:1:6: Unknown component `d` [template]\ncomponents/c.yaml.tmpl:1:27: Unknown filter `shout` [template]"
        );
        assert_eq!(
            messages(
                "\n{% component c(@hostile) %}{{ hostile }}{% endcomponent c %}",
                "x: {{<c/>}}"
            ),
            "components/c.yaml.tmpl:2:1: the component `c` takes `hostile` and does not get it [template]"
        );
    }

    #[test]
    fn a_tag_that_is_not_closed_is_told_where_it_begins() {
        let first_violation = |file: &str| {
            let violations = load_one("", file).unwrap_err();
            let violation = &violations[0];
            let place =
                violation.position.as_ref().map(|at| (at.line, at.column)).unwrap_or_default();
            (place, violation.message.clone())
        };
        let unclosed = |opening: &str, closing: &str| {
            format!("the `{opening}` of this line has no `{closing}`")
        };
        for (file, place) in [
            ("a: 1\nb: {{ app.slug\nc: 3\n", (2, 4)),
            ("a: 1\nb: {{ app.slug\nc: {{ x }}\n", (2, 4)),
            ("a: 1\nb: {{ app.slug\n\n\nc: {{ x }}\n", (2, 4)),
            ("a: {{ x }}\nb: {{ \"}}\" ~ app.slug\n", (2, 4)),
            ("a: {{ x", (1, 4)),
        ] {
            assert_eq!(first_violation(file), (place, unclosed("{{", "}}")), "{file}");
        }
        assert_eq!(first_violation("{% if x\na: 1\n{% endif %}\n"), ((1, 1), unclosed("{%", "%}")));
        // Another mistake keeps its place.
        let (place, message) = first_violation("a: {{ x }}\nb: {{ x | }}\n");
        assert_eq!(place.0, 2, "{message}");
        assert!(!message.contains("has no"), "{message}");
        assert!(!first_violation("{# {{ #}\na: {{ x | }}\n").1.contains("has no"));
        assert!(!first_violation("a: {{ x }}\n{% if x %}\n").1.contains("has no"));
    }
}
