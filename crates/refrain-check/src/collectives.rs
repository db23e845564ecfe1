//! Collectives: all members must make the same calls, with arguments that fit.

use crate::finding::{Class, Findings, Place};
use crate::typemap::{Elements, Fit, Types};
use refrain_analysis::matching::Kind;
use refrain_mpi::interface::{Direction, Function};
use refrain_mpi::semantics::{Amount, Buffer, Collective, Op};
use refrain_reader::datatypes::counts;
use refrain_reader::{Call, Value};
use std::sync::Arc;

/// What a process sends or receives in a collective.
#[derive(Clone, Debug, PartialEq)]
pub enum Amounts {
    /// Nothing that is significant, or it is not known.
    Unknown,
    /// The same to or from every process.
    Same(Elements),
    /// A block for each process.
    Blocks(Vec<Option<Elements>>),
}

impl Amounts {
    fn with(&self, index: Option<usize>) -> Option<&Elements> {
        match self {
            Amounts::Unknown => None,
            Amounts::Same(elements) => Some(elements),
            Amounts::Blocks(blocks) => blocks.get(index?)?.as_ref(),
        }
    }
}

/// A process's part in a collective.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The function.
    pub function: &'static Function,
    /// The call.
    pub place: Arc<Place>,
    /// The rank in the communicator, if it is known.
    pub index: Option<usize>,
    /// The root, if the function has one.
    pub root: Option<i64>,
    /// Whether this process is the root.
    pub is_root: Option<bool>,
    /// The reduction operation, if it is predefined.
    pub op: Option<Arc<str>>,
    /// What it sends.
    pub sent: Amounts,
    /// What it receives.
    pub received: Amounts,
}

impl Entry {
    /// The part that a call has.
    pub fn of(
        call: &Call,
        function: &'static Function,
        place: &Arc<Place>,
        (index, is_root): (Option<usize>, Option<bool>),
        types: &mut Types,
    ) -> Entry {
        let root = match call.input("root") {
            Some(Value::Int(root)) => Some(*root),
            _ => None,
        };
        let op = match call.input("op") {
            Some(Value::Word(op)) => call.handle_name("op", *op).map(Into::into),
            _ => None,
        };
        let (mut sent, mut received) = (Amounts::Unknown, Amounts::Unknown);
        if let Op::Collective(kind) = function.op() {
            for buffer in function.buffers() {
                if buffer.at_root && is_root != Some(true) && !kind.reduces() {
                    continue;
                }
                let amounts =
                    amounts(call, function, buffer, kind, types).unwrap_or(Amounts::Unknown);
                match buffer.param(function).direction {
                    Direction::In => sent = amounts,
                    _ => received = amounts,
                }
            }
        }
        let place = place.clone();
        Entry { function, place, index, root, is_root, op, sent, received }
    }

    /// Whether two processes call the same function.
    fn is_same_function(&self, other: &Entry) -> bool {
        let base = |entry: &Entry| {
            let name = entry.function.name.as_str();
            name.strip_suffix("_c").unwrap_or(name).to_owned()
        };
        std::ptr::eq(self.function, other.function) || base(self) == base(other)
    }
}

fn amounts(
    call: &Call,
    function: &Function,
    buffer: &Buffer,
    kind: Collective,
    types: &mut Types,
) -> Option<Amounts> {
    let input = |param: usize| call.input(function.params.get(param)?.name);
    // With MPI_IN_PLACE, count and datatype mean nothing, except where they are those of the other buffer, too.
    let is_place = matches!(input(buffer.address)?, Value::Location { .. } | Value::Null);
    if !is_place && !kind.reduces() {
        return None;
    }
    let datatypes = match input(buffer.datatype?)? {
        Value::Word(one) => vec![*one],
        Value::List(all) => all
            .iter()
            .map(|v| if let Value::Word(w) = v { Some(*w) } else { None })
            .collect::<Option<_>>()?,
        _ => return None,
    };
    let numbers = match buffer.amount {
        Amount::Count(param) | Amount::Each(param, _) => {
            let count = counts(input(param)?)?.first().copied()?;
            return types.elements(call, count, *datatypes.first()?).map(Amounts::Same);
        }
        Amount::Counts(param) | Amount::OwnCount(param) => counts(input(param)?)?,
        Amount::Displaced { counts: param, .. } => counts(input(param)?)?,
        Amount::Constant(_) | Amount::Unknown => return None,
    };
    let mut blocks = Vec::new();
    for (at, count) in numbers.into_iter().enumerate() {
        let datatype = datatypes.get(at).or(datatypes.first())?;
        blocks.push(types.elements(call, count, *datatype));
    }
    Some(Amounts::Blocks(blocks))
}

/// Whether each part of a collective is compared with each other one. Otherwise all must be alike, and a comparison
/// with the first one suffices.
pub fn is_pairwise(entry: &Entry) -> bool {
    use Collective::*;
    match entry.function.op() {
        Op::Collective(Barrier | Bcast) => false,
        Op::Collective(kind) => !kind.reduces(),
        _ => false,
    }
}

/// Compares the parts of two processes in the same collective, and reports what does not fit. Returns whether the
/// functions are the same.
pub fn compare(kind: Kind, first: &Entry, second: &Entry, findings: &mut Findings) -> bool {
    let places = || vec![(*second.place).clone(), (*first.place).clone()];
    let (a, b) = (&first.function.name, &second.function.name);
    if !first.is_same_function(second) {
        // MPI_Init and MPI_Init_thread are equivalent.
        if kind == Kind::Runtime && first.function.op() == second.function.op() {
            return true;
        }
        let class = match kind {
            Kind::Window => Class::RmaEpoch,
            _ => Class::CollectiveOrder,
        };
        let of = match kind {
            Kind::Window => "window",
            Kind::File => "file",
            Kind::Runtime => "job",
            Kind::Communicator | Kind::Intercommunicator => "communicator",
        };
        let message =
            format!("Ranks of one {of} call different collectives at the same point: {b} and {a}.");
        findings.add(class, message, places());
        return false;
    }
    if kind == Kind::Communicator
        && let (Some(x), Some(y)) = (first.root, second.root)
        && x != y
    {
        let message = format!("Ranks pass different roots to {a}: {y} and {x}.");
        findings.add(Class::RootMismatch, message, places());
        return true;
    }
    if let (Some(x), Some(y)) = (&first.op, &second.op)
        && x != y
    {
        let message = format!("Ranks pass different operations to {a}: {y} and {x}.");
        findings.add(Class::OperationMismatch, message, places());
    }
    if kind == Kind::Communicator
        && let Op::Collective(collective) = first.function.op()
        && let Some((x, y, fit)) = misfit(collective, first, second)
    {
        let (class, what) = match fit {
            Fit::Different => (Class::DatatypeMismatch, "datatypes"),
            _ => (Class::CountMismatch, "counts"),
        };
        let message = format!("The {what} that ranks pass to {a} do not fit: {y} and {x}.");
        findings.add(class, message, places());
    }
    true
}

/// Amounts that should be equal, and are not.
fn misfit<'e>(
    collective: Collective,
    a: &'e Entry,
    b: &'e Entry,
) -> Option<(&'e Elements, &'e Elements, Fit)> {
    use Collective::*;
    let differ = |x: Option<&'e Elements>, y: Option<&'e Elements>| {
        let (x, y) = (x?, y?);
        match x.fit(y) {
            Fit::Same => None,
            fit => Some((x, y, fit)),
        }
    };
    // From one process to another: what one sends to the other against what the other receives from it.
    let from_to = |from: &'e Entry, to: &'e Entry| {
        differ(from.sent.with(to.index), to.received.with(from.index))
    };
    match collective {
        Bcast => differ(a.received.with(None), b.received.with(None)),
        Reduce | Allreduce | Scan | Exscan | ReduceScatterBlock => {
            differ(a.sent.with(None), b.sent.with(None))
        }
        ReduceScatter => match (&a.sent, &b.sent) {
            (Amounts::Blocks(x), Amounts::Blocks(y)) => {
                x.iter().zip(y).find_map(|(x, y)| differ(x.as_ref(), y.as_ref()))
            }
            _ => None,
        },
        Gather | Gatherv if b.is_root == Some(true) => from_to(a, b),
        Gather | Gatherv if a.is_root == Some(true) => from_to(b, a),
        Scatter | Scatterv if a.is_root == Some(true) => from_to(a, b),
        Scatter | Scatterv if b.is_root == Some(true) => from_to(b, a),
        Allgather | Allgatherv | Alltoall | Alltoallv | Alltoallw => {
            from_to(a, b).or_else(|| from_to(b, a).map(|(x, y, fit)| (y, x, fit)))
        }
        _ => None,
    }
}
