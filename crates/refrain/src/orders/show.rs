//! What `refrain show` prints of a file of receive orders.

use super::Places;
use crate::Usage;
use crate::select::Names;
use crate::stdout::Lines;
use anyhow::{Result, bail};
use refrain_order::causal::links::{Link, Links, Position};
use refrain_order::causal::read::{Reader, Which};
use refrain_order::divergence::Moment;
use refrain_order::{Frames, Kind, MatchResult};
use refrain_trace::Orders;
use refrain_trace::orders::Method;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

/// What of it to print.
pub struct Wanted {
    /// Only these ranks.
    pub ranks: Option<BTreeSet<i32>>,
    /// Only this thread of each.
    pub thread: Option<u32>,
    /// Only these functions, and then no receives.
    pub functions: Names,
    /// At most so many lines.
    pub limit: u64,
    /// One JSON object a line.
    pub json: bool,
}

impl Wanted {
    /// Whether a completing call is.
    pub fn has(&self, kind: Kind) -> bool {
        self.functions.is_empty() || self.functions.contain(function(kind))
    }
}

/// The function of a completing call. Those that complete in the same way have one name.
fn function(kind: Kind) -> &'static str {
    match kind {
        Kind::Recv => "Recv",
        Kind::Sendrecv => "Sendrecv",
        Kind::Mrecv => "Mrecv",
        Kind::Probe => "Probe",
        Kind::Mprobe => "Mprobe",
        Kind::Iprobe => "Iprobe",
        Kind::Improbe => "Improbe",
        Kind::Wait => "Wait",
        Kind::Waitall => "Waitall",
        Kind::Waitany => "Waitany",
        Kind::Waitsome => "Waitsome",
        Kind::Test => "Test",
        Kind::Testall => "Testall",
        Kind::Testany => "Testany",
        Kind::Testsome => "Testsome",
        Kind::GetStatus => "Request_get_status",
        Kind::GetStatusAll => "Request_get_status_all",
        Kind::GetStatusAny => "Request_get_status_any",
        Kind::GetStatusSome => "Request_get_status_some",
        Kind::Parrived => "Parrived",
    }
}

/// Prints, rank by rank, what receives with wildcards received and what calls completed.
pub fn run(orders: &Orders, path: &Path, wanted: Wanted) -> Result<ExitCode> {
    if !Kind::ALL.iter().any(|kind| wanted.has(*kind)) {
        let all: Vec<&str> = Kind::ALL.iter().map(|kind| function(*kind)).collect();
        let all = all.join(", ");
        bail!(Usage(format!("--function: a record has no other calls than these: {all}")));
    }
    if orders.method() == Method::Clock {
        return super::clock::show(orders, path, &wanted);
    }
    let places = Places::of(orders);
    let mut printer = Printer { places, left: wanted.limit, wanted: &wanted, out: Lines::new() };
    let mut found = false;
    for own in &orders.ranks {
        if wanted.ranks.as_ref().is_none_or(|ranks| ranks.contains(&(own.rank as i32))) {
            found = true;
            let links = Links::of(&own.frames)?;
            for stream in 0..own.frames.streams().len() {
                if wanted.thread.is_none_or(|thread| thread as usize == stream) {
                    printer.stream(own.rank, &own.frames, stream, &links)?;
                }
            }
        }
    }
    if !found {
        bail!("no such rank in {}", path.display());
    }
    printer.out.finish()?;
    Ok(ExitCode::SUCCESS)
}

struct Printer<'w> {
    places: Places,
    left: u64,
    wanted: &'w Wanted,
    out: Lines,
}

impl Printer<'_> {
    fn stream(&mut self, rank: u32, frames: &Frames, stream: usize, links: &Links) -> Result<()> {
        let several = frames.streams().len() > 1;
        let who = if several { format!("{rank}.{stream}") } else { rank.to_string() };
        for which in [Which::Receives, Which::Calls] {
            let mut reader = Reader::new(frames, stream);
            while let Some(stretch) = reader.next_stretch()? {
                let mut moments = Vec::new();
                reader.append(&stretch, which, &mut moments)?;
                for moment in moments {
                    let is_wanted = match &moment {
                        Moment::Call { kind, .. } => self.wanted.has(*kind),
                        _ => self.wanted.functions.is_empty(),
                    };
                    if !is_wanted {
                        continue;
                    }
                    if self.left == 0 {
                        return Ok(());
                    }
                    self.left -= 1;
                    if self.wanted.json {
                        let json = self.to_json(rank, stream, &moment, links);
                        self.out.json(&json.to_string())?;
                    } else {
                        let text = moment.text(|site| self.places.name(site));
                        let link = link_text(&moment, stream, links);
                        self.out.line(&format!("rank {who}  {text}{link}"))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn to_json(&self, rank: u32, thread: usize, moment: &Moment, links: &Links) -> Json {
        let mut line = json!({ "rank": rank, "thread": thread });
        match moment {
            Moment::Call { position, kind, site, count, polls, picks } => {
                line["call"] = (*position).into();
                line["kind"] = kind.to_string().into();
                line["site"] = self.places.name(*site).into();
                line["requests"] = (*count).into();
                line["failed_polls"] = (*polls).into();
                line["completed"] = picks.as_slice().into();
                let links = links.of_call(at(thread, *position));
                match links {
                    [] => {}
                    [link] if link.request.is_none() => {
                        line["completed_receive"] = link.receive.number.into();
                    }
                    links => {
                        let receive = |link: &Link| {
                            let Position { stream, number } = link.receive;
                            let mut one = json!({ "request": link.request, "receive": number });
                            if stream as usize != thread {
                                one["thread"] = stream.into();
                            }
                            one
                        };
                        line["completed_receives"] = links.iter().map(receive).collect();
                    }
                }
            }
            Moment::Receive { position, site, communicator, any, match_result } => {
                line["receive"] = (*position).into();
                line["site"] = self.places.name(*site).into();
                line["communicator"] = (*communicator).into();
                line["any_source"] = any[0].into();
                line["any_tag"] = any[1].into();
                if let Some(link) = links.of_receive(at(thread, *position)) {
                    line["completed_by"] = link.call.number.into();
                    if link.call.stream as usize != thread {
                        line["completed_by_thread"] = link.call.stream.into();
                    }
                }
                match match_result {
                    Some(MatchResult::Matched(from)) => {
                        line["source"] = from.source.into();
                        line["tag"] = from.tag.into();
                    }
                    Some(MatchResult::Cancelled) => line["cancelled"] = true.into(),
                    Some(MatchResult::Never) | None => line["never"] = true.into(),
                }
            }
            Moment::Value { .. } | Moment::End => {}
        }
        line
    }
}

/// A call or a receive of a thread.
fn at(thread: usize, number: u64) -> Position {
    Position { stream: thread as u32, number }
}

/// Receives of a call that are printed at most.
const SHOWN_LINKS: usize = 16;

/// The numbers that a receive, or a completing call, has in the other list.
fn link_text(moment: &Moment, thread: usize, links: &Links) -> String {
    let name = |position: &Position| match position.stream as usize == thread {
        true => position.number.to_string(),
        false => format!("{} of thread {}", position.number, position.stream),
    };
    match moment {
        Moment::Call { position, .. } => {
            let links = links.of_call(at(thread, *position));
            let shown = links.iter().take(SHOWN_LINKS).map(|link| name(&link.receive));
            let shown = shown.collect::<Vec<_>>().join(", ");
            match links.len() {
                0 => String::new(),
                1 => format!(" (receive {shown})"),
                2..=SHOWN_LINKS => format!(" (receives {shown})"),
                all => format!(" (receives {shown}, … {all} in all)"),
            }
        }
        Moment::Receive { position, .. } => {
            let link = links.of_receive(at(thread, *position));
            link.map_or_else(String::new, |link| format!(" (call {})", name(&link.call)))
        }
        Moment::Value { .. } | Moment::End => String::new(),
    }
}
