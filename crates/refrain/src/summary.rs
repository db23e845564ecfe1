//! The summary on stderr when a trace has been written.

use crate::control::unmatched;
use crate::truncation::truncations;
use refrain_reader::meta::why_log_stopped;
use refrain_reader::{Ended, Meta, StreamMeta};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Prints three lines about a new trace, and a line for each problem. `requested` is the number of ranks
/// on the launcher's command line, if known.
pub fn print(meta: &Meta, trace: &Path, bytes: u64, how: &str, requested: Option<u32>) {
    let lines = lines(meta, trace, bytes, how).into_iter();
    let remarks = too_few(meta, requested).into_iter().chain(unmatched(meta));
    for line in lines.chain(remarks).chain(truncations(meta, trace)) {
        say!("refrain: {line}");
    }
}

/// A remark if fewer ranks were recorded than requested.
fn too_few(meta: &Meta, requested: Option<u32>) -> Option<String> {
    let recorded = meta.processes().len() as u32;
    let requested = requested.filter(|&requested| recorded < requested)?;
    Some(format!(
        "note: MPI calls of only {recorded} of the {requested} requested ranks were recorded"
    ))
}

fn lines(meta: &Meta, trace: &Path, bytes: u64, how: &str) -> Vec<String> {
    let calls: u64 = meta.streams.iter().map(StreamMeta::total_calls).sum();
    let functions: BTreeSet<_> = meta.streams.iter().flat_map(|s| s.calls.keys()).collect();
    let ranks = meta.processes();
    let threads = match meta.streams.len() {
        n if n > ranks.len() => format!(", {} threads", grouped(n as u64)),
        _ => String::new(),
    };
    let mut lines = vec![
        format!(
            "{}{threads}, {} of {}",
            counted(ranks.len() as u64, "rank"),
            counted(calls, "call"),
            counted(functions.len() as u64, "function"),
        ),
        format!(
            "{} {how}, {} bytes a call; {}",
            size(bytes),
            per_call(bytes, calls),
            endings(meta)
        ),
        format!("written to {}; see it with: refrain show {}", trace.display(), quoted(trace)),
    ];
    if meta.streams.iter().any(|stream| stream.ended == Ended::Unfinalized) {
        lines.push(format!("see what each rank was doing with: refrain where {}", quoted(trace)));
    }
    lines.extend(remarks(meta));
    lines
}

/// Bytes per call, with a suitable number of digits.
fn per_call(bytes: u64, calls: u64) -> String {
    let each = bytes as f64 / calls.max(1) as f64;
    if each < 0.1 { format!("{each:.4}") } else { format!("{each:.1}") }
}

/// How the ranks ended, in one phrase.
fn endings(meta: &Meta) -> String {
    let mut by_ending: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
    let mut running = BTreeSet::new();
    for stream in &meta.streams {
        let ending = match &stream.ended {
            Ended::Finalized => "by MPI_Finalize".to_owned(),
            Ended::Aborted(code) => format!("by MPI_Abort({code})"),
            Ended::Unfinalized => "without MPI_Finalize".to_owned(),
            Ended::LogStopped(_) => "after its log had stopped".to_owned(),
            Ended::Running => {
                running.insert(stream.rank);
                continue;
            }
        };
        by_ending.entry(ending).or_default().insert(stream.rank);
    }
    match (by_ending.len(), by_ending.keys().next(), running.is_empty()) {
        (1, Some(ending), true) => return format!("every rank ended {ending}"),
        (0, ..) => return "a snapshot: every rank still runs".to_owned(),
        _ => {}
    }
    let phrase = |(ending, ranks): (&String, &BTreeSet<i32>)| format!("{} {ending}", few(ranks));
    let mut phrases: Vec<_> = by_ending.iter().map(phrase).collect();
    if !running.is_empty() {
        phrases.push(format!("not yet: {}, which still run", few(&running)));
    }
    format!("ended: {}", phrases.join("; "))
}

/// A remark if several processes have the same rank.
fn same_rank(meta: &Meta) -> Option<String> {
    let processes = meta.processes();
    let ranks: BTreeSet<i32> = meta.streams.iter().map(|stream| stream.rank).collect();
    (ranks.len() < processes.len()).then(|| {
        format!(
            "note: {} processes share {}: several runs in one trace, or an mpirun of another MPI",
            processes.len(),
            counted(ranks.len() as u64, "rank number")
        )
    })
}

fn few(ranks: &BTreeSet<i32>) -> String {
    let head: Vec<_> = ranks.iter().take(4).map(i32::to_string).collect();
    match ranks.len() {
        1 => format!("rank {}", head.join(", ")),
        n if n > 4 => format!("ranks {} and {} more", head.join(", "), n - 4),
        _ => format!("ranks {}", head.join(", ")),
    }
}

/// Remarks about what is missing or unusual.
pub fn remarks(meta: &Meta) -> Vec<String> {
    let mut remarks = Vec::new();
    let unrecorded: u64 = meta.streams.iter().map(|s| u64::from(s.unrecorded)).sum();
    if unrecorded > 0 {
        remarks.push(format!("note: {} forwarded but not recorded", counted(unrecorded, "call")));
    }
    let missing: u64 = meta.streams.iter().map(|s| u64::from(s.missing)).max().unwrap_or(0);
    if missing > 0 {
        remarks.push(format!(
            "note: {} of functions that this MPI does not have returned an error",
            counted(missing, "call")
        ));
    }
    if meta.streams.iter().any(|s| s.calls.keys().any(|f| f.starts_with("MPI_Comm_spawn"))) {
        remarks.push("note: processes that MPI_Comm_spawn starts are not recorded".to_owned());
    }
    let stopped: BTreeMap<_, _> = meta
        .streams
        .iter()
        .filter_map(|s| if let Ended::LogStopped(e) = s.ended { Some((s.rank, e)) } else { None })
        .collect();
    if let Some((_, errno)) = stopped.first_key_value() {
        let why = why_log_stopped(*errno);
        let ranks = few(&stopped.keys().copied().collect());
        remarks.push(format!("warning: the log of {ranks} stopped early: {why}"));
    }
    remarks.extend(same_rank(meta));
    remarks.extend(meta.lost.iter().map(|lost| format!("warning: could not be read: {lost}")));
    remarks
}

/// A path, quoted for a shell if necessary.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "-_./+=:,@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// A number of things: `1 call`, `1,234 calls`.
pub fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// A number with commas: 1,234,567.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in the unit that suits it.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for larger in ["kB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_sizes_have_units() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(123), "123");
        assert_eq!(size(999), "999 B");
        assert_eq!(size(1_500_000), "1.5 MB");
    }
}
