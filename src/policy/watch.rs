//! The instrumentation of an expression, so that it counts its cost: a loop its turns, and each function that makes a
//! value of values the size of those. Without it, `.map(x, x + x)` forty times in a row fills any memory.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};

/// Called before each turn of a loop, with the number of parts that the turn evaluates; no expression
/// can be written that has it, or any of the others.
pub(super) const TICK: &str = "@tick";
/// Gives back its argument, whose size counts; a second one is a number of parts, as for [`TICK`].
pub(super) const WEIGH: &str = "@weigh";
/// Gives back its argument; only where it is a text its size counts.
pub(super) const SKIM: &str = "@skim";
/// Gives back its argument, whose size counts as often as it has elements, or characters.
pub(super) const SQUARE: &str = "@square";
/// The function that returns the range of a loop; each of its elements is copied for its turn.
pub(super) const RANGE: &str = "@range";
/// The replacement of `matches`: regular expressions are compiled once, and within limits.
pub(super) const MATCHES: &str = "@matches";

/// Looks at nothing but the outermost part of its operands, or only at whether they are true.
const LIGHT: &[&str] = &[
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_NOT,
    operators::LOGICAL_OR,
    operators::NOT_STRICTLY_FALSE,
    "type",
];

/// Compares each element, or character, with each.
const SQUARING: &[&str] = &["distinct", "indexOf", "lastIndexOf"];

/// Makes the part, and all in it, count.
pub(super) fn watch(part: &mut IdedExpr) {
    match &mut part.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
        Expr::Select(select) => watch(&mut select.operand),
        Expr::Call(call) => operands(call),
        Expr::List(list) => list.elements.iter_mut().for_each(element),
        Expr::Map(map) => map.entries.iter_mut().for_each(|entry| of_entry(&mut entry.expr)),
        Expr::Struct(structure) => {
            structure.entries.iter_mut().for_each(|entry| of_entry(&mut entry.expr));
        }
        Expr::Comprehension(expr) => comprehension(expr),
    }
}

fn operands(call: &mut CallExpr) {
    if call.func_name == "matches" {
        MATCHES.clone_into(&mut call.func_name);
        let target = call.target.take().map(|target| *target);
        call.args = target.into_iter().chain(std::mem::take(&mut call.args)).collect();
        return call.args.iter_mut().for_each(watch);
    }
    let name = call.func_name.as_str();
    if name == operators::INDEX {
        call.args.iter_mut().for_each(watch);
        if let Some(key) = call.args.get_mut(1).filter(|key| grows(&key.expr)) {
            wrap(key, SKIM);
        }
        return;
    }
    let weighing = match name {
        "size" => Some(SKIM),
        _ if SQUARING.contains(&name) => Some(SQUARE),
        _ if LIGHT.contains(&name) => None,
        _ => Some(WEIGH),
    };
    for operand in call.target.iter_mut().map(|target| &mut **target).chain(&mut call.args) {
        watch(operand);
        if let Some(weighing) = weighing.filter(|_| grows(&operand.expr)) {
            wrap(operand, weighing);
        }
    }
}

/// Checks that the part can be larger than it is written. The elements of lists and maps are
/// weighed by themselves, and a loop's own result is what it has made of such.
fn grows(expr: &Expr) -> bool {
    match expr {
        Expr::Ident(name) => !name.starts_with('@'),
        Expr::Select(_) | Expr::Call(_) | Expr::Comprehension(_) => true,
        Expr::Unspecified | Expr::Literal(_) | Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => {
            false
        }
    }
}

fn element(part: &mut IdedExpr) {
    watch(part);
    wrap(part, WEIGH);
}

fn of_entry(entry: &mut EntryExpr) {
    match entry {
        EntryExpr::StructField(field) => element(&mut field.value),
        EntryExpr::MapEntry(entry) => {
            element(&mut entry.key);
            element(&mut entry.value);
        }
    }
}

fn comprehension(comprehension: &mut ComprehensionExpr) {
    let turn = parts(&comprehension.loop_cond) + parts(&comprehension.loop_step);
    for part in
        [&mut comprehension.iter_range, &mut comprehension.loop_step, &mut comprehension.result]
    {
        watch(part);
    }
    // The result of another loop was weighed when that loop ran.
    if grows(&comprehension.iter_range.expr)
        && !matches!(comprehension.iter_range.expr, Expr::Comprehension(_))
    {
        wrap(&mut comprehension.iter_range, RANGE);
    }
    // A loop that only appends is run by the library without copying what is there already, if
    // its condition is left alone. It weighs all that it appends; what it leaves out is counted.
    if !appends(comprehension) {
        tick(&mut comprehension.loop_cond, turn);
    } else if let Expr::Call(step) = &mut comprehension.loop_step.expr {
        match step.args.as_mut_slice() {
            [guard, ..] if step.func_name == operators::CONDITIONAL => tick(guard, turn),
            [_, IdedExpr { expr: Expr::List(list), .. }] => {
                if let Some(Expr::Call(weigh)) =
                    list.elements.first_mut().map(|element| &mut element.expr)
                {
                    weigh.args.push(number(turn));
                }
            }
            _ => {}
        }
    }
}

/// Counts how many parts are evaluated once where this one is; loops in it count what is in them by
/// themselves.
fn parts(part: &IdedExpr) -> i64 {
    let entry = |entry: &EntryExpr| match entry {
        EntryExpr::StructField(field) => parts(&field.value),
        EntryExpr::MapEntry(entry) => parts(&entry.key) + parts(&entry.value),
    };
    let weight_below: i64 = match &part.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => 0,
        Expr::Select(select) => parts(&select.operand),
        Expr::Call(call) => call.target.iter().map(|t| &**t).chain(&call.args).map(parts).sum(),
        Expr::List(list) => list.elements.iter().map(parts).sum(),
        Expr::Map(map) => map.entries.iter().map(|map_entry| entry(&map_entry.expr)).sum(),
        Expr::Struct(structure) => {
            structure.entries.iter().map(|struct_entry| entry(&struct_entry.expr)).sum()
        }
        Expr::Comprehension(comprehension) => {
            parts(&comprehension.iter_range) + parts(&comprehension.result)
        }
    };
    1 + weight_below
}

/// Checks for `result + [x]`, or `guard ? result + [x] : result`: what `map` and `filter` are made
/// of.
fn appends(comprehension: &ComprehensionExpr) -> bool {
    let is_result = |part: &IdedExpr| matches!(&part.expr, Expr::Ident(name) if *name == comprehension.accu_var);
    let is_sum = |part: &IdedExpr| match &part.expr {
        Expr::Call(call) if call.func_name == operators::ADD => {
            matches!(call.args.as_slice(), [result, added] if is_result(result) && matches!(added.expr, Expr::List(_)))
        }
        _ => false,
    };
    let guarded = |call: &CallExpr| {
        call.func_name == operators::CONDITIONAL
            && matches!(call.args.as_slice(), [_, sum, result] if is_sum(sum) && is_result(result))
    };
    let step = matches!(&comprehension.loop_step.expr, Expr::Call(call) if guarded(call));
    is_result(&comprehension.result)
        && matches!(comprehension.loop_cond.expr, Expr::Literal(_))
        && (step || is_sum(&comprehension.loop_step))
}

/// Wraps the part as `@name(part)`.
fn wrap(part: &mut IdedExpr, name: &str) {
    let inner = std::mem::take(part);
    part.expr = call(name, vec![inner]);
}

/// Wraps the condition as `@tick(parts) && condition`.
fn tick(condition: &mut IdedExpr, parts: i64) {
    let inner = std::mem::take(condition);
    let tick = IdedExpr { id: 0, expr: call(TICK, vec![number(parts)]) };
    condition.expr = call(operators::LOGICAL_AND, vec![tick, inner]);
}

fn number(n: i64) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Int(n.into())) }
}

fn call(name: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args })
}
