//! Plots, as SVG that is made on the server: curves and stacked bars over time. Pure.
//!
//! A plot is readable without a script: the values of a column are shown while the pointer is over it, and a table has
//! them all. With the page's script the arrow keys go from column to column.

use jiff::{SignedDuration, Timestamp};

use crate::support::text::truncate_chars;
use crate::support::time_text::format_micros;

/// The area of curves and bars, within a picture of 720 × 200.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 712.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 176.0;
/// The longest text above a plot, in characters.
const LONGEST_TEXT: usize = 100;
/// The number of labels of the time.
const TICKS: i64 = 5;

/// A plot over a window of time.
#[derive(Debug)]
pub(super) struct Plot {
    /// What it shows, for people who do not see it.
    pub(super) label: String,
    pub(super) lines: Vec<PlotLine>,
    pub(super) ticks: Vec<PlotLine>,
    pub(super) bars: Vec<PlotBar>,
    pub(super) curves: Vec<PlotCurve>,
    pub(super) columns: Vec<PlotColumn>,
}

/// A line of the grid, or a label of the time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlotLine {
    pub(super) at: i64,
    pub(super) text: String,
}

/// A part of a stacked bar.
#[derive(Debug, PartialEq)]
pub(super) struct PlotBar {
    pub(super) look: &'static str,
    pub(super) x: String,
    pub(super) y: String,
    pub(super) width: String,
    pub(super) height: String,
}

/// A curve.
#[derive(Debug)]
pub(super) struct PlotCurve {
    pub(super) look: &'static str,
    pub(super) path: String,
}

/// The values of one moment, shown while the reader points at them.
#[derive(Debug)]
pub(super) struct PlotColumn {
    pub(super) x: String,
    pub(super) width: String,
    pub(super) text: String,
    pub(super) dots: Vec<PlotDot>,
}

/// A point of a curve.
#[derive(Debug)]
pub(super) struct PlotDot {
    pub(super) look: &'static str,
    pub(super) x: String,
    pub(super) y: String,
}

/// The window of a plot, cut into equal parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlotWindow {
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    pub(super) part: SignedDuration,
}

/// A moment of a plot of curves: the value of each curve there, and the sentence about it.
#[derive(Debug)]
pub(super) struct PlotPoint {
    pub(super) at: Timestamp,
    pub(super) values: Vec<Option<u64>>,
    pub(super) text: String,
}

/// A value that counts until the next one.
#[derive(Debug)]
pub(super) struct PlotStep {
    pub(super) at: Timestamp,
    /// Percent.
    pub(super) value: u64,
    /// True if something bad happened then.
    pub(super) is_marked: bool,
    pub(super) text: String,
}

impl PlotWindow {
    /// Returns the place of a time.
    fn x(&self, at: Timestamp) -> f64 {
        let whole = self.until.duration_since(self.since).as_secs_f64().max(1.0);
        let share = at.duration_since(self.since).as_secs_f64() / whole;
        LEFT + share.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    /// Returns the begin and the width of the part that begins at that time.
    fn column(&self, at: Timestamp) -> (f64, f64) {
        let end = at.saturating_add(self.part).unwrap_or(at);
        (self.x(at), (self.x(end) - self.x(at)).max(1.0))
    }

    fn ticks(&self) -> Vec<PlotLine> {
        let whole = self.until.duration_since(self.since);
        let form = match whole.as_hours() {
            0 => "%H:%M:%S",
            1..=48 => "%d %b %H:%M",
            _ => "%d %b",
        };
        let tick = |n: i64| {
            let after = SignedDuration::from_secs(whole.as_secs() * n / TICKS);
            let at = self.since.saturating_add(after).unwrap_or(self.since);
            PlotLine { at: whole_number(self.x(at)), text: at.strftime(form).to_string() }
        };
        (0..TICKS).map(tick).collect()
    }
}

/// Draws curves of lengths of time, in milliseconds.
pub(super) fn draw_curves(
    label: String,
    window: PlotWindow,
    looks: &[&'static str],
    points: &[PlotPoint],
) -> Plot {
    let values = points.iter().flat_map(|point| point.values.iter().flatten());
    let top = round_up_millis(values.max().copied().unwrap_or(0));
    let middle = |at: Timestamp| {
        let (x, width) = window.column(at);
        x + width / 2.0
    };
    let curve = |(n, &look): (usize, &&'static str)| {
        let mut path = String::new();
        let mut before: Option<Timestamp> = None;
        for point in points {
            let Some(value) = point.values.get(n).copied().flatten() else { continue };
            // A part without a value is a gap.
            let follows = before.is_some_and(|before| {
                point.at.duration_since(before).as_secs() <= window.part.as_secs() * 3 / 2
            });
            let step = if follows { 'L' } else { 'M' };
            path += &format!("{step}{:.1} {:.1}", middle(point.at), y(value, top));
            before = Some(point.at);
        }
        PlotCurve { look, path }
    };
    let column = |point: &PlotPoint| {
        let (x, width) = window.column(point.at);
        let values = point.values.iter().zip(looks);
        let dot = |(value, &look): (&Option<u64>, &&'static str)| {
            let y = y((*value)?, top);
            Some(PlotDot { look, x: number(middle(point.at)), y: number(y) })
        };
        PlotColumn {
            x: number(x),
            width: number(width),
            text: point.text.clone(),
            dots: values.filter_map(dot).collect(),
        }
    };
    Plot {
        label,
        lines: lines(top, |value| format_micros(value.saturating_mul(1000))),
        ticks: window.ticks(),
        bars: Vec::new(),
        curves: looks.iter().enumerate().map(curve).collect(),
        columns: points.iter().map(column).collect(),
    }
}

/// Draws stacked bars of numbers.
pub(super) fn draw_bars(
    label: String,
    window: PlotWindow,
    looks: &[&'static str],
    points: &[PlotPoint],
) -> Plot {
    let sums = points.iter().map(|point| point.values.iter().flatten().sum::<u64>());
    let top = round_up(sums.max().unwrap_or(0));
    let (mut bars, mut columns) = (Vec::new(), Vec::new());
    for point in points {
        let (x, width) = window.column(point.at);
        let mut below = 0_u64;
        for (value, &look) in point.values.iter().zip(looks) {
            let value = value.unwrap_or(0);
            if value == 0 {
                continue;
            }
            let above = below.saturating_add(value);
            let (from, to) = (y(below, top), y(above, top));
            bars.push(PlotBar {
                look,
                x: number(x + width * 0.1),
                y: number(to),
                width: number(width * 0.8),
                height: number(from - to),
            });
            below = above;
        }
        let text = point.text.clone();
        columns.push(PlotColumn { x: number(x), width: number(width), text, dots: Vec::new() });
    }
    Plot {
        label,
        lines: lines(top, |value| value.to_string()),
        ticks: window.ticks(),
        bars,
        curves: Vec::new(),
        columns,
    }
}

/// Draws a share over time, in percent, that changes in steps; with a mark where something bad happened.
pub(super) fn draw_steps(label: String, window: PlotWindow, steps: &[PlotStep]) -> Plot {
    const TOP_VALUE: u64 = 100;
    const MARK: (f64, f64) = (3.0, 24.0);
    const NARROWEST: f64 = 3.0;
    let (mut path, mut bars, mut columns) = (String::new(), Vec::new(), Vec::new());
    for (n, step) in steps.iter().enumerate() {
        let end = steps.get(n + 1).map_or(window.until, |next| next.at);
        let (begin, end) = (window.x(step.at), window.x(end));
        let height = y(step.value.min(TOP_VALUE), TOP_VALUE);
        let way = if n == 0 { format!("M{begin:.1} {height:.1}") } else { format!("V{height:.1}") };
        path += &format!("{way}H{end:.1}");
        if step.is_marked {
            bars.push(PlotBar {
                look: "bad",
                x: number(begin.min(RIGHT - MARK.0)),
                y: number(BOTTOM - MARK.1),
                width: number(MARK.0),
                height: number(MARK.1),
            });
        }
        let width = (end - begin).max(NARROWEST);
        columns.push(PlotColumn {
            x: number(begin.min(RIGHT - width)),
            width: number(width),
            text: truncate_chars(&step.text, LONGEST_TEXT).into_owned(),
            dots: vec![PlotDot { look: "p50", x: number(begin), y: number(height) }],
        });
    }
    Plot {
        label,
        lines: lines(TOP_VALUE, |value| format!("{value} %")),
        ticks: window.ticks(),
        bars,
        curves: vec![PlotCurve { look: "p50", path }],
        columns,
    }
}

fn y(value: u64, top: u64) -> f64 {
    BOTTOM - as_float(value) / as_float(top.max(1)) * (BOTTOM - TOP)
}

/// Makes the lines of the grid: none, half and all of the greatest value.
fn lines(top: u64, format: impl Fn(u64) -> String) -> Vec<PlotLine> {
    let values = if top < 2 { vec![0, top.max(1)] } else { vec![0, top / 2, top] };
    let line = |value: u64| PlotLine { at: whole_number(y(value, top)), text: format(value) };
    values.into_iter().map(line).collect()
}

/// Rounds a number up to one that is easy to read, and to halve.
fn round_up(value: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for step in [1, 2, 4, 6, 10] {
            let round = power.saturating_mul(step);
            let can_be_halved = round.is_multiple_of(2) || round == 1;
            if (round >= value && can_be_halved) || round == u64::MAX {
                return round;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// The same for milliseconds: above a minute by minutes, and so on.
fn round_up_millis(value: u64) -> u64 {
    const SECOND: u64 = 1_000;
    let unit = match value {
        0..=60_000 => 1,
        60_001..=3_600_000 => 60 * SECOND,
        _ => 3_600 * SECOND,
    };
    round_up(value.div_ceil(unit)).saturating_mul(unit)
}

#[expect(clippy::cast_precision_loss, reason = "a picture has some hundred points")]
fn as_float(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_possible_truncation, reason = "a picture has some hundred points")]
fn whole_number(value: f64) -> i64 {
    value.round() as i64
}

/// Writes a coordinate. A picture has no use for more digits.
fn number(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> PlotWindow {
        let since: Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        let until = since + SignedDuration::from_hours(6);
        PlotWindow { since, until, part: SignedDuration::from_mins(60) }
    }

    fn point(hour: i64, values: &[Option<u64>]) -> PlotPoint {
        let at = window().since + SignedDuration::from_hours(hour);
        PlotPoint { at, values: values.to_vec(), text: format!("hour {hour}") }
    }

    #[test]
    fn a_curve_has_a_gap_where_nothing_was_measured() {
        let points = [0, 1, 4].map(|hour| point(hour, &[Some(1_000), None]));
        let plot = draw_curves("p50 and p90".to_owned(), window(), &["p50", "p90"], &points);
        assert_eq!(plot.curves[0].path.matches('M').count(), 2, "{}", plot.curves[0].path);
        assert_eq!(plot.curves[1].path, "");
        assert_eq!((plot.columns.len(), plot.columns[0].dots.len()), (3, 1));
        let texts: Vec<_> = plot.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["0 µs", "500 ms", "1.0 s"]);
        assert_eq!(plot.ticks[0].text, "21 Nov 00:00");
    }

    #[test]
    fn bars_are_stacked_and_none_leaves_the_frame() {
        let points = [point(0, &[Some(3), Some(1)]), point(5, &[Some(0), Some(u64::MAX / 4)])];
        let plot = draw_bars("ends".to_owned(), window(), &["good", "bad"], &points);
        assert_eq!(plot.bars.len(), 3);
        for bar in &plot.bars {
            let [x, y, width, height] =
                [&bar.x, &bar.y, &bar.width, &bar.height].map(|text| text.parse::<f64>().unwrap());
            assert!(x >= LEFT && x + width <= RIGHT + 0.2, "{bar:?}");
            assert!(y >= TOP && y + height <= BOTTOM + 0.2 && height >= 0.0, "{bar:?}");
        }
        let empty = draw_bars(String::new(), window(), &["good"], &[]);
        assert_eq!(empty.lines.len(), 2);
    }

    #[test]
    fn steps_go_on_until_the_next_and_none_leaves_the_frame() {
        let step = |hour: i64, value: u64, is_marked: bool| PlotStep {
            at: window().since + SignedDuration::from_hours(hour),
            value,
            is_marked,
            text: "x".repeat(1_000),
        };
        let steps = [step(0, 0, false), step(3, 50, true), step(6, 900, true)];
        let plot = draw_steps("weight".to_owned(), window(), &steps);
        assert_eq!(plot.curves[0].path, "M64.0 176.0H388.0V98.0H712.0V20.0H712.0");
        assert_eq!((plot.bars.len(), plot.columns.len()), (2, 3));
        for column in &plot.columns {
            let [x, width] = [&column.x, &column.width].map(|text| text.parse::<f64>().unwrap());
            assert!(x >= LEFT && x + width <= RIGHT, "{column:?}");
            assert!(column.text.chars().count() <= LONGEST_TEXT);
        }
        let texts: Vec<_> = plot.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["0 %", "50 %", "100 %"]);
        let none = draw_steps(String::new(), window(), &[]);
        assert_eq!(none.curves[0].path, "");
    }

    #[test]
    fn a_scale_ends_at_a_round_number() {
        for (value, round) in [(0, 1), (1, 1), (3, 4), (5, 6), (7, 10), (11, 20), (250, 400)] {
            assert_eq!(round_up(value), round, "{value}");
        }
        assert_eq!(round_up_millis(61_000), 120_000);
        assert_eq!(round_up_millis(59_000), 60_000);
        assert_eq!(round_up_millis(4_000_000), 7_200_000);
        assert!(round_up(u64::MAX) == u64::MAX);
    }
}
