//! A screen as an image that needs nothing but a font of even width.

use std::fmt::Write as _;

use super::{Line, Look};

const LINE: usize = 20;
const TOP: usize = 44;
const SIDE: usize = 16;
/// In hundredths of a pixel, at 14 pixels of height.
const CHARACTER: usize = 843;

/// The image of those lines, as wide as the widest.
pub(crate) fn of(lines: &[Line], title: &str) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0).max(60);
    let (width, height) = (columns * CHARACTER / 100 + 2 * SIDE, TOP + lines.len() * LINE + SIDE);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#16181d\"/>\n\
         <circle cx=\"20\" cy=\"18\" r=\"6\" fill=\"#ff5f57\"/><circle cx=\"40\" cy=\"18\" r=\"6\" fill=\"#febc2e\"/>\
         <circle cx=\"60\" cy=\"18\" r=\"6\" fill=\"#28c840\"/>\n\
         <g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"14\" fill=\"#d6d9e0\" xml:space=\"preserve\">\n",
        escaped(title)
    );
    for (n, line) in lines.iter().enumerate() {
        if !line.is_empty() {
            let y = TOP + n * LINE + 14;
            writeln!(
                out,
                "<text x=\"{SIDE}\" y=\"{y}\" style=\"white-space:pre\">{}</text>",
                spans(line)
            )
            .unwrap();
        }
    }
    out + "</g>\n</svg>\n"
}

/// Characters that look alike stand together.
fn spans(line: &Line) -> String {
    let mut out = String::new();
    for run in line.chunk_by(|a, b| a.1 == b.1) {
        let text: String = run.iter().map(|(c, _)| *c).collect();
        let style = style(run[0].1);
        if style.is_empty() {
            out += &escaped(&text);
        } else {
            write!(out, "<tspan{style}>{}</tspan>", escaped(&text)).unwrap();
        }
    }
    out
}

fn style(look: Look) -> String {
    let colour = look.colour.map(|colour| match colour {
        31 => "#ff6b68",
        32 => "#5fd38d",
        33 => "#f2c55c",
        34 => "#6ea8fe",
        35 => "#d7a1ff",
        36 => "#56c8d8",
        _ => "#d6d9e0",
    });
    let colour = colour.or(look.dim.then_some("#8b919d"));
    let mut out = colour.map_or(String::new(), |colour| format!(" fill=\"{colour}\""));
    if look.bold {
        out += " font-weight=\"bold\"";
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The text of such an image, line by line.
pub(crate) fn text(svg: &str) -> String {
    let lines = svg.lines().filter_map(|line| line.strip_prefix("<text "));
    lines
        .map(|line| {
            let mut inside = line.split_once('>').unwrap().1;
            let mut text = String::new();
            while let Some((before, after)) = inside.split_once('<') {
                text += before;
                inside = after.split_once('>').unwrap().1;
            }
            let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            text.trim_end().to_owned() + "\n"
        })
        .collect()
}
