//! A command line as Markdown: everything that `--help` says, command by command.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

/// A part for the program and one for each command, in the order of `--help`.
pub(super) fn markdown(program: &Command) -> String {
    let mut out = String::new();
    let mut program = program.clone();
    // Names in usage lines are whole only once it is built.
    program.build();
    about(&program, &mut out);
    index(&program, &mut out);
    after(&program, &mut out);
    for command in visible(&program) {
        part(command, 2, &mut out);
    }
    out.trim_end().to_owned() + "\n"
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help")
}

fn index(program: &Command, out: &mut String) {
    out.push_str("| command | |\n|---|---|\n");
    for command in visible(program) {
        let name = command.get_name();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        writeln!(out, "| [`{name}`](#{}-{name}) | {} |", program.get_name(), cell(&about)).unwrap();
    }
    out.push('\n');
    arguments(program, out);
}

fn part(command: &Command, level: usize, out: &mut String) {
    let heading = "#".repeat(level);
    let name = command.get_bin_name().unwrap_or(command.get_name());
    write!(out, "{heading} {name}\n\n").unwrap();
    about(command, out);
    if !command.is_subcommand_required_set() {
        write!(out, "```text\n{}\n```\n\n", usage(command)).unwrap();
    }
    arguments(command, out);
    after(command, out);
    for inner in visible(command) {
        part(inner, level + 1, out);
    }
}

/// What it is for.
fn about(command: &Command, out: &mut String) {
    let text = command.get_long_about().or(command.get_about());
    if let Some(text) = text.map(ToString::to_string).filter(|text| !text.is_empty()) {
        write!(out, "{}\n\n", prose(text.trim())).unwrap();
    }
}

/// What stands below the arguments: examples, exit codes.
fn after(command: &Command, out: &mut String) {
    if let Some(text) = command.get_after_long_help().map(ToString::to_string) {
        write!(out, "```text\n{}\n```\n\n", text.trim()).unwrap();
    }
}

fn usage(command: &Command) -> String {
    let text = command.clone().render_usage().to_string();
    text.trim_start_matches("Usage: ").lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

/// Every argument but `--help` and `--version`; those of all commands stand with the program.
fn arguments(command: &Command, out: &mut String) {
    let own = command.get_arguments().filter(|one| {
        let name = one.get_id().as_str();
        let of_all = one.is_global_set() && command.get_name() != "bart";
        !one.is_hide_set() && !of_all && !matches!(name, "help" | "version")
    });
    let rows: Vec<String> = own.map(row).collect();
    if !rows.is_empty() {
        write!(out, "| argument | |\n|---|---|\n{}\n", rows.concat()).unwrap();
    }
}

fn row(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let mut about = help.map(ToString::to_string).unwrap_or_default();
    if !about.is_empty() && !about.ends_with('.') {
        about.push('.');
    }
    let values = argument.get_possible_values();
    if !values.is_empty() && !argument.is_hide_possible_values_set() && takes(argument) {
        let names: Vec<String> = values
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        about += &format!(" One of {}.", names.join(", "));
    }
    let defaults = argument.get_default_values();
    if takes(argument) && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        let all: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
        if all != [""] {
            about += &format!(" Default: `{}`.", all.join(" "));
        }
    }
    if let Some(variable) = argument.get_env() {
        about += &format!(" Variable: `{}`.", variable.to_string_lossy());
    }
    format!("| `{}` | {} |\n", cell(&named(argument)), cell(&about))
}

fn takes(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
}

/// `-o, --output <OUTPUT>`, or `<TAG>`
fn named(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let dots = if matches!(argument.get_action(), ArgAction::Append)
        || argument.get_num_args().is_some_and(|range| range.max_values() > 1)
    {
        "…"
    } else {
        ""
    };
    let value = names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ");
    let value = if takes(argument) { format!("{value}{dots}") } else { String::new() };
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    let all = [flags.join(", "), value];
    all.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" ")
}

fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Paragraphs of the help, folded as the other pages are.
fn prose(text: &str) -> String {
    let fold = |paragraph: &str| {
        let mut lines = vec![String::new()];
        for word in paragraph.split_whitespace() {
            let last = lines.last_mut().expect("there is one");
            if last.len() + word.len() >= 118 {
                lines.push(word.to_owned());
            } else {
                if !last.is_empty() {
                    last.push(' ');
                }
                last.push_str(word);
            }
        }
        lines.join("\n")
    };
    text.split("\n\n").map(fold).collect::<Vec<_>>().join("\n\n")
}

/// Commands without a word of help, and arguments without one.
pub(super) fn without_help(command: &Command) -> Vec<String> {
    let name = command.get_name().to_owned();
    let own = command.get_arguments().filter(|one| {
        let given = one.get_help().is_none() && !one.is_hide_set();
        given && !matches!(one.get_id().as_str(), "help" | "version")
    });
    let mut all: Vec<String> = own.map(|one| format!("{name}: {}", one.get_id())).collect();
    all.extend(command.get_about().is_none().then(|| name.clone()));
    all.extend(visible(command).flat_map(without_help));
    all
}
