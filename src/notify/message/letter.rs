//! Blocks and text of a message, within every limit: what does not fit is left out from the end of
//! its list, and the message says how much that was.

use crate::notify::message::block::{Block, MOST_BLOCKS, MOST_TOGETHER, size};
use crate::notify::message::text::{cut, length};
use crate::notify::message::{Letter, Stamp};

/// A message in its parts.
pub(super) struct Told {
    /// One line.
    pub(super) text: String,
    /// What comes first.
    pub(super) head: Vec<Block>,
    /// A list that can be cut.
    pub(super) items: Vec<Block>,
    /// How many more there are that are not in the list.
    pub(super) hidden: usize,
    /// What comes last.
    pub(super) tail: Vec<Block>,
}

/// A notification shows less; longer ones are cut by who shows it.
const LONGEST_TEXT: usize = 1000;
/// Slack cuts at 40,000.
const LONGEST_PLAIN: usize = 12_000;

pub(super) fn of(told: &Told, stamp: &Stamp) -> Letter {
    let mut shown = told.items.len();
    let blocks = loop {
        let blocks = together(told, shown);
        if shown == 0 || (blocks.len() <= MOST_BLOCKS && size(&blocks) <= MOST_TOGETHER) {
            break blocks;
        }
        shown -= 1;
    };
    Letter {
        text: cut(&told.text, LONGEST_TEXT),
        plain: plain(told, shown),
        blocks,
        stamp: stamp.clone(),
    }
}

fn together(told: &Told, shown: usize) -> Vec<Block> {
    let items = told.items.iter().take(shown).cloned();
    let left_out = told.hidden + told.items.len() - shown;
    let more = (left_out > 0).then(|| Block::context(&[format!("and {left_out} more")]));
    told.head.iter().cloned().chain(items).chain(more).chain(told.tail.iter().cloned()).collect()
}

/// What is in the blocks, with the links before the list. Whole lines, as many as fit: half a link
/// would be none.
fn plain(told: &Told, shown: usize) -> String {
    let mut room = LONGEST_PLAIN;
    let blocks = told.head.iter().chain(&told.tail).chain(told.items.iter().take(shown));
    let text = blocks.map(Block::plain).collect::<Vec<_>>().join(
        "
",
    );
    let fits = |line: &&str| {
        let long = length(line) + 1;
        let fits = long <= room;
        room = room.saturating_sub(long);
        fits
    };
    text.lines().take_while(fits).collect::<Vec<_>>().join("\n")
}
