//! CEL expressions applied to one plan, within limits.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cel::objects::{Key, Map};
use cel::{Context, ExecutionError, Value};
use serde_json::Value as Json;

use super::expression::{ENV, Expression};
use super::watch::{TICK, WEIGH};
use crate::pipeline::validate::Made;
use crate::pipeline::view;

/// So many turns of loops one expression may take: some tens of milliseconds.
const MOST_TURNS: u64 = 100_000;

/// So many bytes one expression may compare, search, or make new values of, in all.
const MOST_BYTES: u64 = 16 << 20;
/// What a value takes beside its text.
const LEAST_BYTES: u64 = 32;
/// What expressions look at.
pub(super) struct World {
    context: Context<'static, 'static>,
    spent: Arc<Spent>,
}

/// What one expression has used up.
#[derive(Default)]
struct Spent {
    turns: AtomicU64,
    bytes: AtomicU64,
}

/// What an expression said.
pub(super) enum Answer {
    Holds,
    DoesNot,
    /// It said neither.
    Failed {
        why: String,
        help: &'static str,
    },
}

impl World {
    /// Everything that there is to look at in a plan.
    pub(super) fn of(made: &Made<'_>) -> Self {
        let mut context = Context::with_env(ENV.clone());
        let view = view::of(made.valid);
        for name in ["app", "target", "release"] {
            context.add_variable_from_value(name, view.get(name).map_or(Value::Null, value));
        }
        let waml = view::settings(made.valid.section());
        context.add_variable_from_value("waml", value(&waml));
        let objects: Vec<Value> = made.objects.iter().map(|o| map(&o.json)).collect();
        context.add_variable_from_value("objects", Value::List(Arc::new(objects)));
        Self::counting(context)
    }

    /// A world in which expressions count what they cost.
    pub(super) fn counting(mut context: Context<'static, 'static>) -> Self {
        let spent = Arc::new(Spent::default());
        let (turn, weigh) = (Arc::clone(&spent), Arc::clone(&spent));
        // No functions of these names are there: they cannot be written.
        let _ = context.add_function(TICK, move || turn.turn());
        let _ = context.add_function(WEIGH, move |value: Value| weigh.weigh(value));
        Self { context, spent }
    }

    /// Evaluates one expression.
    pub(super) fn ask(&self, expression: &Expression) -> Answer {
        self.spent.turns.store(0, Ordering::Relaxed);
        self.spent.bytes.store(0, Ordering::Relaxed);
        let resolved = catch_unwind(AssertUnwindSafe(|| self.context.resolve(&expression.0)));
        match resolved {
            Ok(Ok(Value::Bool(true))) => Answer::Holds,
            Ok(Ok(Value::Bool(false))) => Answer::DoesNot,
            Ok(Ok(other)) => Answer::Failed {
                why: format!("it gives {}, not true or false", other.type_of()),
                help: "compare the result with something",
            },
            Ok(Err(error)) => failed(&error),
            Err(_panic) => Answer::Failed {
                why: "the evaluation broke off".to_owned(),
                help: "write the expression another way",
            },
        }
    }
}

impl Spent {
    fn turn(&self) -> Result<bool, ExecutionError> {
        if self.turns.fetch_add(1, Ordering::Relaxed) < MOST_TURNS {
            return Ok(true);
        }
        Err(ExecutionError::function_error(TICK, "too many turns"))
    }

    fn weigh(&self, value: Value) -> Result<Value, ExecutionError> {
        if self.add(&value) <= MOST_BYTES {
            return Ok(value);
        }
        Err(ExecutionError::function_error(WEIGH, "too many bytes"))
    }

    /// Adds the size of a value, no further than to the most; all that was added until now.
    fn add(&self, value: &Value) -> u64 {
        let own = match value {
            Value::String(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        let own = LEAST_BYTES.saturating_add(own as u64);
        let mut all = self.bytes.fetch_add(own, Ordering::Relaxed).saturating_add(own);
        let mut inner: Box<dyn Iterator<Item = &Value>> = match value {
            Value::List(list) => Box::new(list.iter()),
            Value::Map(map) => Box::new(map.map.values()),
            _ => return all,
        };
        while all <= MOST_BYTES
            && let Some(value) = inner.next()
        {
            all = self.add(value);
        }
        all
    }
}

/// Values of the plan may be long or secret: an error says of what type they are, or nothing.
fn failed(error: &ExecutionError) -> Answer {
    let (why, help) = match error {
        ExecutionError::NoSuchKey(key) => (
            format!("there is no {}", crate::waml::typed::quoted(key)),
            "an expression asks `has(a.b)` before it looks at what may be missing",
        ),
        ExecutionError::FunctionError { function, .. } if function == TICK => (
            format!("its loops take more than {MOST_TURNS} turns"),
            "let the expression loop over less, or make several policies of it",
        ),
        ExecutionError::FunctionError { function, .. } if function == WEIGH => (
            format!("it makes and compares values of more than {MOST_BYTES} bytes"),
            "let the expression look at parts rather than at whole objects",
        ),
        ExecutionError::FunctionError { function, .. } => {
            (format!("`{function}` fails"), "the expression must suit every WAML")
        }
        ExecutionError::NoSuchOverload(error) => {
            (error.to_string(), "an expression asks `has(a.b)` first, and `type(a.b) == string`")
        }
        ExecutionError::IndexOutOfBounds(_) => {
            ("a list is shorter than it expects".to_owned(), "the expression asks `size(…)` first")
        }
        _ => (
            "values do not have the types that it expects".to_owned(),
            "the expression must suit every WAML",
        ),
    };
    Answer::Failed { why, help }
}

/// As CEL has it: whole numbers are `int` where they fit.
fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(boolean) => Value::Bool(*boolean),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Value::Int(int),
            (None, Some(uint)) => Value::UInt(uint),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(Arc::new(text.clone())),
        Json::Array(list) => Value::List(Arc::new(list.iter().map(value).collect())),
        Json::Object(object) => map(object),
    }
}

fn map(object: &serde_json::Map<String, Json>) -> Value {
    let entries = object.iter().map(|(key, of)| (Key::from(key.clone()), value(of)));
    Value::Map(Map { map: Arc::new(entries.collect::<HashMap<Key, Value>>()) })
}
