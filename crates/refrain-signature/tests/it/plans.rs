//! The plan of every function of MPI, and of every note: what `plans.txt` says, which is what files were written by.

use refrain_format::define::FunctionDef;
use refrain_mpi::interface::functions;
use refrain_signature::notes;
use refrain_signature::plan::{Form, Kinds, Makes, Op, Plan, Role};
use std::path::Path;

/// The plans of all functions and notes, one line each.
fn plans() -> Vec<String> {
    let functions = functions().iter().map(FunctionDef::from);
    let notes = notes::DEFINITIONS.iter().map(|(_, text)| FunctionDef::from_text(text).unwrap());
    let mut kinds = Kinds::default();
    functions.chain(notes).map(|def| line(&Plan::new(def, &mut kinds), &kinds)).collect()
}

/// `NAME: inputs -> outputs; properties`.
fn line(plan: &Plan, kinds: &Kinds) -> String {
    let list = |ops: &[Op]| ops.iter().map(|op| value(plan, op, kinds)).collect::<Vec<_>>();
    let mut properties = Vec::new();
    let mut add = |holds: bool, property: String| {
        if holds {
            properties.push(property);
        }
    };
    let has_status = |ops: &[Op]| ops.iter().any(|op| op.form == Form::Status);
    add(plan.decides, "decides".to_owned());
    add(plan.polls, "polls".to_owned());
    // Only requests are persistent, and only statuses are of files.
    let persistent = if plan.persistent { " persistent" } else { "" };
    add(plan.makes != Makes::Nothing, format!("makes {:?}{persistent}", plan.makes));
    add(plan.of_files && has_status(&plan.outputs), "file status".to_owned());
    add(plan.reads_status, "reads status".to_owned());
    add(plan.cancels, "cancels".to_owned());
    if let Some(result) = plan.result {
        add(true, format!("result {}", form(result, kinds)));
    }
    add(plan.tells_time, "time".to_owned());
    let (inputs, outputs) = (list(&plan.inputs).join(" "), list(&plan.outputs).join(" "));
    let line = format!("{}: {inputs} -> {outputs}; {}", plan.def.name, properties.join(", "));
    line.trim_end().to_owned()
}

fn value(plan: &Plan, op: &Op, kinds: &Kinds) -> String {
    let name = &plan.def.params[usize::from(op.param)].name;
    let array = if op.array { "[]" } else { "" };
    let by_value = if op.by_value { "" } else { "&" };
    let changes = if op.changes { "~" } else { "" };
    let role = match op.role {
        Role::None => String::new(),
        role => format!("={role:?}"),
    };
    format!("{name}:{by_value}{changes}{}{array}{role}", form(op.form, kinds))
}

fn form(form: Form, kinds: &Kinds) -> String {
    match form {
        Form::Handle(kind) => format!("handle({})", kinds.name(kind)),
        Form::Address(kind) => format!("address({})", kinds.name(kind)),
        other => format!("{other:?}").to_lowercase(),
    }
}

#[test]
fn plans_are_those_that_files_were_written_by() {
    let plans = plans();
    let now = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plans.txt");
    std::fs::write(&now, plans.join("\n") + "\n").expect("a scratch file");
    let expected: Vec<&str> = include_str!("plans.txt").lines().collect();
    for (plan, expected) in plans.iter().zip(&expected) {
        assert_eq!(plan, expected, "all plans as they are now: {}", now.display());
    }
    assert_eq!(plans.len(), expected.len(), "all plans as they are now: {}", now.display());
}
