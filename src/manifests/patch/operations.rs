//! JSON Patch (RFC 6902): `add`, `remove`, `replace` and `test` at a JSON Pointer (RFC 6901).
//!
//! `move` and `copy` are not taken: in an object that a template renders, whoever reads the patch would have to know
//! what stands there.

use serde_json::{Map, Value as Json};

use super::{MAX_DEPTH, PatchError};
use crate::waml::section_patches::{PatchOperation, PatchVerb};
use crate::waml::suggest;

/// Applies one operation to an object.
///
/// # Errors
/// When there is no such place, or the operation is not well formed.
pub(crate) fn apply_operation(
    object: &mut Map<String, Json>,
    operation: &PatchOperation,
) -> Result<(), PatchError> {
    let steps = parse_pointer(&operation.path)?;
    let Some((last, parents)) = steps.split_last() else {
        return Err(PatchError::new("the path is that of the whole object", POINTER_HELP));
    };
    let value = match (operation.op, &operation.value) {
        (PatchVerb::Remove, None) => Json::Null,
        (PatchVerb::Remove, Some(_)) => {
            return Err(PatchError::new("`remove` takes no `value`", "leave the value out"));
        }
        (_, None) => {
            let help = "add `value`; to set a field to null, remove it";
            return Err(PatchError::new("the operation has no `value`", help));
        }
        (_, Some(value)) => value.clone(),
    };
    if steps.len() + depth(&value) > MAX_DEPTH {
        let message = format!("the object would be more than {MAX_DEPTH} levels deep");
        return Err(PatchError::new(message, "patch it where it is flatter"));
    }
    let mut holder = Holder::Map(object);
    for (index, step) in parents.iter().enumerate() {
        holder = match holder.descend(step) {
            Ok(inner) => inner,
            Err(help) => return Err(missing(steps.get(..=index).unwrap_or_default(), help)),
        };
    }
    holder.apply(operation.op, last, value).map_err(|problem| match problem {
        Problem::Missing(help) => missing(&steps, help),
        Problem::Differs => {
            let message = format!("something else stands at `{}`", operation.path);
            PatchError::new(message, "look at it with `bart render`, and correct `value`")
        }
    })
}

const POINTER_HELP: &str =
    "write it as `/spec/template/spec/containers/0/args/-`; `~1` is a `/` in a key, `~0` a `~`";

fn parse_pointer(text: &str) -> Result<Vec<String>, PatchError> {
    let is_escaped = |part: &str| {
        let mut rest = part.split('~').skip(1);
        rest.all(|behind| behind.starts_with(['0', '1']))
    };
    let Some(rest) = text.strip_prefix('/').filter(|rest| is_escaped(rest)) else {
        return Err(PatchError::new("the path is not a JSON Pointer", POINTER_HELP));
    };
    let steps: Vec<String> =
        rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    if steps.len() > MAX_DEPTH {
        let message = format!("the path has more than {MAX_DEPTH} steps");
        return Err(PatchError::new(message, POINTER_HELP));
    }
    Ok(steps)
}

fn missing(steps: &[String], help: String) -> PatchError {
    let escape = |step: &String| step.replace('~', "~0").replace('/', "~1");
    let pointer = format!("/{}", steps.iter().map(escape).collect::<Vec<_>>().join("/"));
    PatchError::new(format!("the object has no `{pointer}`"), help)
}

fn depth(value: &Json) -> usize {
    match value {
        Json::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Json::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => 0,
    }
}

/// What an operation is applied in.
enum Holder<'a> {
    Map(&'a mut Map<String, Json>),
    List(&'a mut Vec<Json>),
}

enum Problem {
    /// The way out.
    Missing(String),
    Differs,
}

impl Holder<'_> {
    fn descend(self, step: &str) -> Result<Self, String> {
        let help = self.describe(step);
        let inner = match self {
            Self::Map(map) => map.get_mut(step),
            Self::List(list) => parse_index(step).and_then(|index| list.get_mut(index)),
        };
        match inner {
            Some(Json::Object(map)) => Ok(Self::Map(map)),
            Some(Json::Array(list)) => Ok(Self::List(list)),
            Some(_) => Err(format!("`{step}` is a single value, with nothing below")),
            None => Err(help),
        }
    }

    fn apply(self, verb: PatchVerb, step: &str, value: Json) -> Result<(), Problem> {
        let help = self.describe(step);
        let absent = || Problem::Missing(help);
        match (self, verb) {
            (Self::Map(map), PatchVerb::Add) => drop(map.insert(step.to_owned(), value)),
            (Self::Map(map), PatchVerb::Remove) => {
                map.shift_remove(step).ok_or_else(absent)?;
            }
            (Self::Map(map), PatchVerb::Replace) => {
                *map.get_mut(step).ok_or_else(absent)? = value;
            }
            (Self::Map(map), PatchVerb::Test) => test(map.get(step).ok_or_else(absent)?, &value)?,
            (Self::List(list), PatchVerb::Add) => {
                let index = if step == "-" { Some(list.len()) } else { parse_index(step) };
                let index = index.filter(|index| *index <= list.len()).ok_or_else(absent)?;
                list.insert(index, value);
            }
            (Self::List(list), verb) => {
                let index = parse_index(step).filter(|index| *index < list.len());
                let index = index.ok_or_else(absent)?;
                match (verb, list.get_mut(index)) {
                    (PatchVerb::Remove, _) => drop(list.remove(index)),
                    (PatchVerb::Test, Some(element)) => test(element, &value)?,
                    (_, Some(element)) => *element = value,
                    (_, None) => {}
                }
            }
        }
        Ok(())
    }

    /// Says what there is instead of a step.
    fn describe(&self, step: &str) -> String {
        match self {
            Self::Map(map) => suggest::hint(step, map.keys().map(String::as_str)),
            Self::List(list) if list.is_empty() => {
                "the list is empty: add to it with `-`".to_owned()
            }
            Self::List(list) => format!("the list has elements from 0 to {}", list.len() - 1),
        }
    }
}

fn test(current: &Json, value: &Json) -> Result<(), Problem> {
    if current == value { Ok(()) } else { Err(Problem::Differs) }
}

fn parse_index(text: &str) -> Option<usize> {
    let is_canonical = text == "0" || !text.starts_with('0');
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_canonical && digits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(operations: &Json) -> Result<Json, String> {
        let object = json!({"a": {"b": [1, 2], "x/y": 1, "~": 2}, "c": "d"});
        let Json::Object(mut object) = object else { panic!() };
        let operations: Vec<PatchOperation> = serde_json::from_value(operations.clone()).unwrap();
        for operation in &operations {
            apply_operation(&mut object, operation)
                .map_err(|error| format!("{} → {}", error.message, error.help))?;
        }
        Ok(Json::Object(object))
    }

    #[test]
    fn operations_do_what_the_rfc_says() {
        for (operations, expected) in [
            (json!([{"op": "add", "path": "/a/b/-", "value": 3}]), json!([1, 2, 3])),
            (json!([{"op": "add", "path": "/a/b/0", "value": 3}]), json!([3, 1, 2])),
            (json!([{"op": "add", "path": "/a/b/2", "value": 3}]), json!([1, 2, 3])),
            (json!([{"op": "remove", "path": "/a/b/0"}]), json!([2])),
            (json!([{"op": "replace", "path": "/a/b/1", "value": [3]}]), json!([1, [3]])),
            (json!([{"op": "test", "path": "/a/b/1", "value": 2}]), json!([1, 2])),
            (json!([{"op": "add", "path": "/a/b", "value": 1}]), json!(1)),
        ] {
            assert_eq!(patched(&operations).unwrap()["a"]["b"], expected, "{operations}");
        }
        let escaped = json!([{"op": "remove", "path": "/a/x~1y"}, {"op": "remove", "path": "/a/~0"}, {"op": "remove", "path": "/c"}]);
        assert_eq!(patched(&escaped), Ok(json!({"a": {"b": [1, 2]}})));
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        for (operation, expected) in [
            (json!({"op": "replace", "path": "/a/c", "value": 1}), "the object has no `/a/c` → "),
            (
                json!({"op": "remove", "path": "/aa/b"}),
                "the object has no `/aa` → did you mean `a`?",
            ),
            (
                json!({"op": "add", "path": "/a/b/3", "value": 1}),
                "the object has no `/a/b/3` → the list has elements from 0 to 1",
            ),
            (json!({"op": "remove", "path": "/a/b/01"}), "the object has no `/a/b/01`"),
            (json!({"op": "remove", "path": "/a/b/-"}), "the object has no `/a/b/-`"),
            (
                json!({"op": "add", "path": "/c/x", "value": 1}),
                "the object has no `/c` → `c` is a single value",
            ),
            (json!({"op": "test", "path": "/c", "value": 1}), "something else stands at `/c`"),
            (json!({"op": "add", "path": "/a/n"}), "the operation has no `value`"),
            (json!({"op": "remove", "path": "/c", "value": 1}), "`remove` takes no `value`"),
            (json!({"op": "remove", "path": "c"}), "the path is not a JSON Pointer"),
            (json!({"op": "remove", "path": ""}), "the path is not a JSON Pointer"),
            (json!({"op": "remove", "path": "/a/~2"}), "the path is not a JSON Pointer"),
        ] {
            let error = patched(&json!([operation])).unwrap_err();
            assert!(error.starts_with(expected), "{error}\n{expected}");
        }
    }

    #[test]
    fn the_depth_is_bounded() {
        let deep = (0..70).fold(json!(1), |inner, _| json!({"a": inner}));
        let error = patched(&json!([{"op": "add", "path": "/a/z", "value": deep}])).unwrap_err();
        assert!(error.contains("levels deep"), "{error}");
        let long = "/a".repeat(70);
        assert!(patched(&json!([{"op": "remove", "path": long}])).unwrap_err().contains("steps"));
    }
}
