//! What MPI decided, as the generated program enforces it (Pilgrim §3.2).
//!
//! Which message a receive from any source got, which requests a call completed, how many tests found nothing
//! before one found something: a vector of numbers for each visit of a call, on each rank. Where it is always the
//! same, it becomes a constant of the program, otherwise a table.

use crate::program::Signature;
use refrain_mpi::abi::{Family, Layout};
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use refrain_mpi::semantics::{Argument, Choice, Form, Op, Sync, polls};
use refrain_reader::arguments::CallArguments;
use refrain_reader::decoder::TaskError;
use refrain_reader::view::TaskView;
use refrain_reader::{Event, Value};
use std::collections::HashMap;

/// Stands for a number that is not enforced; as in `proxy.h`.
pub const ANY: i64 = -1_000_000_000;
/// Stands for the source or tag of a message that is not known yet.
const WANTED: i64 = ANY - 1;
/// Where the source is in a vector.
const SOURCE: usize = 2;
/// Where the tag is.
const TAG: usize = 3;
/// Whether the program ignores the status.
pub const IGNORES: usize = 4;
/// How many indices follow.
const COUNT: usize = 5;

/// The functions whose outcomes `support/outcomes.c` enforces.
const ENFORCED: [&str; 21] = [
    "MPI_Recv",
    "MPI_Irecv",
    "MPI_Sendrecv",
    "MPI_Sendrecv_replace",
    "MPI_Probe",
    "MPI_Iprobe",
    "MPI_Mprobe",
    "MPI_Improbe",
    "MPI_Waitany",
    "MPI_Waitsome",
    "MPI_Test",
    "MPI_Testany",
    "MPI_Testall",
    "MPI_Testsome",
    "MPI_Request_get_status",
    "MPI_Win_test",
    "MPI_Parrived",
    "MPI_Recv_c",
    "MPI_Irecv_c",
    "MPI_Sendrecv_c",
    "MPI_Sendrecv_replace_c",
];

/// Whether the outcomes of a function can be enforced.
pub fn is_enforced(name: &str) -> bool {
    ENFORCED.contains(&name)
}

/// What is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An outcome: failed polls, flag, source, tag, whether the program ignores the status, number of indices, indices.
    Outcome,
    /// The contents of a status that the program passes: source, tag, bytes, whether cancelled. Of a segment of
    /// memory, its bytes.
    Status,
}

/// The visits of a call.
#[derive(Clone, Debug)]
pub struct Steps {
    /// What the vectors are.
    pub kind: Kind,
    /// Each rank with the vector of each visit.
    pub visits: Vec<(u32, Vec<Vec<i64>>)>,
}

impl Steps {
    /// The vector, if it is always the same and no poll failed.
    pub fn constant(&self) -> Option<&Vec<i64>> {
        let mut all = self.visits.iter().flat_map(|(_, visits)| visits);
        let first = all.next()?;
        let is_quiet = self.kind == Kind::Status || first.first() == Some(&0);
        (is_quiet && all.all(|other| other == first)).then_some(first)
    }

    /// Whether the program ignores the status in some visits only.
    pub fn ignores_vary(&self) -> bool {
        let mut all = self.visits.iter().flat_map(|(_, visits)| visits);
        let first = all.next().and_then(|visit| visit.get(IGNORES));
        self.kind == Kind::Outcome && all.any(|visit| visit.get(IGNORES) != first)
    }

    /// The length of the longest vector.
    pub fn width(&self) -> usize {
        self.visits.iter().flat_map(|(_, visits)| visits).map(Vec::len).max().unwrap_or(0)
    }
}

/// What has to be known of a signature's calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// Which requests completed, or whether something was found.
    Completion,
    /// Which message was received.
    Match,
    /// Both.
    Found,
    /// Whether the program ignored the status.
    Ignored,
    /// The status that the program passed.
    Status,
    /// How long a segment of memory is.
    Bytes,
}

fn needs(signature: &Signature, layout: &'static Layout, varies: bool) -> Needs {
    if signature.function.name == "refrain_segment" && varies {
        return Needs::Bytes;
    }
    let (Some(function), Some(event)) = (signature.mpi, signature.event()) else {
        return Needs::Nothing;
    };
    if event.result.is_none() || signature.left_out {
        return Needs::Nothing;
    }
    let (op, form) = (function.op(), function.form());
    let is_any = |argument: Argument, any: i32| {
        signature.events.iter().any(|(_, event)| {
            CallArguments::of(event, layout).int(argument) == Some(i64::from(any))
        })
    };
    let takes_message = matches!(op, Op::Receive | Op::SendReceive | Op::Probe | Op::MatchedProbe)
        && !matches!(form, Form::Persistent | Form::Partitioned);
    let is_wild = takes_message
        && (is_any(Argument::Source, layout.any_source) || is_any(Argument::Tag, layout.any_tag));
    let polls = polls(op, form) || op == Op::Sync(Sync::Wait) && form == Form::Nonblocking;
    let chooses = matches!(op, Op::Complete(Choice::Any | Choice::Some));
    let is_input = |p: &refrain_mpi::interface::Param| {
        p.class == Class::Status && p.direction != Direction::Out
    };
    let returns_status =
        function.params.iter().any(|p| p.class == Class::Status && p.direction == Direction::Out);
    match (is_wild, polls || chooses) {
        (true, true) => Needs::Found,
        (true, false) => Needs::Match,
        (false, true) => Needs::Completion,
        (false, false) if function.params.iter().any(is_input) => Needs::Status,
        (false, false) if returns_status && varies => Needs::Ignored,
        (false, false) => Needs::Nothing,
    }
}

/// Adds what is enforced to the signatures.
pub fn add(
    calls: &mut [Signature],
    views: &[(u32, TaskView<'_>)],
    family: Family,
    varies: &dyn Fn(u32) -> bool,
) -> Result<(), TaskError> {
    let layout = Layout::of(family);
    let needs: Vec<Needs> =
        (0..).zip(&*calls).map(|(at, signature)| needs(signature, layout, varies(at))).collect();
    if needs.iter().all(|needs| *needs == Needs::Nothing) {
        return Ok(());
    }
    for (signature, needs) in calls.iter_mut().zip(&needs) {
        let kind = match needs {
            Needs::Status | Needs::Bytes => Kind::Status,
            _ => Kind::Outcome,
        };
        if *needs != Needs::Nothing {
            signature.steps = Some(Steps { kind, visits: Vec::new() });
        }
    }
    for (rank, view) in views {
        let (visits, firsts) = Walk::new(&needs, layout).visits(view)?;
        for (signature, event) in firsts {
            // Not a poll that failed.
            let call = calls.get_mut(signature as usize);
            let known = call.and_then(|call| call.events.iter_mut().find(|(of, _)| of == rank));
            if let Some((_, known)) = known {
                known.outputs = event.outputs;
            }
        }
        for (signature, visits) in calls.iter_mut().zip(visits) {
            if let Some(steps) = &mut signature.steps {
                steps.visits.push((*rank, visits));
            }
        }
    }
    Ok(())
}

/// A walk along the calls of a task.
struct Walk<'n> {
    needs: &'n [Needs],
    layout: &'static Layout,
    visits: Vec<Vec<Vec<i64>>>,
    /// By request: the visit whose message is not known yet.
    posted: HashMap<u64, (usize, usize)>,
    failed: HashMap<u32, i64>,
    /// The first call of each signature that is no failed poll.
    firsts: HashMap<u32, Event>,
}

/// The vectors of each visit of each signature, and the first calls.
type Walked = (Vec<Vec<Vec<i64>>>, HashMap<u32, Event>);

impl Walk<'_> {
    fn new<'n>(needs: &'n [Needs], layout: &'static Layout) -> Walk<'n> {
        let visits = vec![Vec::new(); needs.len()];
        let (posted, failed, firsts) = Default::default();
        Walk { needs, layout, visits, posted, failed, firsts }
    }

    fn visits(mut self, view: &TaskView<'_>) -> Result<Walked, TaskError> {
        for item in view.decode().numbered() {
            let (signature, is_failed, event) = item?;
            if is_failed {
                *self.failed.entry(signature).or_default() += 1;
                continue;
            }
            self.call(signature, &event);
            let is_polled = self
                .needs
                .get(signature as usize)
                .is_some_and(|needs| matches!(needs, Needs::Completion | Needs::Found));
            if is_polled && event.function.params.iter().all(|p| p.reads_as != "request") {
                self.firsts.entry(signature).or_insert(event);
            }
        }
        for visit in self.visits.iter_mut().flatten().filter(|visit| visit.len() > COUNT) {
            // Receives that no call completed.
            for field in [SOURCE, TAG] {
                if visit[field] == WANTED {
                    visit[field] = ANY;
                }
            }
        }
        Ok((self.visits, self.firsts))
    }

    fn call(&mut self, signature: u32, event: &Event) {
        let arguments = CallArguments::of(event, self.layout);
        if !self.posted.is_empty() {
            self.complete(&arguments);
        }
        let at = signature as usize;
        let Some(needs) = self.needs.get(at).filter(|needs| **needs != Needs::Nothing) else {
            return;
        };
        let (is_any_source, is_any_tag) =
            (self.is_any_source(&arguments), self.is_any_tag(&arguments));
        let mut visit = match needs {
            Needs::Status => status_fields(&arguments),
            Needs::Bytes => {
                event.outputs.iter().flatten().map(|value| value.as_result()).take(1).collect()
            }
            _ => self.outcome(signature, *needs, &arguments),
        };
        let Some(visits) = self.visits.get_mut(at) else { return };
        if matches!(needs, Needs::Match)
            && let Some(Some(Value::Word(request))) =
                arguments.position(Argument::Request).and_then(|param| event.outputs.get(param))
        {
            self.posted.insert(*request, (at, visits.len()));
            if is_any_source {
                visit[SOURCE] = WANTED;
            }
            if is_any_tag {
                visit[TAG] = WANTED;
            }
        }
        visits.push(visit);
    }

    /// Finds the messages that requests got.
    fn complete(&mut self, arguments: &CallArguments<'_>) {
        let completes = arguments.position(Argument::Request).is_some()
            && arguments.position(Argument::Status).is_some();
        if !completes {
            return;
        }
        let requests = arguments.requests();
        for (index, status) in arguments.completed() {
            let Some(request) = requests.get(index) else { continue };
            let Some((signature, visit)) = self.posted.remove(request) else { continue };
            let posted = self.visits.get_mut(signature).and_then(|visits| visits.get_mut(visit));
            if let (Some(posted), Some(status)) = (posted, status)
                && !status.cancelled
                && status.source >= 0
            {
                // As marked when the receive was posted.
                if posted[SOURCE] == WANTED {
                    posted[SOURCE] = status.source.into();
                }
                if posted[TAG] == WANTED {
                    posted[TAG] = status.tag.into();
                }
            }
        }
    }

    fn is_any_source(&self, arguments: &CallArguments<'_>) -> bool {
        arguments.int(Argument::Source) == Some(self.layout.any_source.into())
    }

    fn is_any_tag(&self, arguments: &CallArguments<'_>) -> bool {
        arguments.int(Argument::Tag) == Some(self.layout.any_tag.into())
    }

    fn outcome(&mut self, signature: u32, needs: Needs, arguments: &CallArguments<'_>) -> Vec<i64> {
        let failed = self.failed.remove(&signature).unwrap_or(0);
        let mut visit = vec![failed, ANY, ANY, ANY, i64::from(ignores_status(arguments)), 0];
        if needs == Needs::Ignored {
            return visit;
        }
        let is_there = arguments.found() && arguments.output_int(Argument::OutCount) != Some(0);
        if needs != Needs::Match {
            visit[1] = i64::from(is_there);
            let indices = arguments.indices().unwrap_or_default();
            visit[COUNT] = indices.len() as i64;
            visit.extend(indices.iter().map(|index| *index as i64));
        }
        if needs != Needs::Completion
            && is_there
            && let Some(status) = arguments.status(0)
            && status.source >= 0
            && !arguments.event.is_failed()
        {
            if self.is_any_source(arguments) {
                visit[SOURCE] = status.source.into();
            }
            if self.is_any_tag(arguments) {
                visit[TAG] = status.tag.into();
            }
        }
        visit
    }
}

/// Whether the program ignored the status.
fn ignores_status(arguments: &CallArguments<'_>) -> bool {
    let is_ignored =
        |value: &Value| matches!(value, Value::Ignored | Value::Status { ignored: true, .. });
    arguments.event.outputs.iter().flatten().any(|value| match value {
        Value::List(all) => all.iter().any(is_ignored),
        value => is_ignored(value),
    })
}

/// The contents of the status that a call gets.
fn status_fields(arguments: &CallArguments<'_>) -> Vec<i64> {
    let fields = arguments.event.inputs.iter().find_map(|value| match value {
        Some(Value::Status { bytes, .. }) => arguments.layout.status.status_fields(bytes),
        _ => None,
    });
    match fields {
        Some(fields) => vec![
            fields.source.into(),
            fields.tag.into(),
            fields.count_bytes.unwrap_or(0),
            fields.cancelled.into(),
        ],
        None => vec![0; 4],
    }
}
