//! Lets an expression count what it costs: a loop its turns, and whatever makes a value of values
//! the size of those. Without it, `.map(x, x + x)` forty times in a row fills any memory.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, operators};

/// Called before each turn of a loop; no expression can be written that has it.
pub(super) const TICK: &str = "@tick";
/// Gives back its argument, whose size counts.
pub(super) const WEIGH: &str = "@weigh";

/// Looks at nothing but the outermost part of its operands, or only at whether they are true.
const LIGHT: &[&str] = &[
    operators::CONDITIONAL,
    operators::INDEX,
    operators::LOGICAL_AND,
    operators::LOGICAL_NOT,
    operators::LOGICAL_OR,
    operators::NOT_STRICTLY_FALSE,
    "size",
    "type",
];

/// Makes the part, and all in it, count.
pub(super) fn watch(part: &mut IdedExpr) {
    match &mut part.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
        Expr::Select(select) => watch(&mut select.operand),
        Expr::Call(call) => operands(call),
        Expr::List(list) => list.elements.iter_mut().for_each(element),
        Expr::Map(map) => map.entries.iter_mut().for_each(|entry| of_entry(&mut entry.expr)),
        Expr::Struct(of) => of.entries.iter_mut().for_each(|entry| of_entry(&mut entry.expr)),
        Expr::Comprehension(of) => comprehension(of),
    }
}

fn operands(call: &mut CallExpr) {
    let is_light = LIGHT.contains(&call.func_name.as_str());
    for operand in call.target.iter_mut().map(|target| &mut **target).chain(&mut call.args) {
        watch(operand);
        if !is_light && grows(&operand.expr) {
            weigh(operand);
        }
    }
}

/// Whether the part can be larger than it is written. The elements of lists and maps are weighed
/// by themselves, and a loop's own result is what it has made of such.
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
    weigh(part);
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

fn comprehension(of: &mut ComprehensionExpr) {
    for part in [&mut of.iter_range, &mut of.loop_step, &mut of.result] {
        watch(part);
    }
    // A loop that only appends is run by the library without copying what is there already, if
    // its condition is left alone. It weighs all that it appends; what it leaves out is counted.
    if !appends(of) {
        tick(&mut of.loop_cond);
    } else if let Expr::Call(step) = &mut of.loop_step.expr
        && step.func_name == operators::CONDITIONAL
        && let Some(guard) = step.args.first_mut()
    {
        tick(guard);
    }
}

/// `result + [x]`, or `guard ? result + [x] : result`: what `map` and `filter` are made of.
fn appends(of: &ComprehensionExpr) -> bool {
    let is_result =
        |part: &IdedExpr| matches!(&part.expr, Expr::Ident(name) if *name == of.accu_var);
    let is_sum = |part: &IdedExpr| match &part.expr {
        Expr::Call(call) if call.func_name == operators::ADD => {
            matches!(call.args.as_slice(), [result, more] if is_result(result) && matches!(more.expr, Expr::List(_)))
        }
        _ => false,
    };
    let guarded = |call: &CallExpr| {
        call.func_name == operators::CONDITIONAL
            && matches!(call.args.as_slice(), [_, sum, result] if is_sum(sum) && is_result(result))
    };
    let step = matches!(&of.loop_step.expr, Expr::Call(call) if guarded(call));
    is_result(&of.result)
        && matches!(of.loop_cond.expr, Expr::Literal(_))
        && (step || is_sum(&of.loop_step))
}

/// The part becomes `@weigh(part)`.
fn weigh(part: &mut IdedExpr) {
    let inner = std::mem::take(part);
    part.expr = call(WEIGH, vec![inner]);
}

/// The condition becomes `@tick() && condition`.
fn tick(condition: &mut IdedExpr) {
    let inner = std::mem::take(condition);
    let tick = IdedExpr { id: 0, expr: call(TICK, Vec::new()) };
    condition.expr = call(operators::LOGICAL_AND, vec![tick, inner]);
}

fn call(name: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args })
}
