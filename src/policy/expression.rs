//! A CEL expression, compiled and checked before it is used: it is short, does not nest deep, names only known
//! variables and functions, and can be true.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};
use cel::parser::PrattParser;
use cel::{Context, Env, IdedExpr};

use crate::policy::watch::watch;
use crate::waml::quote::quote;
use crate::waml::suggest;

/// The variables of an expression.
pub(super) const VARIABLES: &[&str] = &["waml", "app", "target", "release", "objects"];

/// Longer ones cannot be read either. In bytes.
const LONGEST: usize = 2000;
/// Brackets within brackets, before anything is parsed.
const MAX_BRACKETS: u16 = 24;
/// Names, values, calls and operators, after macros are expanded.
const MAX_PARTS: usize = 1000;
/// The limit of nested parts: parsing and evaluation recurse.
const DEEPEST: usize = 64;
/// The number of parts that a loop counts for: evaluating one takes so much more of the stack.
const LOOP: usize = 5;
/// Loops within loops: objects, containers, variables, and one more.
const MAX_LOOPS: usize = 4;
/// Functions of the extensions whose result can be far larger than all they are given: the length
/// of one text times that of another, or a number of elements or digits.
const MULTIPLYING: &[&str] =
    &["format", "join", "lists.range", "quote", "range", "replace", "strings.quote"];

/// CEL's own functions, and those on texts and lists that others have too.
pub(super) static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    for extension in [cel::extensions::strings, cel::extensions::lists] {
        // They add functions of other names than the standard's; a test calls one of each.
        let _ = env.add_extension(extension);
    }
    Arc::new(env)
});

/// An expression that may be evaluated.
#[derive(Debug)]
pub(super) struct Expression(pub(super) IdedExpr);

/// The error of an expression, with its line and column, both from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpressionError {
    pub(super) message: String,
    pub(super) help: String,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Compiles an expression.
///
/// By the library's second parser: the first, made by ANTLR, takes so much of the stack that a
/// dozen brackets end a thread, and keeps to its own limit too late.
pub(super) fn compile(text: &str) -> Result<Expression, ExpressionError> {
    check_limits(text)?;
    let parser =
        PrattParser::new().max_recursion_depth(MAX_BRACKETS).max_expression_node_count(MAX_PARTS);
    let mut expression = match catch_unwind(AssertUnwindSafe(|| parser.parse(text))) {
        Ok(Ok(expression)) => expression,
        Ok(Err(errors)) => return Err(parse_error(&errors)),
        Err(_panic) => {
            return Err(at_start("this expression cannot be compiled", "write it another way"));
        }
    };
    let mut walk = Walk { text, names: Vec::new(), loops: 0 };
    walk.part(&expression, 0)?;
    boolean(&expression)?;
    watch(&mut expression);
    Ok(Expression(expression))
}

fn at_start(message: impl Into<String>, help: impl Into<String>) -> ExpressionError {
    ExpressionError { message: message.into(), help: help.into(), line: 1, column: 1 }
}

/// Checks the limits that need no parser, so that no text is parsed that would take all of the stack.
fn check_limits(text: &str) -> Result<(), ExpressionError> {
    if text.len() > LONGEST {
        let message = format!("the expression has {} bytes, more than {LONGEST}", text.len());
        return Err(at_start(message, "make several policies of it"));
    }
    let mut open = 0_u16;
    let mut unary = 0_u16;
    for c in text.chars() {
        match c {
            '(' | '[' | '{' | '?' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        unary = if matches!(c, '!' | '-') {
            unary + 1
        } else if c.is_whitespace() {
            unary
        } else {
            0
        };
        if open > MAX_BRACKETS || unary > MAX_BRACKETS {
            return Err(too_deep());
        }
    }
    Ok(())
}

fn too_deep() -> ExpressionError {
    at_start("the expression nests too deep", "make several policies of it")
}

fn parse_error(errors: &cel::ParseErrors) -> ExpressionError {
    let narrow = |n: isize| u32::try_from(n).unwrap_or(1).max(1);
    let Some(first) = errors.errors.first() else {
        return at_start("this is no CEL expression", HELP);
    };
    let (line, column) = first.pos;
    let message = format!("this is no CEL expression: {}", first.msg);
    ExpressionError { message, help: HELP.to_owned(), line: narrow(line), column: narrow(column) }
}

const HELP: &str = "see docs/policies.md for what an expression can look like";

/// Checks every part with the names in its scope.
struct Walk<'t> {
    text: &'t str,
    /// The variables of the enclosing loops.
    names: Vec<String>,
    loops: usize,
}

impl Walk<'_> {
    fn part(&mut self, part: &IdedExpr, depth: usize) -> Result<(), ExpressionError> {
        if depth > DEEPEST {
            return Err(too_deep());
        }
        match &part.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.variable(name),
            Expr::Call(call) => self.call(call, depth),
            Expr::Select(select) => self.part(&select.operand, depth + 1),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, depth),
            Expr::List(list) => {
                list.elements.iter().try_for_each(|element| self.part(element, depth + 1))
            }
            Expr::Map(map) => map.entries.iter().try_for_each(|e| self.entry(&e.expr, depth)),
            Expr::Struct(structure) => {
                structure.entries.iter().try_for_each(|e| self.entry(&e.expr, depth))
            }
        }
    }

    fn entry(&mut self, entry: &EntryExpr, depth: usize) -> Result<(), ExpressionError> {
        match entry {
            EntryExpr::StructField(field) => self.part(&field.value, depth + 1),
            EntryExpr::MapEntry(entry) => {
                self.part(&entry.key, depth + 1)?;
                self.part(&entry.value, depth + 1)
            }
        }
    }

    fn variable(&self, name: &str) -> Result<(), ExpressionError> {
        let is_known =
            VARIABLES.contains(&name) || self.names.iter().any(|own_name| own_name == name);
        if is_known || name.starts_with('@') {
            return Ok(());
        }
        let names = VARIABLES.iter().copied().chain(self.names.iter().map(String::as_str));
        let help = suggest::hint(name, names);
        Err(self.fault(name, format!("there is no variable {}", quote(name)), help))
    }

    fn call(&mut self, call: &CallExpr, depth: usize) -> Result<(), ExpressionError> {
        if !is_function(&call.func_name) {
            let message = format!("there is no function {}", quote(&call.func_name));
            return Err(self.fault(&call.func_name, message, HELP.to_owned()));
        }
        if let Some(target) = &call.target {
            self.part(target, depth + 1)?;
        }
        call.args.iter().try_for_each(|arg| self.part(arg, depth + 1))
    }

    fn comprehension(
        &mut self,
        comprehension: &ComprehensionExpr,
        depth: usize,
    ) -> Result<(), ExpressionError> {
        self.part(&comprehension.iter_range, depth + LOOP)?;
        self.loops += 1;
        if self.loops > MAX_LOOPS {
            let message = format!("there are more than {MAX_LOOPS} loops within each other");
            return Err(at_start(message, "make several policies of it"));
        }
        let before = self.names.len();
        let names = [
            Some(&comprehension.iter_var),
            comprehension.iter_var2.as_ref(),
            Some(&comprehension.accu_var),
        ];
        self.names.extend(names.into_iter().flatten().cloned());
        let parts = [
            &comprehension.accu_init,
            &comprehension.loop_cond,
            &comprehension.loop_step,
            &comprehension.result,
        ];
        let result = parts.into_iter().try_for_each(|part| self.part(part, depth + LOOP));
        self.names.truncate(before);
        self.loops -= 1;
        result
    }

    /// Describes a fault. The parser keeps no places: a name's is where it first occurs as a word.
    fn fault(&self, name: &str, message: String, help: String) -> ExpressionError {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let is_whole_word = |at: &usize| {
            let before = self.text.get(..*at).unwrap_or_default();
            let after = self.text.get(at + name.len()..).unwrap_or_default();
            !before.ends_with(is_word) && !after.starts_with(is_word)
        };
        let start =
            self.text.match_indices(name).map(|(at, _)| at).find(is_whole_word).unwrap_or(0);
        let before = self.text.get(..start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        let narrow = |n: usize| u32::try_from(n).unwrap_or(1);
        ExpressionError { message, help, line: narrow(line), column: narrow(column) }
    }
}

/// Checks it with the library itself: it takes no second function of a name that it has.
fn is_function(name: &str) -> bool {
    let special = [
        operators::CONDITIONAL,
        operators::LOGICAL_AND,
        operators::LOGICAL_OR,
        operators::LOGICAL_NOT,
        operators::NOT_STRICTLY_FALSE,
        operators::IN,
    ];
    if MULTIPLYING.contains(&name) {
        return false;
    }
    special.contains(&name)
        || name.starts_with('_')
        || name == operators::NEGATE
        || Context::with_env(ENV.clone()).add_function(name, || true).is_err()
}

/// Refuses an expression that is plainly neither true nor false; the rest shows when it is evaluated.
fn boolean(expression: &IdedExpr) -> Result<(), ExpressionError> {
    match non_boolean_type(&expression.expr) {
        Some(kind) => Err(at_start(
            format!("the expression gives {kind}, not true or false"),
            "compare it with something: `size(objects) < 50`",
        )),
        None => Ok(()),
    }
}

fn non_boolean_type(expr: &Expr) -> Option<&'static str> {
    match expr {
        Expr::Literal(LiteralValue::Boolean(_)) => None,
        Expr::Literal(LiteralValue::String(_)) => Some("a text"),
        Expr::Literal(LiteralValue::Null) => Some("null"),
        Expr::Literal(LiteralValue::Bytes(_)) => Some("bytes"),
        Expr::Literal(_) => Some("a number"),
        Expr::List(_) => Some("a list"),
        Expr::Map(_) | Expr::Struct(_) => Some("a map"),
        Expr::Ident(name) if name == "objects" => Some("a list"),
        Expr::Ident(name) if VARIABLES.contains(&name.as_str()) => Some("a map"),
        Expr::Call(call) => match call.func_name.as_str() {
            "size" | "int" | "uint" | "double" | "indexOf" | "lastIndexOf" => Some("a number"),
            "string" | "lowerAscii" | "upperAscii" | "substring" | "trim" => Some("a text"),
            "split" => Some("a list"),
            operators::ADD | operators::SUBSTRACT | operators::MULTIPLY => Some("a sum"),
            operators::DIVIDE | operators::MODULO | operators::NEGATE => Some("a number"),
            _ => None,
        },
        // `map` and `filter` begin with an empty list, `all` and `exists` with a truth.
        Expr::Comprehension(comprehension) => {
            matches!(comprehension.accu_init.expr, Expr::List(_)).then_some("a list")
        }
        Expr::Ident(_) | Expr::Select(_) | Expr::Unspecified => None,
    }
}
