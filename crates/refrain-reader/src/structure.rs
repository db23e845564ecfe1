//! The structure of a trace, symbolically: calls of many tasks, with arguments as functions of the rank.
//!
//! Tasks that do the same with other values are one [`Structure`]. Each of its [`Signature`]s stands for calls of all
//! its ranks. Each number of a signature is a constant or a [`Column`](refrain_elastic::Column) over the ranks. This
//! module expands neither ranks nor loops, so it takes as long for 16,384 ranks as for two.

use crate::calls::Peer;
use crate::decoder::handles::object_handle;
use crate::durations::Mean;
use crate::functions::Functions;
use crate::symbolic::{Arg, Array, Num, Object};
use crate::trace::CallTrace;
use refrain_elastic::{RankList, TextColumn};
use refrain_format::define::{FunctionDef, ParamDef};
use refrain_grammar::Grammar;
use refrain_mpi::interface::Direction;
use refrain_nest::LoopNest;
use refrain_signature::args::{self, Args, Cell};
use refrain_signature::array::Mode;
use refrain_signature::codes::code;
use refrain_signature::head::Head;
use refrain_structure::elastic::Variant;
use refrain_structure::group::{Group, Outcomes, Row};

/// Tasks that do the same, with other values.
#[derive(Clone, Copy, Debug)]
pub struct Structure<'t> {
    /// The index of its group.
    pub(crate) number: usize,
    pub(crate) group: &'t Group,
    pub(crate) functions: &'t Functions,
    pub(crate) trace: &'t CallTrace,
}

impl<'t> Structure<'t> {
    /// The ranks of its tasks; where a file has several processes of one rank, their order in the file.
    pub fn ranks(&self) -> &'t RankList {
        &self.group.ranks
    }

    /// The number of its tasks in their processes.
    pub fn thread(&self) -> u32 {
        self.group.thread
    }

    /// The sequences of signatures, one after the other.
    pub fn grammars(&self) -> &'t [Grammar] {
        &self.group.grammars
    }

    /// The loops of its calls; leaves are indices of signatures.
    pub fn nest(&self) -> LoopNest<u32> {
        LoopNest::from_grammars(&self.group.grammars, |signature| signature)
    }

    /// How many signatures it has.
    pub fn len(&self) -> usize {
        self.group.rows.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.group.rows.is_empty()
    }

    /// How often each signature occurs on each rank, without expanding the sequence. Failed polls are not counted:
    /// each rank has its own.
    pub fn occurrences(&self) -> Vec<u64> {
        self.group.occurrences()
    }

    /// The signatures, in the order of their first occurrences; notes are among them ([`Signature::is_note`]).
    pub fn signatures(&self) -> impl Iterator<Item = Signature<'t>> + use<'t> {
        let this = *self;
        (0..self.len() as u32).filter_map(move |number| this.signature(number))
    }

    /// A signature; none if the file is damaged there.
    pub fn signature(&self, number: u32) -> Option<Signature<'t>> {
        let row = self.group.rows.get(number as usize)?;
        let head = row.head()?;
        let function = &self.functions.get(head.function)?.def;
        Some(Signature { number, function, head, row, structure: *self })
    }
}

/// A signature over the ranks of a structure.
#[derive(Clone, Copy, Debug)]
pub struct Signature<'t> {
    /// Its index in the structure.
    pub number: u32,
    /// The function that is called.
    pub function: &'t FunctionDef,
    head: Head,
    row: &'t Row,
    structure: Structure<'t>,
}

impl<'t> Signature<'t> {
    /// Whether its calls returned.
    pub fn returned(&self) -> bool {
        self.head.returned
    }

    /// Whether it is a note between calls, not a call: memory that came into use, members of a communicator.
    pub fn is_note(&self) -> bool {
        self.head.is_note()
    }

    /// The function in the table of MPI, which says what it does; none for a note, or a function that this
    /// version of Refrain does not know.
    pub fn mpi(&self) -> Option<&'static refrain_mpi::interface::Function> {
        refrain_mpi::interface::function(&self.function.name)
    }

    /// Means of the durations of its calls and of the gaps before them, over all ranks; none if the file has none.
    /// They are those of all calls with the same function, call site and message size ([`crate::durations`]).
    /// `occurrences` is how often it occurs on each rank ([`Structure::occurrences`]).
    pub fn mean(&self, occurrences: u64) -> Option<Mean> {
        let Structure { number, group, trace, .. } = self.structure;
        let occurrences = occurrences.saturating_mul(group.ranks.len() as u64);
        trace.durations().ok()??.mean(number, self.number as usize, occurrences)
    }

    /// Whether what MPI decided (matches, completions, flags) varies between its calls.
    pub fn outcomes_vary(&self) -> bool {
        !matches!(self.row.outcomes, Outcomes::Constant)
    }

    /// Whether arguments and the first outcome are the same on all ranks.
    pub fn is_constant(&self) -> bool {
        self.row.cells.constant().is_some() && self.row.outcome.constant().is_some()
    }

    /// Its arguments. Ranks whose arguments have different shapes (arrays of other lengths, say) have a variant each;
    /// mostly there is one, for all ranks.
    pub fn variants(&self) -> impl Iterator<Item = Arguments<'t>> + use<'t> {
        let this = *self;
        self.row.cells.variants.iter().filter_map(move |variant| this.variant(variant))
    }

    fn variant(&self, variant: &'t Variant) -> Option<Arguments<'t>> {
        let Structure { group, functions, trace, .. } = self.structure;
        let function = functions.get(self.head.function)?;
        let agrees = |index: u32, kind: fn(i64) -> i64| match variant.column(index) {
            None => true,
            Some(column) => {
                let (_, values) = column.expand();
                let mut kinds = values.into_iter().map(kind);
                kinds.next().is_none_or(|first| kinds.all(|other| other == first))
            }
        };
        let cells = &variant.cells;
        let args = Args::read_over(&function.plan, functions.kinds(), cells, &agrees)?;
        let ranks = variant.ranks.as_ref().unwrap_or(&group.ranks);
        Some(Arguments { ranks, args, function: self.function, variant, group, trace })
    }
}

/// The arguments of a signature on some ranks.
#[derive(Clone, Debug)]
pub struct Arguments<'t> {
    /// The ranks.
    pub ranks: &'t RankList,
    args: Args,
    function: &'t FunctionDef,
    variant: &'t Variant,
    group: &'t Group,
    trace: &'t CallTrace,
}

impl<'t> Arguments<'t> {
    /// An argument by the name that the MPI standard gives it: as the program passed it, or, for outputs that follow
    /// from the inputs, as MPI returned it. None for what MPI decides: statuses, flags, completed indices.
    pub fn arg(&self, name: &str) -> Option<Arg<'t>> {
        let param = self.function.params.iter().position(|p| p.name == name)?;
        match self.args.of(param) {
            Some(arg) => Some(self.typed(arg)),
            None if self.args.is_whole => None,
            None => Some(Arg::PerRank),
        }
    }

    /// All arguments with their names, in the order of the parameters.
    pub fn all(&self) -> Vec<(&'t str, Arg<'t>)> {
        let names = self.function.params.iter().map(|p| p.name.as_str());
        names.filter_map(|name| Some((name, self.arg(name)?))).collect()
    }

    /// The peer in an argument (`dest`, `source`, `root`, `target_rank`) on one of the ranks, as a rank in
    /// `MPI_COMM_WORLD`; none if it is no single rank there, or the members of the communicator are not known.
    pub fn world_rank_on(&self, name: &str, rank: u32) -> Option<u32> {
        let Peer::Rank(peer) = self.arg(name)?.peer_on(rank, self.trace.family())? else {
            return None;
        };
        let is_comm = |p: &&ParamDef| p.reads_as == "comm" && p.direction != Direction::Out;
        let mut comms = self.function.params.iter().filter(is_comm);
        let (Some(comm), None) = (comms.next(), comms.next()) else { return None };
        let (thread, number) = match self.arg(&comm.name)? {
            Arg::Handle(Object::Predefined("MPI_COMM_WORLD")) => return Some(peer),
            Arg::Handle(Object::Own(number)) => (self.group.thread, number.on(rank)?),
            Arg::Handle(Object::Foreign { thread, number }) => {
                (u32::try_from(thread.on(rank)?).ok()?, number.on(rank)?)
            }
            _ => return None,
        };
        let objects = self.trace.objects_of_rank(rank).ok()?;
        objects.communicators.members(object_handle(thread, number))?.world_rank(peer)
    }

    /// The call site, if call sites were recorded: a line for each frame, innermost first, as `module+hex-offset`.
    pub fn site(&self) -> Option<&'t TextColumn> {
        self.group.strings.get(self.args.head.site? as usize)
    }

    fn num(&self, cell: &Cell) -> Num<'t> {
        match self.variant.column(cell.index) {
            Some(column) => Num::Over(column),
            None => Num::Constant(cell.value),
        }
    }

    fn nums(&self, cells: &[Cell]) -> Vec<Num<'t>> {
        cells.iter().map(|cell| self.num(cell)).collect()
    }

    /// A predefined name by its number: `first - number`.
    fn predefined(&self, cell: &Cell, first: i64) -> Option<&'t str> {
        let Num::Constant(code) = self.num(cell) else { return None };
        let name = self.group.predefined.get(usize::try_from(first - code).ok()?)?;
        Some(name.split_once(' ').map_or(name, |(_, name)| name))
    }

    fn typed(&self, arg: &args::Arg) -> Arg<'t> {
        match arg {
            args::Arg::Int(cell) => Arg::Int(self.num(cell)),
            args::Arg::Doubled(cell) => Arg::Int(match self.num(cell) {
                Num::Over(column) => Num::Halved(column),
                Num::Constant(doubled) => Num::Constant(doubled / 2),
                halved => halved,
            }),
            args::Arg::Large([_, cell]) => Arg::Int(self.num(cell)),
            args::Arg::Handle(handle) | args::Arg::NotMade(_, handle) => self.object(handle),
            args::Arg::Address(address) | args::Arg::DoubledAddress(address) => {
                self.address(address, matches!(arg, args::Arg::DoubledAddress(_)))
            }
            args::Arg::Text(cell) => match self.num(cell) {
                Num::Constant(number) => match self.group.strings.get(number as usize) {
                    Some(text) => Arg::Text(text),
                    None => Arg::Unset,
                },
                _ => Arg::PerRank,
            },
            args::Arg::Numbers(_, array) => Arg::Numbers(self.array(array)),
            args::Arg::Handles(_, array) => Arg::Handles(self.array(array)),
            args::Arg::Requests(_, firsts, seconds) => {
                Arg::Requests { signatures: self.array(firsts), numbers: self.array(seconds) }
            }
            args::Arg::Texts(_, all) | args::Arg::Mixed(_, all) => {
                Arg::List(all.iter().map(|arg| self.typed(arg)).collect())
            }
            args::Arg::Absent(cell) => match cell.value {
                code::NULL => Arg::Null,
                code::INSIGNIFICANT => Arg::Insignificant,
                code::IGNORED => Arg::Ignored,
                _ => Arg::Unset,
            },
            args::Arg::Special(_, address) => self.address(address, false),
            args::Arg::ByAddress(_, Some(value)) => self.typed(value),
            args::Arg::ByAddress(state, None) => {
                match state.value == i64::from(refrain_format::record::state::NULL) {
                    true => Arg::Null,
                    false => Arg::Unset,
                }
            }
            args::Arg::Made(_) => match self.args.made.as_slice() {
                [number] => Arg::Handle(Object::Made { number: self.num(number) }),
                [number, ..] => Arg::Handle(Object::Made { number: self.num(number) }),
                [] => Arg::PerRank,
            },
        }
    }

    fn object(&self, handle: &args::Handle) -> Arg<'t> {
        use args::Handle;
        Arg::Handle(match handle {
            Handle::Own(number) => Object::Own(self.num(number)),
            Handle::Predefined(cell) => match self.predefined(cell, -1) {
                Some(name) => Object::Predefined(name),
                None => return Arg::PerRank,
            },
            Handle::Foreign([_, thread, number]) => {
                Object::Foreign { thread: self.num(thread), number: self.num(number) }
            }
            Handle::Request([signature, number]) => match self.num(signature) {
                Num::Constant(plus_one) => {
                    let signature = (plus_one - 1) as u32;
                    Object::Request { signature, number: self.num(number) }
                }
                _ => return Arg::PerRank,
            },
            Handle::ForeignRequest(..) | Handle::Unmade(..) => return Arg::PerRank,
        })
    }

    fn address(&self, address: &args::Address, is_doubled: bool) -> Arg<'t> {
        use args::Address;
        match address {
            Address::Null(_) => Arg::Null,
            Address::Own([segment, offset]) => match (self.num(segment), is_doubled) {
                (segment, false) => Arg::Address { segment, offset: self.num(offset) },
                (Num::Constant(doubled), true) => {
                    Arg::Address { segment: Num::Constant(doubled >> 1), offset: self.num(offset) }
                }
                _ => Arg::PerRank,
            },
            Address::Unknown([_, address]) => Arg::Int(self.num(address)),
            Address::Foreign(_) => Arg::PerRank,
            Address::Named(cell) if !is_doubled => match self.predefined(cell, -3) {
                Some(name) => Arg::Named(name),
                None => Arg::PerRank,
            },
            Address::Named(_) => Arg::PerRank,
        }
    }

    fn array(&self, array: &args::Array) -> Array<'t> {
        let cells = self.nums(&array.cells);
        Array {
            length: array.length,
            mode: array.mode.map_or(Mode::Plain, |(_, mode)| mode),
            cells,
        }
    }
}
