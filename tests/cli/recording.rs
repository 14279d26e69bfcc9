//! The recording in the README is of a real run on a real terminal: `docs/bart.svg`.

use std::path::Path;

use crate::harness::developer::Developer;
use crate::harness::events::waml;
use crate::harness::process::Home;
use crate::harness::registry::{Entry, Registry};
use crate::harness::terminal::{Line, Look, on_a_terminal, screen, svg, text};

const COLUMNS: usize = 118;
const FIRST: &str = "1.0.202611200915-sha.649008fb";
const SECOND: &str = "1.0.202611211042-sha.00ff00ff";

/// Ids, times and commits are others each time.
fn masked(text: &str) -> String {
    let mask = |word: &str| {
        let bare = word.trim_end_matches([',', ';']);
        let id = bare.len() > 6 && bare.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if id { "ID".to_owned() } else { word.replace(|c: char| c.is_ascii_digit(), "0") }
    };
    text.lines()
        .map(|line| line.split(' ').map(mask).collect::<Vec<_>>().join(" ") + "\n")
        .collect()
}

/// What stands on the terminal after that command, with the command.
async fn run(developer: &Developer, server: &str, command: &str) -> Vec<Line> {
    let mut terminal = on_a_terminal(command, COLUMNS);
    let programs = Path::new(env!("CARGO_BIN_EXE_bart")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&path));
    terminal.current_dir(developer.work()).env_clear();
    terminal.env("PATH", std::env::join_paths(all).unwrap()).env("TERM", "xterm-256color");
    terminal.env("HOME", developer.home("")).env("BART_SERVER", server).env("SHELL", "/bin/sh");
    terminal.stdin(std::process::Stdio::null());
    let output = tokio::task::spawn_blocking(move || terminal.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command}: {said}");
    let prompt = Look { bold: true, dim: false, colour: Some(32) };
    let typed = Look { bold: true, ..Look::default() };
    let mut line: Line = vec![('$', prompt), (' ', typed)];
    line.extend(command.chars().map(|c| (c, typed)));
    let mut lines = vec![line];
    lines.extend(screen(&output.stdout, COLUMNS));
    lines.push(Line::new());
    lines
}

/// The registry of the test stands for the company's.
fn renamed(lines: &[Line], host: &str) -> Vec<Line> {
    let name = "registry.example.com";
    let rename = |line: &Line| {
        let text: String = line.iter().map(|(c, _)| *c).collect();
        let Some(at) = text.find(host).map(|at| text[..at].chars().count()) else {
            return line.clone();
        };
        let look = line[at].1;
        let rest = &line[at + host.chars().count()..];
        line[..at]
            .iter()
            .copied()
            .chain(name.chars().map(|c| (c, look)))
            .chain(rest.iter().copied())
            .collect()
    };
    lines.iter().map(rename).collect()
}

#[tokio::test]
async fn the_recording_is_what_happens() {
    if crate::harness::is_missing("script", "the recording of bart") {
        return;
    }
    let registry = Registry::start(Entry::TokenForAll, &[]).await;
    let now = the_deployer::support::clock::Clock::system().now();
    for (tag, hours, commit) in [(FIRST, 27, "649008fb649008fb"), (SECOND, 2, "00ff00ff00ff00ff")] {
        let at = (now - jiff::SignedDuration::from_hours(hours)).to_string();
        registry.lock().build(&format!("example/my-app:{tag}"), &at, commit);
    }
    let host = registry.host();
    let home = Home::configured(&format!("registries: [{{host: '{host}', insecure: true}}]\n"));
    let process = home.start().await;
    let image = format!("image: {{registry: '{host}', repository: example/my-app}}");
    let text_of_waml = waml("my-app")
        .replace("deploy:\n", &format!("deploy:\n  dev: {{{image}}}\n"))
        .replace("  prod-cluster-1:\n", &format!("  prod-cluster-1:\n    {image}\n"));
    home.commit("example/my-app", &text_of_waml);
    let developer = Developer::cloned(&home.state("repos/example/my-app.git"));
    let server = [("BART_SERVER", process.address())];
    let first = developer.runs(&server, &["deploy", FIRST, "dev", "prod-cluster-1"]).await;
    first.ended(0, &[]);

    let mut lines = Vec::new();
    for command in [
        &format!("bart deploy {SECOND} dev prod-cluster-1"),
        "bart builds",
        "bart rollback prod-cluster-1 --reason 'checkout fails'",
    ] {
        lines.extend(run(&developer, process.address(), command).await);
    }
    lines.pop();
    let lines = renamed(&lines, &host);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/bart.svg");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        let image =
            svg::of(&lines, "bart deploys to two targets, lists builds, and rolls one target back");
        std::fs::write(&path, image).unwrap();
    }
    let recorded = svg::text(&std::fs::read_to_string(&path).unwrap());
    let without_blanks: String =
        text(&lines).lines().filter(|l| !l.is_empty()).map(|l| l.to_owned() + "\n").collect();
    assert_eq!(masked(&recorded), masked(&without_blanks), "run `just update-expected`");
}
