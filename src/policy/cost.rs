//! The cost of expressions, counted while they are evaluated: turns of loops and the parts evaluated in them, and the
//! size of values that are compared, made, looped over and searched by regular expressions. It is counted for one
//! expression and for all of a plan, and by no clock: the same everywhere.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cel::common::types::{CelBool, CelBytes, CelInt, CelList, CelMap, CelString};
use cel::common::value::{CowVal, Val};
use cel::{Context, ExecutionError, FunctionContext};
use regex::{Regex, RegexBuilder};

use crate::policy::watch::{MATCHES, RANGE, SKIM, SQUARE, TICK, WEIGH};

/// The limit of turns of loops for one expression.
const MAX_TURNS: u64 = 100_000;
/// The limit of parts that it evaluates in them: a tenth of a second.
const MAX_PARTS: u64 = 2_000_000;
/// The limit of bytes that one expression compares, searches, or makes new values of, in all.
const MAX_BYTES: u64 = 16 << 20;
/// The limit of bytes that its loops run over: each element is copied for its turn.
const MAX_LOOPED: u64 = 64 << 20;
/// The limit for all expressions of a plan together, as a multiple of the one for one expression.
const PLAN: u64 = 8;

/// The bytes of a value beside its text.
const LEAST_BYTES: u64 = 32;
/// Comparing each with each of a few is less work than copying as many.
const SQUARED: u64 = 64;
/// The factor by which searching a text for a regular expression costs more than comparing it.
const SEARCHED: u64 = 32;
/// The bytes that count for compiling a regular expression.
const COMPILED: u64 = 128 << 10;
/// The largest compiled regular expression, in bytes.
const LARGEST_REGEX: usize = 512 << 10;

/// The cost so far, of one expression and of all of the plan.
#[derive(Default)]
pub(super) struct CostCounter {
    turns: Count,
    parts: Count,
    bytes: Count,
    looped: Count,
    regexes: Mutex<HashMap<String, Regex>>,
}

#[derive(Default)]
struct Count {
    /// The cost of this expression.
    one: AtomicU64,
    /// The cost of the expressions before it, each up to its limit.
    before: AtomicU64,
}

impl Count {
    /// Counts `n` more, and checks that there is enough.
    fn spend(&self, n: u64, most: u64) -> bool {
        self.one.store(self.one.load(Ordering::Relaxed).saturating_add(n), Ordering::Relaxed);
        !self.is_over(most) && !self.is_over_in_all(most)
    }

    fn is_over(&self, most: u64) -> bool {
        self.one.load(Ordering::Relaxed) > most
    }

    fn is_over_in_all(&self, most: u64) -> bool {
        let own_cost = self.one.load(Ordering::Relaxed);
        // A policy that costs nothing is applied, whatever the ones before it have left of the limit.
        own_cost > 0 && self.before.load(Ordering::Relaxed).saturating_add(own_cost) > most * PLAN
    }

    fn begin(&self, most: u64) {
        let own_cost = self.one.swap(0, Ordering::Relaxed);
        self.before.fetch_add(own_cost.min(most), Ordering::Relaxed);
    }
}

/// Registers the counting functions that [`watch`](super::watch) puts into expressions.
pub(super) fn count(context: &mut Context<'static, 'static>, spent: &Arc<CostCounter>) {
    type Counting =
        for<'c, 'v> fn(&CostCounter, &mut FunctionContext<'c, 'v>) -> CountResult<'c, 'v>;
    type Function =
        dyn for<'c, 'v> Fn(&mut FunctionContext<'c, 'v>) -> CountResult<'c, 'v> + Send + Sync;
    let functions: [(&str, Counting); 6] = [
        (TICK, tick),
        (WEIGH, weigh),
        (SKIM, skim),
        (SQUARE, square),
        (RANGE, range),
        (MATCHES, matches),
    ];
    for (name, function) in functions {
        let spent = Arc::clone(spent);
        // It is given its arguments as they are, without a copy.
        let function: Box<Function> = Box::new(move |call| function(&spent, call));
        // No functions of these names are there: they cannot be written.
        let _ = context.add_function(name, function);
    }
}

/// The result of a counting function: its argument or a boolean, or the error that the limit is reached.
type CountResult<'c, 'v> = Result<CowVal<'c, 'v>, ExecutionError>;

fn tick<'c, 'v>(spent: &CostCounter, call: &mut FunctionContext<'c, 'v>) -> CountResult<'c, 'v> {
    let is_weighed = spent.evaluate(call.args.first());
    let has_budget = spent.turns.spend(1, MAX_TURNS) && is_weighed;
    // Where an error is caught, as in `error || true`, the loop ends all the same.
    if has_budget && spent.exceeded_limit().is_none() {
        return Ok(CowVal::owned(CelBool::from(true)));
    }
    Err(call.error("too much"))
}

fn weigh<'c, 'v>(spent: &CostCounter, call: &mut FunctionContext<'c, 'v>) -> CountResult<'c, 'v> {
    let enough = spent.evaluate(call.args.get(1));
    let value = argument(call)?;
    let enough = CostCounter::add(value.as_ref(), &spent.bytes, MAX_BYTES) && enough;
    if enough { Ok(value) } else { Err(call.error("too much")) }
}

fn skim<'c, 'v>(spent: &CostCounter, call: &mut FunctionContext<'c, 'v>) -> CountResult<'c, 'v> {
    let value = argument(call)?;
    let length = value.downcast_ref::<CelString<'_>>().map_or(0, |text| text.inner().len());
    let enough = spent.bytes.spend(length as u64, MAX_BYTES);
    if enough { Ok(value) } else { Err(call.error("too much")) }
}

fn square<'c, 'v>(spent: &CostCounter, call: &mut FunctionContext<'c, 'v>) -> CountResult<'c, 'v> {
    let value = argument(call)?;
    let many = match value.downcast_ref::<CelList<'_>>() {
        Some(list) => list.inner().len() as u64,
        None => value.downcast_ref::<CelString<'_>>().map_or(0, |text| text.inner().len() as u64),
    };
    let before = spent.bytes.one.load(Ordering::Relaxed);
    let enough = CostCounter::add(value.as_ref(), &spent.bytes, MAX_BYTES) && {
        let size = spent.bytes.one.load(Ordering::Relaxed).saturating_sub(before);
        spent.bytes.spend(size.saturating_mul(many) / SQUARED, MAX_BYTES)
    };
    if enough { Ok(value) } else { Err(call.error("too much")) }
}

fn range<'c, 'v>(spent: &CostCounter, call: &mut FunctionContext<'c, 'v>) -> CountResult<'c, 'v> {
    let value = argument(call)?;
    let enough = CostCounter::add(value.as_ref(), &spent.looped, MAX_LOOPED);
    if enough { Ok(value) } else { Err(call.error("too much")) }
}

fn matches<'c, 'v>(spent: &CostCounter, call: &mut FunctionContext<'c, 'v>) -> CountResult<'c, 'v> {
    let wrong =
        || ExecutionError::function_error("matches", "wants a text and a regular expression");
    let [text, regex] = call.args.as_slice() else { return Err(wrong()) };
    let text = text.downcast_ref::<CelString<'_>>().ok_or_else(wrong)?.inner();
    let regex = regex.downcast_ref::<CelString<'_>>().ok_or_else(wrong)?.inner();
    let size = (text.len() as u64).saturating_mul(SEARCHED).saturating_add(LEAST_BYTES);
    if !spent.bytes.spend(size, MAX_BYTES) {
        return Err(call.error("too much"));
    }
    Ok(CowVal::owned(CelBool::from(spent.regex(regex)?.is_match(text))))
}

fn argument<'c, 'v>(call: &mut FunctionContext<'c, 'v>) -> CountResult<'c, 'v> {
    if call.args.is_empty() {
        return Err(ExecutionError::invalid_argument_count(1, 0));
    }
    Ok(call.args.swap_remove(0))
}

impl CostCounter {
    /// Begins the count of another expression.
    pub(super) fn begin(&self) {
        self.turns.begin(MAX_TURNS);
        self.parts.begin(MAX_PARTS);
        self.bytes.begin(MAX_BYTES);
        self.looped.begin(MAX_LOOPED);
    }

    /// Says what there was not enough of, and what to do; `None` while there was enough.
    pub(super) fn exceeded_limit(&self) -> Option<(String, &'static str)> {
        const LOOPS: &str = "let the expression loop over less, or make several policies of it";
        const PARTS: &str = "let the expression look at parts rather than at whole objects";
        let counts = [
            (&self.turns, MAX_TURNS, "its loops take", "turns", LOOPS),
            (&self.parts, MAX_PARTS, "its loops evaluate", "parts", LOOPS),
            (&self.bytes, MAX_BYTES, "it makes and compares values of", "bytes", PARTS),
            (&self.looped, MAX_LOOPED, "its loops run over values of", "bytes", LOOPS),
        ];
        let (count, most, verb, noun, help) = counts
            .into_iter()
            .find(|(count, most, ..)| count.is_over(*most) || count.is_over_in_all(*most))?;
        if !count.is_over(most) {
            let most = most * PLAN;
            let why =
                format!("{verb} more than {most} {noun} together with the policies before it");
            return Some((why, "let the policies look at less: what one plan may cost is limited"));
        }
        Some((format!("{verb} more than {most} {noun}"), help))
    }

    /// Counts the parts of a turn.
    fn evaluate(&self, parts: Option<&CowVal<'_, '_>>) -> bool {
        let parts = parts.and_then(|parts| parts.downcast_ref::<CelInt>());
        let parts = parts.map_or(0, |parts| u64::try_from(*parts.inner()).unwrap_or(0));
        self.parts.spend(parts, MAX_PARTS)
    }

    /// Adds the size of a value, no further than to the most.
    fn add(value: &(dyn Val + '_), to: &Count, most: u64) -> bool {
        let length = if let Some(text) = value.downcast_ref::<CelString<'_>>() {
            text.inner().len()
        } else {
            value.downcast_ref::<CelBytes<'_>>().map_or(0, |bytes| bytes.inner().len())
        };
        if !to.spend(LEAST_BYTES.saturating_add(length as u64), most) {
            return false;
        }
        if let Some(list) = value.downcast_ref::<CelList<'_>>() {
            return list.inner().iter().all(|item| Self::add(item.as_ref(), to, most));
        }
        let Some(map) = value.downcast_ref::<CelMap<'_>>() else { return true };
        let mut entries = map.inner().iter();
        entries.all(|(key, item)| {
            Self::add(key.inner(), to, most) && Self::add(item.as_ref(), to, most)
        })
    }

    /// Compiles a regular expression, once for all policies of a plan.
    fn regex(&self, text: &str) -> Result<Regex, ExecutionError> {
        let mut regexes = self.regexes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(regex) = regexes.get(text) {
            return Ok(regex.clone());
        }
        if !self.bytes.spend(COMPILED, MAX_BYTES) {
            return Err(ExecutionError::function_error("matches", "too much"));
        }
        let built = RegexBuilder::new(text).size_limit(LARGEST_REGEX).build();
        let regex =
            built.map_err(|error| ExecutionError::function_error("matches", error.to_string()))?;
        regexes.insert(text.to_owned(), regex.clone());
        Ok(regex)
    }
}
