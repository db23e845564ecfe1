//! What `refrain where` has found, as text and as JSON.

use super::{Process, State};
use refrain_analysis::waits::graph::{Bereft, Edge, Findings, Incomplete, Step};
use refrain_analysis::waits::position::{Flight, ThreadPosition};
use refrain_analysis::waits::{Life, Until};
use refrain_trace::Ended;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// What became of a process, in words; nothing where it just stands in its call.
fn state(process: &Process) -> String {
    match (&process.ended, process.state) {
        (Ended::Finalized, _) => "has called MPI_Finalize".to_owned(),
        (Ended::Aborted(code), _) => format!("has called MPI_Abort({code})"),
        (Ended::LogStopped(errno), _) => {
            let why = std::io::Error::from_raw_os_error(*errno);
            format!("is not known from here on: its log stopped early ({why})")
        }
        (_, State::Moving) => "goes on".to_owned(),
        (_, State::Running) => "runs".to_owned(),
        (_, State::Past) if process.position.standing.life == Life::Here => {
            "ended in it".to_owned()
        }
        (_, State::Past) => "has ended without MPI_Finalize".to_owned(),
    }
}

/// For a person.
pub fn as_text(processes: &[Process], found: &Findings) -> String {
    let mut lines = Vec::new();
    for process in processes {
        let rank = process.stream.rank;
        let threaded = process.position.threads.len() > 1;
        let of_process = format!("({}, pid {})", process.stream.host, process.stream.pid);
        for (thread, at) in &process.position.threads {
            let who = if threaded { format!("{rank}.{thread}") } else { rank.to_string() };
            for call in &at.flight {
                let since = process.age(*thread, call.number);
                let since = since.map_or(String::new(), |age| format!(" for {}", in_words(age)));
                let moving = if process.state == State::Moving { ", moving" } else { "" };
                lines.push(format!(
                    "rank {who} {of_process}  #{}{since}{moving}  {}",
                    call.number, call.text
                ));
            }
            if at.flight.is_empty() {
                let last = match &at.last {
                    Some((number, function)) => format!("; its last was #{number} {function}"),
                    None => String::new(),
                };
                lines
                    .push(format!("rank {who} {of_process}  in no call{last}; {}", state(process)));
            }
        }
    }
    lines.extend(silent(processes));
    lines.push(String::new());
    lines.extend(found.edges.iter().map(|edge| {
        let any = if edge.until == Until::Any && edge.to.len() > 1 { "any of " } else { "" };
        format!("rank {} waits for {any}{} ({})", edge.from, ranks(&edge.to), edge.words)
    }));
    for collective in &found.incomplete {
        let inside = |(words, all): (&String, &Vec<i32>)| format!("{words}: {}", ranks(all));
        let inside: Vec<_> = collective.inside.iter().map(inside).collect();
        lines.push(match collective.missing.is_empty() {
            true => format!("different collectives at once: {}", inside.join("; ")),
            false => format!(
                "collective: {}; missing: {}",
                inside.join("; "),
                ranks(&collective.missing)
            ),
        });
    }
    for ended in &found.bereft {
        let fate = match ended.life {
            Some(Life::Finished) => "has called MPI_Finalize",
            Some(_) => "has ended",
            None => "has left no record",
        };
        let (rank, gone) = (ended.rank, ended.gone);
        lines.push(format!(
            "ended: rank {rank} waits for rank {gone}, which {fate} ({})",
            ended.words
        ));
    }
    for cycle in &found.cycles {
        let step = |(i, step): (usize, &Step)| {
            let next = cycle[(i + 1) % cycle.len()].rank;
            format!("rank {} waits for rank {next} ({})", step.rank, step.words)
        };
        let steps: Vec<_> = cycle.iter().enumerate().map(step).collect();
        let first = cycle.first().map_or(0, |step| step.rank);
        lines.push(format!("cycle: {} → rank {first}", steps.join(" → ")));
    }
    lines.push(match found.stuck.len() {
        0 if found.edges.is_empty() => "nobody waits for anybody".to_owned(),
        0 => "every rank may still go on".to_owned(),
        _ => format!("stuck: {}", ranks(&found.stuck)),
    });
    lines.join("\n") + "\n"
}

/// Ranks that have left nothing.
fn silent(processes: &[Process]) -> Option<String> {
    let size = processes.iter().map(|p| p.stream.size).max().unwrap_or(0);
    let known: BTreeSet<i32> = processes.iter().map(|p| p.stream.rank).collect();
    let silent: Vec<i32> = (0..size).filter(|rank| !known.contains(rank)).collect();
    (!silent.is_empty()).then(|| format!("{}: no record", ranks(&silent)))
}

/// `rank 3`, `ranks 0, 2-5`.
fn ranks(all: &[i32]) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for &rank in all {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let run = |&(first, last): &(i32, i32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    let runs: Vec<_> = runs.iter().map(run).collect();
    format!("rank{} {}", if all.len() == 1 { "" } else { "s" }, runs.join(", "))
}

fn in_words(age: Duration) -> String {
    match age.as_secs() {
        0 => format!("{} ms", age.as_millis()),
        s if s < 120 => format!("{:.1} s", age.as_secs_f64()),
        s if s < 7200 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

/// For a program.
pub fn as_json(processes: &[Process], found: &Findings) -> String {
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
    });
    format!("{whole}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_in_a_row_are_a_range() {
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[0, 1]), "ranks 0, 1");
        assert_eq!(ranks(&[0, 2, 3, 4, 9]), "ranks 0, 2-4, 9");
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        assert_eq!(in_words(Duration::from_millis(250)), "250 ms");
        assert_eq!(in_words(Duration::from_millis(12_340)), "12.3 s");
        assert_eq!(in_words(Duration::from_secs(3601)), "60 min 1 s");
        assert_eq!(in_words(Duration::from_secs(7260)), "2 h 1 min");
    }
}
