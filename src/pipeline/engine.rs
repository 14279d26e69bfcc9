//! The template engine, set up so that no value can break out of its place.
//!
//! Every text that a template inserts is written as a double-quoted YAML scalar in which all but
//! letters and digits are escaped. Wherever it lands, it adds letters, digits, backslashes and
//! two quotes: never a colon, a newline or a bracket. What was meant as one value stays one, or
//! the result is not YAML and is refused. Numbers and booleans are inserted as they are; whole
//! lists and maps through the filter `yaml`.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;

use tera::{Context, ErrorKind, Kwargs, State, Tera, TeraResult};

use crate::model::template::TemplateFile;
use crate::model::violation::{Position, Violation};

/// How a template file's name ends.
pub(crate) const SUFFIX: &str = ".yaml.tmpl";

/// How the name of a shared file begins.
pub(crate) const COMPONENTS: &str = "components/";

/// How much one file may become. Kubernetes takes objects up to 1.5 MiB (etcd's limit).
const LARGEST_FILE: usize = 1024 * 1024;

/// Parses the files of one version of a template, and what all templates share.
///
/// Each version has an engine of its own: a component that it defines itself is nobody else's.
pub(crate) fn load<'a>(
    shared: &'a [TemplateFile],
    files: impl Iterator<Item = &'a TemplateFile>,
) -> Result<Tera, Violation> {
    let mut tera = Tera::new();
    tera.autoescape_on([SUFFIX]);
    tera.set_escape_fn(escape);
    tera.register_filter("yaml", yaml);
    let named =
        |prefix: &str, file: &TemplateFile| (format!("{prefix}{}", file.path), file.text.clone());
    let shared = shared.iter().map(|file| named(COMPONENTS, file));
    tera.add_raw_templates(shared.chain(files.map(|file| named("", file))))
        .map_err(|error| violation(&error, "the templates"))?;
    Ok(tera)
}

/// The top-level names that the files look at.
pub(crate) fn variables(tera: &Tera, files: &[String]) -> HashSet<String> {
    let of = |file: &String| tera.get_template_variables(file).unwrap_or_default();
    files.iter().flat_map(of).map(str::to_owned).collect()
}

/// Renders one file.
pub(crate) fn render(tera: &Tera, file: &str, context: &Context) -> Result<String, Violation> {
    let mut out = Capped { bytes: Vec::new() };
    let rendered = tera.render_to(file, context, &mut out);
    if out.bytes.len() >= LARGEST_FILE {
        let message = format!("{file} renders to more than {LARGEST_FILE} bytes");
        return Err(Violation::error("rendered", message).help("look for a loop in the template"));
    }
    rendered.map_err(|error| violation(&error, file))?;
    String::from_utf8(out.bytes)
        .map_err(|_| Violation::error("rendered", format!("{file} does not render to text")))
}

fn escape(text: &str, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"\"")?;
    for c in text.chars() {
        match u32::from(c) {
            _ if c.is_ascii_alphanumeric() => write!(out, "{c}")?,
            code @ ..=0xff => write!(out, "\\x{code:02x}")?,
            code @ ..=0xffff => write!(out, "\\u{code:04x}")?,
            code => write!(out, "\\U{code:08x}")?,
        }
    }
    out.write_all(b"\"")
}

/// A list, a map or any other value on one line, as data.
fn yaml(value: &tera::Value, _: Kwargs, _: &State) -> TeraResult<tera::Value> {
    let json =
        serde_json::to_value(value).map_err(|error| tera::Error::message(error.to_string()))?;
    let mut out = Vec::new();
    flow(&json, &mut out).map_err(|error| tera::Error::message(error.to_string()))?;
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

/// A template error, at its place in the template.
fn violation(error: &tera::Error, what: &str) -> Violation {
    let (ErrorKind::SyntaxError(report) | ErrorKind::RenderingError(report)) = error.kind() else {
        return Violation::error("template", format!("{what}: {error}"));
    };
    let span = report.span();
    let position = Position {
        file: Arc::from(report.filename()),
        line: narrow(span.start_line),
        column: narrow(span.start_col + 1),
        length: narrow(span.end_col.saturating_sub(span.start_col)).max(1),
    };
    Violation::error("template", report.message().to_owned())
        .at("", Some(position))
        .help("this is a mistake in the template, not in the WAML: tell the operator")
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
