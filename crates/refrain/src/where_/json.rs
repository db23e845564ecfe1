//! What `refrain where` has found, for a program.

use super::Process;
use super::recorded::Recorded;
use super::told::state;
use refrain_analysis::waits::Until;
use refrain_analysis::waits::graph::{Bereft, Edge, Findings, Incomplete, Step};
use refrain_analysis::waits::position::{Flight, ThreadPosition};
use serde_json::{Value as Json, json};

/// One JSON object.
pub fn as_json(processes: &[Process], found: &Findings, recorded: &Recorded) -> String {
    let process = |p: &Process| {
        let thread = |(thread, at): (&u32, &ThreadPosition)| {
            let call = |call: &Flight| {
                json!({
                    "call": call.number,
                    "function": call.function,
                    "arguments": call.arguments,
                    "seconds": p.age(*thread, call.number).map(|age| age.as_secs_f64()),
                })
            };
            let last = at.last.as_ref();
            json!({
                "thread": thread,
                "in": at.flight.iter().map(call).collect::<Vec<_>>(),
                "last": last.map(|(number, f)| json!({"call": number, "function": f})),
            })
        };
        json!({
            "rank": p.stream.rank,
            "host": p.stream.host,
            "pid": p.stream.pid,
            "state": state(p),
            "threads": p.position.threads.iter().map(thread).collect::<Vec<_>>(),
        })
    };
    let until = |until: Until| if until == Until::Any { "any" } else { "all" };
    let wait = |e: &Edge| {
        json!({
            "rank": e.from, "thread": e.thread, "for": e.to, "until": until(e.until),
            "call": e.words,
        })
    };
    let ended = |b: &Bereft| json!({"rank": b.rank, "for": b.gone, "call": b.words});
    let cycle = |cycle: &Vec<Step>| -> Json {
        cycle.iter().map(|s| json!({"rank": s.rank, "call": s.words})).collect()
    };
    let collective = |c: &Incomplete| json!({"inside": c.inside, "missing": c.missing});
    let whole = json!({
        "ranks": processes.iter().map(process).collect::<Vec<_>>(),
        "waits": found.edges.iter().map(wait).collect::<Vec<_>>(),
        "cycles": found.cycles.iter().map(cycle).collect::<Vec<_>>(),
        "ended": found.bereft.iter().map(ended).collect::<Vec<_>>(),
        "collectives": found.incomplete.iter().map(collective).collect::<Vec<_>>(),
        "stuck": found.stuck,
        "doubt": recorded.doubt(),
    });
    format!("{whole}\n")
}
