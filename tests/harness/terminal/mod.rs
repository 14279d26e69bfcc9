//! A terminal: what a program has drawn on it when it ends, with its colours.

pub(crate) mod svg;

use std::process::Command;

/// How a character looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Look {
    pub(crate) bold: bool,
    pub(crate) dim: bool,
    /// The number of an ANSI colour, 30 to 37.
    pub(crate) colour: Option<u8>,
}

/// A line of the screen.
pub(crate) type Line = Vec<(char, Look)>;

/// A shell's command that runs `command` on a terminal of that width; util-linux's `script` makes it.
pub(crate) fn on_a_terminal(command: &str, columns: usize) -> Command {
    let mut script = Command::new("script");
    let within = format!("stty cols {columns} rows 50; {command}");
    script.args(["--quiet", "--return", "--command", &within, "/dev/null"]);
    script
}

/// What is on a screen of that width at the end: only what we draw is understood, and anything else is an error.
pub(crate) fn screen(bytes: &[u8], columns: usize) -> Vec<Line> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let mut screen =
        Screen { lines: vec![Line::new()], row: 0, column: 0, look: Look::default(), columns };
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => screen.escape(&mut chars),
            '\r' => screen.column = 0,
            '\n' => screen.down(),
            c => screen.put(c),
        }
    }
    while screen.lines.last().is_some_and(Vec::is_empty) {
        screen.lines.pop();
    }
    screen.lines
}

/// The text of lines, without their looks.
pub(crate) fn text(lines: &[Line]) -> String {
    let line = |line: &Line| {
        let text: String = line.iter().map(|(c, _)| *c).collect();
        text.trim_end().to_owned() + "\n"
    };
    lines.iter().map(line).collect()
}

struct Screen {
    lines: Vec<Line>,
    row: usize,
    column: usize,
    look: Look,
    columns: usize,
}

impl Screen {
    fn put(&mut self, c: char) {
        if self.column == self.columns {
            self.down();
            self.column = 0;
        }
        let line = &mut self.lines[self.row];
        while line.len() <= self.column {
            line.push((' ', Look::default()));
        }
        line[self.column] = (c, self.look);
        self.column += 1;
    }

    fn down(&mut self) {
        self.row += 1;
        if self.row == self.lines.len() {
            self.lines.push(Line::new());
        }
    }

    fn escape(&mut self, chars: &mut std::str::Chars<'_>) {
        assert_eq!(chars.next(), Some('['), "only CSI sequences are drawn");
        let mut parameters = String::new();
        let last = loop {
            match chars.next().unwrap() {
                c if c.is_ascii_digit() || c == ';' => parameters.push(c),
                c => break c,
            }
        };
        match (last, parameters.as_str()) {
            ('A', up) => self.row -= up.parse::<usize>().unwrap(),
            ('K', "2") => self.lines[self.row].clear(),
            ('m', codes) => codes.split(';').for_each(|code| self.style(code)),
            other => panic!("{other:?} is drawn by nobody"),
        }
    }

    fn style(&mut self, code: &str) {
        match code.parse::<u8>().unwrap_or(0) {
            0 => self.look = Look::default(),
            1 => self.look.bold = true,
            2 => self.look.dim = true,
            colour @ 30..=37 => self.look.colour = Some(colour),
            colour @ 90..=97 => self.look.colour = Some(colour - 60),
            other => panic!("{other} is no look of ours"),
        }
    }
}
