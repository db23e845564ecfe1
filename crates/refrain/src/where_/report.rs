//! The text that `refrain where` prints.
//!
//! Ranks in the same state share a line: most jobs hang with nearly all ranks in one call.

use super::recorded::Recorded;
use super::{Process, State};
use crate::select::ranks_in_words;
use refrain_analysis::matching::{Kind, Origin, Scope, Until};
use refrain_analysis::sites::{Frame, Sites};
use refrain_analysis::waits::Life;
use refrain_analysis::waits::graph::{
    Edge, Findings, Incomplete, Mismatch, NearMiss, Odd, Step, WaitsOnEnded,
};
use refrain_reader::Ended;
use refrain_reader::meta::why_log_stopped;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The state of a process, in words.
pub fn state(process: &Process) -> String {
    match (&process.ended, process.state) {
        (Ended::Finalized, _) => "has called MPI_Finalize".to_owned(),
        (Ended::Aborted(code), _) => format!("has called MPI_Abort({code})"),
        (Ended::LogStopped(errno), _) => {
            let why = why_log_stopped(*errno);
            format!("is unknown after that: its log stopped early ({why})")
        }
        (_, State::Moving) => "makes progress".to_owned(),
        (_, State::Running) => "runs".to_owned(),
        (_, State::Elsewhere) => "is on another machine and may be running".to_owned(),
        (Ended::Running, State::Past) => "was running when the trace was made".to_owned(),
        (_, State::Past) if process.position.wait_state.life == Life::Here => {
            "ended in it".to_owned()
        }
        (_, State::Past) => "has ended without MPI_Finalize".to_owned(),
    }
}

/// The lines.
pub fn as_text(
    processes: &[Process],
    found: &Findings,
    recorded: &Recorded,
    sites: &mut Sites,
) -> String {
    let mut lines = positions(processes, recorded, sites);
    lines.extend(silent(processes));
    lines.push(String::new());
    lines.extend(waits(&found.edges));
    lines.extend(found.incomplete.iter().map(incomplete));
    lines.extend(near_misses(&found.near_misses, sites));
    lines.extend(waits_on_ended(&found.waits_on_ended));
    lines.extend(found.cycles.iter().map(|cycle| in_a_circle(cycle)));
    lines.push(verdict(processes, found, recorded));
    lines.extend(likely_cause(&found.near_misses));
    lines.join("\n") + "\n"
}

/// The state of a thread, apart from call numbers and times, which may differ between ranks on one line.
#[derive(Debug)]
struct ThreadState {
    /// The thread, if there are several.
    thread: Option<u32>,
    /// The call, or the function of the last one.
    call: Option<String>,
    is_in_it: bool,
    /// Additional text.
    more: String,
}

/// A rank in such a state.
struct Rank {
    rank: i32,
    of_process: String,
    number: Option<u64>,
    age: Option<Duration>,
}

/// The states of all threads.
fn positions(processes: &[Process], recorded: &Recorded, sites: &mut Sites) -> Vec<String> {
    // In the order of the first rank in each state.
    let mut states: Vec<(ThreadState, Vec<Rank>)> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut note = |thread_state: ThreadState, rank: Rank| {
        let at = *known.entry(format!("{thread_state:?}")).or_insert(states.len());
        match states.get_mut(at) {
            Some((_, ranks)) => ranks.push(rank),
            None => states.push((thread_state, vec![rank])),
        }
    };
    for process in processes {
        let of_process = format!("({}, pid {})", process.stream.host, process.stream.pid);
        let several = process.position.threads.len() > 1;
        for (thread, at) in &process.position.threads {
            let rank = |number: Option<u64>, age: Option<Duration>| Rank {
                rank: process.stream.rank,
                of_process: of_process.clone(),
                number,
                age,
            };
            let thread_shown = several.then_some(*thread);
            for call in &at.flight {
                let moving = if process.state == State::Moving { ", moving" } else { "" };
                let site =
                    call.site.as_ref().map(|site| call_site(site, sites)).unwrap_or_default();
                let call_shown = Some(format!("{}{site}", call.text));
                let thread_state = ThreadState {
                    thread: thread_shown,
                    call: call_shown,
                    is_in_it: true,
                    more: moving.to_owned(),
                };
                note(thread_state, rank(Some(call.number), process.age(*thread, call.number)));
            }
            if at.flight.is_empty() {
                let missing = recorded.missing_of(&process.stream);
                let missing = missing.map_or(String::new(), |missing| format!("; {missing}"));
                let more = format!("{}{missing}", state(process));
                let (number, call) = at.last.clone().unzip();
                let thread_state =
                    ThreadState { thread: thread_shown, call, is_in_it: false, more };
                note(thread_state, rank(number, None));
            }
        }
    }
    states.iter().map(|(thread_state, ranks)| position(thread_state, ranks, recorded)).collect()
}

/// Where a call was made: `  at exchange stencil.c:42 < main stencil.c:90`.
fn call_site(site: &Arc<str>, sites: &mut Sites) -> String {
    let frames: Vec<String> = sites.frames(site).iter().map(Frame::text).collect();
    format!("  at {}", frames.join(" < "))
}

fn position(thread_state: &ThreadState, all: &[Rank], recorded: &Recorded) -> String {
    let thread = |what: &str| thread_state.thread.map_or(String::new(), |t| format!("{what}{t}"));
    let numbers: BTreeSet<u64> = all.iter().filter_map(|rank| rank.number).collect();
    let number = match (numbers.first(), numbers.last()) {
        (Some(first), Some(last)) if first < last => format!("#{first} to #{last} "),
        (Some(number), _) => format!("#{number} "),
        _ => String::new(),
    };
    let (who, each) = match all {
        [one] => (format!("rank {}{} {}", one.rank, thread("."), one.of_process), ""),
        _ => {
            let all: BTreeSet<i32> = all.iter().map(|rank| rank.rank).collect();
            let all: Vec<i32> = all.into_iter().collect();
            (format!("{}{}", ranks_in_words(&all), thread(", thread ")), "each ")
        }
    };
    let ThreadState { call, more, .. } = thread_state;
    if !thread_state.is_in_it {
        let last = call.as_ref().map(|call| format!("; the last was {number}{call}"));
        let recorded = if recorded.is_all() { "" } else { "recorded " };
        return format!("{who}  in no {recorded}call{}; {each}{more}", last.unwrap_or_default());
    }
    let ages = all.iter().filter_map(|rank| rank.age);
    let since = match (ages.clone().min(), ages.max()) {
        (Some(least), Some(most)) if in_words(least) != in_words(most) => {
            format!("for {} to {}", in_words(least), in_words(most))
        }
        (Some(age), _) => format!("for {}", in_words(age)),
        _ => String::new(),
    };
    let head = format!("{number}{since}");
    let head = format!("{}{more}", head.trim_end());
    let call = call.as_deref().unwrap_or_default();
    if head.is_empty() { format!("{who}  {call}") } else { format!("{who}  {head}  {call}") }
}

/// The edges of the wait-for graph: ranks that wait for the same in the same call share a line.
fn waits(edges: &[Edge]) -> Vec<String> {
    let mut all: Vec<(&Edge, Vec<i32>)> = Vec::new();
    for edge in edges {
        let same = |(other, _): &&mut (&Edge, Vec<i32>)| {
            (&other.to, other.until, &other.words) == (&edge.to, edge.until, &edge.words)
        };
        match all.iter_mut().find(same) {
            Some((_, ranks)) => ranks.push(edge.from),
            None => all.push((edge, vec![edge.from])),
        }
    }
    let line = |(edge, from): &(&Edge, Vec<i32>)| {
        let any = if edge.until == Until::Any && edge.to.len() > 1 { "any of " } else { "" };
        format!("{} for {any}{} ({})", who_wait(from), ranks_in_words(&edge.to), edge.words)
    };
    all.iter().map(line).collect()
}

fn incomplete(collective: &Incomplete) -> String {
    let inside = |(words, all): (&String, &Vec<i32>)| format!("{words}: {}", ranks_in_words(all));
    let inside: Vec<_> = collective.inside.iter().map(inside).collect();
    match collective.missing.is_empty() {
        true => format!("different collectives at once: {}", inside.join("; ")),
        false => {
            format!(
                "collective: {}; missing: {}",
                inside.join("; "),
                ranks_in_words(&collective.missing)
            )
        }
    }
}

/// The most mismatches that are listed.
const NAMED: usize = 8;

/// Messages that stuck ranks would receive if one thing were different.
fn near_misses(all: &[NearMiss], sites: &mut Sites) -> Vec<String> {
    let mut lines: Vec<String> =
        all.iter().take(NAMED).map(|miss| near_miss(miss, sites)).collect();
    if all.len() > NAMED {
        lines.push(format!("and {} more mismatches", all.len() - NAMED));
    }
    lines
}

fn near_miss(miss: &NearMiss, sites: &mut Sites) -> String {
    let NearMiss { sender, receiver, tag, messages, .. } = miss;
    let sent = match messages {
        1 => format!("tag {tag}"),
        n => format!("{n} messages with tag {tag}"),
    };
    let waits = if miss.is_awaited { "waits" } else { "has posted a receive" };
    let (on, wanted) = match &miss.mismatch {
        Mismatch::Tag { wanted } => (String::new(), format!("for tag {wanted}")),
        Mismatch::Source { wanted } => (String::new(), format!("for a message from rank {wanted}")),
        Mismatch::Communicator { sent_on, wanted } if sent_on.members == wanted.members => (
            format!(" on {}", communicator(sent_on)),
            "on another communicator with the same ranks".to_owned(),
        ),
        Mismatch::Communicator { sent_on, wanted } => {
            (format!(" on {}", communicator(sent_on)), format!("on {}", communicator(wanted)))
        }
    };
    let them = if *messages == 1 { "it" } else { "them" };
    let sent_in = miss.sent_in.as_ref().map(|call| {
        let number = call.number.map_or(String::new(), |number| format!("#{number} "));
        let site = call.site.as_ref().map(|site| call_site(site, sites)).unwrap_or_default();
        let last = if *messages == 1 { "" } else { "the first in " };
        format!(" ({last}{number}{}{})", call.function, site.replacen("  at", " at", 1))
    });
    let sent_in = sent_in.unwrap_or_default();
    let odd = miss.odd.map(|Odd { rank, tag, usual, messages }| {
        format!(
            "; rank {rank} is the odd one: no other message or receive on this communicator has \
             tag {tag}, and {messages} messages have tag {usual}"
        )
    });
    format!(
        "mismatch: rank {sender} sent {sent} to rank {receiver}{on}{sent_in}, which {waits} \
         {wanted}: no receive takes {them}{}",
        odd.unwrap_or_default()
    )
}

/// What the ranks did that are the odd ones of their mismatches, if there are any.
fn likely_cause(all: &[NearMiss]) -> Option<String> {
    let what = |miss: &NearMiss| {
        let Odd { rank, tag, usual, .. } = miss.odd?;
        let did = match rank == miss.sender {
            true => "sent",
            false if miss.is_awaited => "waits for",
            false => "has posted a receive with",
        };
        Some(format!("rank {rank} {did} tag {tag} where others use tag {usual}"))
    };
    let mut causes: Vec<String> = all.iter().filter_map(what).collect();
    causes.dedup();
    (!causes.is_empty()).then(|| format!("likely cause: {}", causes.join("; ")))
}

/// A communicator in words.
fn communicator(scope: &Scope) -> String {
    let is_predefined = scope.kind == Kind::Communicator && scope.origin == Origin::Unknown;
    match scope.nth {
        0 if is_predefined && scope.members.len() > 1 && scope.members.first() == Some(&0) => {
            "MPI_COMM_WORLD".to_owned()
        }
        _ => format!("a communicator of {}", ranks_in_words(&scope.members)),
    }
}

/// Ranks that wait for ranks that have ended.
fn waits_on_ended(all: &[WaitsOnEnded]) -> Vec<String> {
    let how = |waits_on_ended: &WaitsOnEnded| match waits_on_ended.life {
        Some(Life::Finished) => ("has called MPI_Finalize", "have called MPI_Finalize"),
        Some(_) => ("has ended", "have ended"),
        None => ("has left no record", "have left no record"),
    };
    // First what each rank waits for in one call, then the ranks for which that is the same.
    let mut gone: BTreeMap<(i32, &str, _), Vec<i32>> = BTreeMap::new();
    for waits_on_ended in all {
        let key = (waits_on_ended.rank, waits_on_ended.words.as_str(), how(waits_on_ended));
        gone.entry(key).or_default().push(waits_on_ended.gone);
    }
    let mut who: BTreeMap<(Vec<i32>, &str, _), Vec<i32>> = BTreeMap::new();
    for ((rank, words, how), gone) in gone {
        who.entry((gone, words, how)).or_default().push(rank);
    }
    let mut lines = Vec::new();
    for ((gone, words, (of_one, of_all)), from) in who {
        let how = if gone.len() == 1 { of_one } else { of_all };
        lines.push(format!(
            "ended: {} for {}, which {how} ({words})",
            who_wait(&from),
            ranks_in_words(&gone)
        ));
    }
    lines
}

fn in_a_circle(cycle: &[Step]) -> String {
    let step = |(i, step): (usize, &Step)| {
        let next = cycle[(i + 1) % cycle.len()].rank;
        format!("rank {} waits for rank {next} ({})", step.rank, step.words)
    };
    let steps: Vec<_> = cycle.iter().enumerate().map(step).collect();
    let first = cycle.first().map_or(0, |step| step.rank);
    format!("cycle: {} → rank {first}", steps.join(" → "))
}

/// The verdict. If calls are missing, ranks may wait in calls that were not recorded.
fn verdict(processes: &[Process], found: &Findings, recorded: &Recorded) -> String {
    let has_ended = |p: &Process| p.state == State::Past && p.ended != Ended::Running;
    let some_ended = processes.iter().any(|p| has_ended(p) && p.ended != Ended::Finalized);
    match (found.stuck.is_empty(), recorded.doubt()) {
        (false, Some(why)) => {
            format!("stuck: {}, but this is uncertain: {why}", ranks_in_words(&found.stuck))
        }
        (false, None) => format!("stuck: {}", ranks_in_words(&found.stuck)),
        (true, Some(why)) => format!("it is not known which rank waits for which: {why}"),
        (true, None) if processes.iter().all(has_ended) => match found.edges.is_empty() {
            true => "all ranks have ended".to_owned(),
            false => "all ranks have ended; none was stuck when it did".to_owned(),
        },
        (true, None) if some_ended => {
            "every rank that has not ended may still make progress".to_owned()
        }
        (true, None) if found.edges.is_empty() => "no rank waits for another".to_owned(),
        (true, None) => "every rank may still make progress".to_owned(),
    }
}

/// Ranks without a record.
fn silent(processes: &[Process]) -> Option<String> {
    let size = processes.iter().map(|p| p.stream.size).max().unwrap_or(0);
    let known: BTreeSet<i32> = processes.iter().map(|p| p.stream.rank).collect();
    let silent: Vec<i32> = (0..size).filter(|rank| !known.contains(rank)).collect();
    (!silent.is_empty()).then(|| format!("{}: no record", ranks_in_words(&silent)))
}

/// `rank 3 waits`, `ranks 0-2 wait`.
fn who_wait(all: &[i32]) -> String {
    format!("{} wait{}", ranks_in_words(all), if all.len() == 1 { "s" } else { "" })
}

fn in_words(age: Duration) -> String {
    match age.as_secs() {
        0 => format!("{} ms", age.as_millis()),
        s if s < 120 => format!("{:.1} s", age.as_secs_f64()),
        s if s < 7200 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_suitable_unit() {
        assert_eq!(in_words(Duration::from_millis(250)), "250 ms");
        assert_eq!(in_words(Duration::from_millis(12_340)), "12.3 s");
        assert_eq!(in_words(Duration::from_secs(3601)), "60 min 1 s");
        assert_eq!(in_words(Duration::from_secs(7260)), "2 h 1 min");
    }

    #[test]
    fn ranks_that_wait_for_the_same_rank_share_a_line() {
        let edge = |from, to: i32, words: &str| Edge {
            from,
            thread: 0,
            to: vec![to],
            until: Until::All,
            words: words.to_owned(),
            is_collective: false,
        };
        let lines =
            waits(&[edge(1, 0, "MPI_Bcast"), edge(2, 0, "MPI_Bcast"), edge(3, 1, "MPI_Recv")]);
        let expected =
            ["ranks 1, 2 wait for rank 0 (MPI_Bcast)", "rank 3 waits for rank 1 (MPI_Recv)"];
        assert_eq!(lines, expected);
        let gone =
            |rank, gone| WaitsOnEnded { rank, words: "MPI_Barrier".to_owned(), gone, life: None };
        let lines = waits_on_ended(&[gone(0, 2), gone(0, 3), gone(1, 2), gone(1, 3)]);
        let expected =
            "ended: ranks 0, 1 wait for ranks 2, 3, which have left no record (MPI_Barrier)";
        assert_eq!(lines, [expected]);
    }
}
