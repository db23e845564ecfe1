//! What `refrain show` prints of a file of receive orders.

use super::Places;
use crate::Usage;
use crate::output;
use crate::select::Names;
use anyhow::{Result, bail};
use refrain_order::causal::links::Links;
use refrain_order::causal::read::{Reader, Which};
use refrain_order::divergence::Moment;
use refrain_order::{Frames, Kind, MatchResult};
use refrain_trace::Orders;
use refrain_trace::orders::Method;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
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
    let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut printer = Printer { places, left: wanted.limit, wanted: &wanted, out };
    let mut found = false;
    for own in &orders.ranks {
        if wanted.ranks.as_ref().is_none_or(|ranks| ranks.contains(&(own.rank as i32))) {
            found = true;
            for stream in 0..own.frames.streams().len() {
                if wanted.thread.is_none_or(|thread| thread as usize == stream) {
                    printer.stream(own.rank, &own.frames, stream)?;
                }
            }
        }
    }
    if !found {
        bail!("no such rank in {}", path.display());
    }
    match printer.out.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

struct Printer<'w, W: Write> {
    places: Places,
    left: u64,
    wanted: &'w Wanted,
    out: W,
}

impl<W: Write> Printer<'_, W> {
    fn stream(&mut self, rank: u32, frames: &Frames, stream: usize) -> Result<()> {
        let several = frames.streams().len() > 1;
        let who = if several { format!("{rank}.{stream}") } else { rank.to_string() };
        let links = Links::of(frames, stream)?;
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
                    let line = match self.wanted.json {
                        true => self.to_json(rank, stream, &moment, &links).to_string(),
                        false => {
                            let text = moment.text(|site| self.places.name(site));
                            format!("rank {who}  {text}{}", link_text(&moment, &links))
                        }
                    };
                    if let Err(error) = writeln!(self.out, "{}", output::line(&line)) {
                        if error.kind() == io::ErrorKind::BrokenPipe {
                            self.left = 0;
                            return Ok(());
                        }
                        return Err(error.into());
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
                if let Some(receive) = links.receive(*position) {
                    line["completed_receive"] = receive.into();
                }
            }
            Moment::Receive { position, site, communicator, any, match_result } => {
                line["receive"] = (*position).into();
                line["site"] = self.places.name(*site).into();
                line["communicator"] = (*communicator).into();
                line["any_source"] = any[0].into();
                line["any_tag"] = any[1].into();
                if let Some(call) = links.call(*position) {
                    line["completed_by"] = call.into();
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

/// The number that a receive, or a completing call, has in the other list.
fn link_text(moment: &Moment, links: &Links) -> String {
    let link = match moment {
        Moment::Call { position, .. } => {
            links.receive(*position).map(|n| format!(" (receive {n})"))
        }
        Moment::Receive { position, .. } => links.call(*position).map(|n| format!(" (call {n})")),
        Moment::Value { .. } | Moment::End => None,
    };
    link.unwrap_or_default()
}
