//! CEL expressions applied to one plan, within limits.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cel::objects::{Key, Map};
use cel::{Context, ExecutionError, Value};
use serde_json::Value as Json;

use super::PolicyInput;
use crate::policy::cost;
use crate::policy::cost::CostCounter;
use crate::policy::expression::{ENV, Expression};
use crate::waml::quote::quote;

/// Everything that expressions look at.
pub(super) struct PolicyContext {
    context: Context<'static, 'static>,
    spent: Arc<CostCounter>,
}

/// The result of an expression.
pub(super) enum Evaluation {
    Holds,
    DoesNot,
    /// The expression gave neither true nor false.
    Failed {
        why: String,
        help: &'static str,
    },
}

impl PolicyContext {
    /// Collects everything that there is to look at in a plan.
    pub(super) fn of(plan: &PolicyInput<'_>) -> Self {
        let mut context = Context::with_env(ENV.clone());
        for name in ["app", "target", "release"] {
            context.add_variable_from_value(name, plan.view.get(name).map_or(Value::Null, value));
        }
        context.add_variable_from_value("waml", value(&plan.settings));
        let objects: Vec<Value> = plan.objects.iter().map(|o| map(&o.json)).collect();
        context.add_variable_from_value("objects", Value::List(Arc::new(objects)));
        Self::counting(context)
    }

    /// Builds a context in which expressions count their cost.
    pub(super) fn counting(mut context: Context<'static, 'static>) -> Self {
        let spent = Arc::new(CostCounter::default());
        cost::count(&mut context, &spent);
        Self { context, spent }
    }

    /// Evaluates one expression.
    pub(super) fn ask(&self, expression: &Expression) -> Evaluation {
        self.spent.begin();
        let resolved = catch_unwind(AssertUnwindSafe(|| self.context.resolve(&expression.0)));
        // A policy that went beyond its limits may still have a result, but one of a part of the plan.
        if let Some((why, help)) = self.spent.exceeded_limit() {
            return Evaluation::Failed { why, help };
        }
        match resolved {
            Ok(Ok(Value::Bool(true))) => Evaluation::Holds,
            Ok(Ok(Value::Bool(false))) => Evaluation::DoesNot,
            Ok(Ok(other)) => Evaluation::Failed {
                why: format!("it gives {}, not true or false", other.type_of()),
                help: "compare the result with something",
            },
            Ok(Err(error)) => describe_error(&error),
            Err(_panic) => Evaluation::Failed {
                why: "the evaluation stopped early".to_owned(),
                help: "write the expression another way",
            },
        }
    }
}

/// Describes an error. Values of the plan may be long or secret, so it has their type, or nothing.
fn describe_error(error: &ExecutionError) -> Evaluation {
    let (why, help) = match error {
        ExecutionError::NoSuchKey(key) => (
            format!("there is no {}", quote(key)),
            "an expression asks `has(a.b)` before it looks at what may be missing",
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
    Evaluation::Failed { why, help }
}

/// Converts a value as CEL has it: whole numbers are `int` where they fit.
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
    let entries = object.iter().map(|(key, item)| (Key::from(key.clone()), value(item)));
    Value::Map(Map { map: Arc::new(entries.collect::<HashMap<Key, Value>>()) })
}
