//! The files of a generated program.

use crate::body::Functions;
use crate::call::{Shared, Writer};
use crate::formula::Ranks;
use crate::memory;
use crate::names;
use crate::program::Program;
use crate::{Compute, Options, Proxy};
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use std::collections::BTreeSet;

/// Writes the files.
pub fn write(program: &Program<'_>, options: &Options<'_>) -> Proxy {
    let mut shared = Shared { arenas: memory::arenas(program), ..Shared::default() };
    let mut functions: Vec<Vec<String>> = Vec::new();
    let mut tasks: Vec<Task> = Vec::new();
    let mut calls = 0u64;
    for (number, group) in program.groups.iter().enumerate() {
        let writer = Writer { program, group, shared: &mut shared, number };
        let suffix = if program.groups.len() > 1 { number.to_string() } else { String::new() };
        let mut writing = Functions::new(writer, options, suffix);
        let lines = writing.write(&group.structure.nest());
        let name = match program.groups.len() {
            1 => "all_ranks".to_owned(),
            _ => format!("group{number}"),
        };
        writing.function(&name, lines);
        functions.extend(writing.done);
        tasks.push(Task { name, thread: group.thread, ranks: group.ranks.clone() });
        let of_rank = group.calls.iter().filter(|call| !call.function.name.starts_with("refrain_"));
        let of_rank: u64 = of_rank.map(|call| call.occurrences).fold(0, u64::saturating_add);
        calls = calls.saturating_add(of_rank.saturating_mul(group.ranks.len() as u64));
    }
    let main = main(program, &mut shared, &tasks);
    let mut lines = head(program, options);
    let removed = removed(program);
    if !removed.is_empty() {
        lines
            .push("/* The standard has removed these; headers may not declare them. */".to_owned());
        lines.extend(removed);
        lines.push(String::new());
    }
    // An attempt that came to nothing may have left a table.
    let words = words(functions.iter().flatten().chain(&main));
    let is_used = |definition: &&String| {
        let name = definition.split_once('[').map_or("", |(before, _)| before);
        name.rsplit(' ').next().is_some_and(|name| words.contains(name))
    };
    let tables: Vec<&String> = shared.tables.definitions().iter().filter(is_used).collect();
    let outcomes = &shared.outcomes;
    lines.extend(variables(program, &shared, &words));
    if !tables.is_empty() {
        lines.push(String::new());
        lines.extend(tables.iter().map(|table| wrapped(table)));
    }
    if !outcomes.is_empty() {
        lines.extend([String::new(), "#include \"outcomes.h\"".to_owned()]);
    }
    for function in &functions {
        lines.push(String::new());
        lines.extend(function.iter().cloned());
    }
    lines.push(String::new());
    lines.extend(main);
    let mut files = vec![("proxy.c".to_owned(), lines.join("\n") + "\n")];
    if !outcomes.is_empty() {
        let text = "/* What MPI decided: runs of equal outcomes, for each call site and rank. */\n"
            .to_owned();
        let all: Vec<String> = outcomes.iter().map(|line| wrapped(line)).collect();
        files.push(("outcomes.h".to_owned(), text + &all.join("\n") + "\n"));
    }
    let support = [
        ("support.h", include_str!("support/proxy.h")),
        ("support.c", include_str!("support/proxy.c")),
        ("outcomes.c", include_str!("support/outcomes.c")),
    ];
    files.extend(support.map(|(name, text)| (name.to_owned(), text.to_owned())));
    files.push(("Makefile".to_owned(), makefile(program, options)));
    files.push(("README.md".to_owned(), readme(program, options)));
    Proxy {
        files,
        refused: program.refused.clone(),
        ranks: program.size,
        lines: lines.len(),
        calls,
    }
}

/// The identifiers in some lines.
fn words<'l>(lines: impl Iterator<Item = &'l String>) -> BTreeSet<&'l str> {
    let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    lines.flat_map(|line| line.split(is_other)).collect()
}

/// The tasks of a group.
struct Task {
    name: String,
    thread: u32,
    ranks: Vec<u32>,
}

fn head(program: &Program<'_>, options: &Options<'_>) -> Vec<String> {
    vec![
        format!(
            "/* Makes the MPI calls of {}, which has {} ranks. See README.md. */",
            options.trace, program.size
        ),
        "#include \"support.h\"".to_owned(),
        String::new(),
    ]
}

fn variables(program: &Program<'_>, shared: &Shared, words: &BTreeSet<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    if !shared.objects.is_empty() || !shared.tokens.is_empty() {
        lines.push("/* Objects, by their numbers in the trace. */".to_owned());
    }
    for ((kind, thread), most) in &shared.objects {
        let (ctype, name) = (names::handle_type(kind), names::handle_array(kind, *thread));
        lines.push(format!("static {ctype} {name}[{}];", most + 1));
    }
    for (group, count) in &shared.tokens {
        lines.push(match group.as_str() {
            "keyval" => format!("static int keyval[{count}];"),
            "address" => format!("static void *pointer[{count}];"),
            _ => format!("static int code[{count}];"),
        });
    }
    for (thread, most) in &shared.segments {
        lines.push(String::new());
        lines.push("/* Segments of memory, by their numbers in the trace. */".to_owned());
        let name = names::of_thread("memory", *thread);
        lines.push(format!("static struct segment {name}[{}];", most + 1));
    }
    let stacks = stacks(program);
    for ((thread, segment), (low, high)) in &shared.arenas {
        let name = names::of_thread(&format!("static{segment}"), *thread);
        let length = high - low + 64;
        if !words.contains(name.as_str()) {
            continue;
        }
        lines.push(format!("static char {name}[{length}] __attribute__((aligned(64)));"));
    }
    if !stacks.is_empty() {
        lines.push("static _Thread_local char *stack_memory;".to_owned());
    }
    lines
}

/// Declarations of functions that are no longer in the standard.
fn removed(program: &Program<'_>) -> Vec<String> {
    let calls = program.groups.iter().flat_map(|group| &group.calls);
    let all: BTreeSet<&str> = calls
        .filter_map(|call| call.mpi)
        .filter(|function| function.removed)
        .map(|function| function.name.as_str())
        .collect();
    let declaration = |name: &str| -> Option<Vec<String>> {
        let function = refrain_mpi::interface::function(name)?;
        let param = |param: &refrain_mpi::interface::Param| {
            let pointer =
                if param.direction == Direction::In && param.length.is_none() { "" } else { "*" };
            match param.class {
                Class::Aint => format!("MPI_Aint {pointer}{}", param.name),
                Class::Handle => {
                    format!("{} {pointer}{}", names::handle_type(param.kind.reads_as), param.name)
                }
                Class::Address => format!("void (*{})(MPI_Comm *, int *, ...)", param.name),
                Class::Memory => format!("void *{}", param.name),
                _ => format!("int {pointer}{}", param.name),
            }
        };
        let params: Vec<String> = function.params.iter().map(param).collect();
        Some(vec![format!("#undef {name}"), format!("int {name}({});", params.join(", "))])
    };
    all.into_iter().filter_map(declaration).flatten().collect()
}

/// The segments that are stacks, by thread.
fn stacks(program: &Program<'_>) -> BTreeSet<(u32, u32)> {
    use refrain_format::record::segment;
    use refrain_reader::Value;
    let mut stacks = BTreeSet::new();
    for group in &program.groups {
        for call in group.calls.iter().filter(|call| call.function.name == "refrain_segment") {
            for (_, event) in &call.events {
                if let (Some(Some(Value::Int(number))), Some(Some(Value::Int(kind)))) =
                    (event.inputs.first(), event.inputs.get(1))
                    && *kind == i64::from(segment::STACK)
                {
                    stacks.insert((group.thread, *number as u32));
                }
            }
        }
    }
    stacks
}

fn main(program: &Program<'_>, shared: &mut Shared, tasks: &[Task]) -> Vec<String> {
    let mut lines = Vec::new();
    let all: Vec<u32> = (0..program.size).collect();
    for thread in 0..program.threads() {
        let of_thread: Vec<&Task> = tasks.iter().filter(|task| task.thread == thread).collect();
        lines.push(format!("static void thread{thread}(void)"));
        lines.push("{".to_owned());
        let stack = stacks(program)
            .into_iter()
            .filter(|(of, _)| *of == thread)
            .filter_map(|key| shared.arenas.get(&key).map(|(low, high)| high - low + 64))
            .max();
        if let Some(bytes) = stack {
            lines.push(format!("    char stack[{bytes}] __attribute__((aligned(64)));"));
            lines.push("    stack_memory = keep(stack, sizeof stack);".to_owned());
        }
        let mut left = all.clone();
        for (at, task) in of_thread.iter().enumerate() {
            left.sort_unstable();
            let otherwise = if at > 0 { "else " } else { "" };
            let is_last = at + 1 == of_thread.len() && task.ranks == left;
            let line = match is_last {
                true if at == 0 => format!("    {}();", task.name),
                true => format!("    else\n        {}();", task.name),
                false => {
                    let mut ranks = Ranks { size: program.size, tables: &mut shared.tables };
                    let condition = ranks.condition(&task.ranks, &left);
                    let condition = unparenthesized(&condition);
                    format!("    {otherwise}if ({condition})\n        {}();", task.name)
                }
            };
            left.retain(|rank| !task.ranks.contains(rank));
            lines.extend(line.split('\n').map(str::to_owned));
        }
        lines.extend(["}".to_owned(), String::new()]);
    }
    let threads = program.threads();
    lines.push("int main(void)".to_owned());
    lines.push("{".to_owned());
    lines.push(format!("    proxy_start({});", program.size));
    if threads > 1 {
        let names: Vec<String> = (1..threads).map(|thread| format!("thread{thread}")).collect();
        lines.push(format!("    static void (*const threads[])(void) = {{{}}};", names.join(", ")));
        lines.push(format!("    proxy_threads({}, threads);", threads - 1));
    }
    lines.push("    thread0();".to_owned());
    if threads > 1 {
        lines.push("    end_threads();".to_owned());
    }
    lines.push("    return 0;".to_owned());
    lines.push("}".to_owned());
    lines
}

/// A condition without the parentheses around it.
fn unparenthesized(condition: &str) -> &str {
    let inner = condition.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    inner.filter(|inner| !inner.contains('(')).unwrap_or(condition)
}

/// A definition in lines of bearable length.
fn wrapped(line: &str) -> String {
    const WIDEST: usize = 110;
    if line.len() <= WIDEST || line.len() > 100_000 {
        return line.to_owned();
    }
    let (mut text, mut width) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        if width + word.len() > WIDEST {
            text = text.trim_end().to_owned() + "\n    ";
            width = 4;
        }
        text.push_str(word);
        width += word.len();
    }
    text
}

fn makefile(program: &Program<'_>, options: &Options<'_>) -> String {
    let compute = match options.compute {
        Compute::None => "none",
        Compute::Sleep => "sleep",
        Compute::Spin => "spin",
    };
    include_str!("support/Makefile.in")
        .replace("@COMPUTE@", compute)
        .replace("@RANKS@", &program.size.to_string())
}

fn readme(program: &Program<'_>, options: &Options<'_>) -> String {
    let mut left_out = String::new();
    if !program.refused.is_empty() {
        left_out.push_str("## What is left out\n\nThe program does not do this:\n\n");
        for (what, calls) in &program.refused.all {
            left_out.push_str(&format!("- {what} ({calls} calls)\n"));
        }
        left_out.push('\n');
    }
    include_str!("support/README.in")
        .replace("@TRACE@", &options.trace)
        .replace("@RANKS@", &program.size.to_string())
        .replace("@LEFT_OUT@", &left_out)
}
