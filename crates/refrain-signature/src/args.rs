//! The arguments of a signature, typed, each number with the index of its cell.
//!
//! Over ranks, a signature is one list of cells of which some are columns ([`crate::cells`]). [`Args::read`] reads the
//! list once and keeps the index of each number, so that "this argument over ranks" is a lookup by [`Cell::index`].
//! That a destination is `rank + 1` is known without decoding ranks. [`Args::put`] is the inverse.
//!
//! Some cells determine how the cells after them are read: the state of a value, the length of an array, the kind of a handle.
//! Where such a cell means different things on different ranks, the list cannot be read for all ranks at once; the
//! arguments from there on are left out, and [`Args::is_whole`] is false. A single rank always reads as a whole.

use crate::array::Mode;
use crate::cells::{Cells, put};
use crate::codes::{change, code};
use crate::head::Head;
use crate::plan::{Form, Kinds, Makes, Op, Plan, REQUEST};
use refrain_format::record::state;

/// A number and its index in the list of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its index in the list.
    pub index: u32,
    /// Its value; if the cell is a column, the value on one of the ranks.
    pub value: i64,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handle {
    /// One that the task made: its number, the smallest that was free.
    Own(Cell),
    /// A predefined one: `-1 -` its index in the task's list.
    Predefined(Cell),
    /// One that another thread made: 0, thread, number.
    Foreign([Cell; 3]),
    /// A request that the task made: the signature that made it plus 1, and its number among the requests of that.
    Request([Cell; 2]),
    /// A request that another thread made: 0, thread, signature, number.
    ForeignRequest([Cell; 4]),
    /// A request that no recorded call made: 0, -1, and the object that its handle stood for.
    Unmade([Cell; 2], Box<Handle>),
}

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The null address.
    Null(Cell),
    /// A segment that the task used first, from 1, and the offset in it.
    Own([Cell; 2]),
    /// In no known segment: -1 and the address.
    Unknown([Cell; 2]),
    /// A segment that another thread used first: -2, thread, segment, offset.
    Foreign([Cell; 4]),
    /// A named address: `-3 -` its index in the task's list of predefined names.
    Named(Cell),
}

/// An array of numbers as it is stored ([`crate::array`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// How many elements.
    pub length: usize,
    /// How elements follow from cells; none for fewer than two elements: each cell is an element then.
    pub mode: Option<(Cell, Mode)>,
    /// The cells.
    pub cells: Vec<Cell>,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A number.
    Int(Cell),
    /// A number that could have been an address (`MPI_Aint`), doubled.
    Doubled(Cell),
    /// An `MPI_Aint` that is too large to be doubled: -5 and the number.
    Large([Cell; 2]),
    /// An `MPI_Aint` that is an address; its first cell is doubled, plus 1.
    DoubledAddress(Address),
    /// An object.
    Handle(Handle),
    /// An address.
    Address(Address),
    /// A string: its index in the task's list.
    Text(Cell),
    /// An array of numbers; its length has a cell of its own.
    Numbers(Cell, Array),
    /// An array of objects, each a number as in [`Handle::Own`] and [`Handle::Predefined`].
    Handles(Cell, Array),
    /// An array of requests: first cells as in [`Handle::Request`], or predefined, and second cells.
    Requests(Cell, Array, Array),
    /// An array of strings, or of arrays of strings.
    Texts(Cell, Vec<Arg>),
    /// An array of objects or addresses of several threads: -6, the length, each.
    Mixed([Cell; 2], Vec<Arg>),
    /// No array or string: null, insignificant, unset or ignored ([`code`]).
    Absent(Cell),
    /// A named address instead of an array: -2 and the address.
    Special(Cell, Address),
    /// A value that C passes by its address: its state ([`state`]), and the value if there is one.
    ByAddress(Cell, Option<Box<Arg>>),
    /// A request that the call made: 0; [`Args::made`] has its number.
    Made(Cell),
    /// A request that the call returned and that was made elsewhere: 1 and the object.
    NotMade(Cell, Handle),
}

/// How the call changed handles that it may change ([`change`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// How they changed.
    pub how: Cell,
    /// More cells: the state, or the number of handles.
    pub more: Option<Cell>,
    /// With [`change::EACH`], for each handle whether it is unchanged (not 0), and its new value if it is not.
    pub each: Vec<(Cell, Option<Handle>)>,
}

/// The arguments of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// Its head.
    pub head: Head,
    /// The inputs, each with its parameter's index.
    pub inputs: Vec<(u8, Arg)>,
    /// The result, of functions that return no error code.
    pub result: Option<Arg>,
    /// The outputs that follow from the inputs.
    pub outputs: Vec<(u8, Arg)>,
    /// How the call changed handles.
    pub changes: Vec<(u8, Change)>,
    /// The number of the request that the call made and, if that is not 0, the signature that has number 0.
    pub made: Vec<Cell>,
    /// Whether everything could be read.
    pub is_whole: bool,
}

/// Why reading stops.
enum Stop {
    /// The cells are malformed.
    Damaged,
    /// What follows differs between ranks.
    Differs,
}

/// Reads cells and counts them.
struct Reader<'a> {
    cells: Cells<'a>,
    index: u32,
    kinds: &'a Kinds,
    agrees: &'a dyn Fn(u32, fn(i64) -> i64) -> bool,
}

/// A longer array is taken for damage.
const LONGEST: usize = 1 << 28;

fn itself(value: i64) -> i64 {
    value
}

/// Which kind of address a first cell stands for.
fn address_kind(first: i64) -> i64 {
    first.clamp(-3, 1)
}

/// Which kind of `MPI_Aint`.
fn aint_kind(first: i64) -> i64 {
    match first {
        -5 => -5,
        first if first & 1 == 0 => -6,
        first => address_kind(first >> 1),
    }
}

impl Args {
    /// Reads the arguments of a list of cells that are the same on all ranks.
    pub fn read(plan: &Plan, kinds: &Kinds, cells: &[u8]) -> Option<Args> {
        Args::read_over(plan, kinds, cells, &|_, _| true)
    }

    /// Reads the arguments of a list of which some cells are columns over ranks. `agrees` says whether a function
    /// of the cell with that index has the same value for all of them.
    pub fn read_over(
        plan: &Plan,
        kinds: &Kinds,
        cells: &[u8],
        agrees: &dyn Fn(u32, fn(i64) -> i64) -> bool,
    ) -> Option<Args> {
        let mut cells = Cells::new(cells);
        let head = Head::read(&mut cells)?;
        let mut reader = Reader { cells, index: head.cells() as u32, kinds, agrees };
        let mut args = Args {
            head,
            inputs: Vec::new(),
            result: None,
            outputs: Vec::new(),
            changes: Vec::new(),
            made: Vec::new(),
            is_whole: true,
        };
        match reader.args(plan, &mut args) {
            Ok(()) => reader.cells.is_empty().then_some(args),
            Err(Stop::Differs) => {
                args.is_whole = false;
                Some(args)
            }
            Err(Stop::Damaged) => None,
        }
    }

    /// An argument by the index of its parameter: the input, or the output if it is no input.
    pub fn of(&self, param: usize) -> Option<&Arg> {
        let mut all = self.inputs.iter().chain(&self.outputs);
        all.find(|(p, _)| usize::from(*p) == param).map(|(_, arg)| arg)
    }

    /// Appends the cells, in the order in which they were read.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.head.put(out);
        let mut cell = |cell: &Cell| put(out, cell.value);
        for (_, arg) in &self.inputs {
            arg.each_cell(&mut cell);
        }
        if let Some(result) = &self.result {
            result.each_cell(&mut cell);
        }
        for (_, arg) in &self.outputs {
            arg.each_cell(&mut cell);
        }
        for (_, change) in &self.changes {
            [&change.how].into_iter().chain(&change.more).for_each(&mut cell);
            for (same, handle) in &change.each {
                cell(same);
                if let Some(handle) = handle {
                    handle.each_cell(&mut cell);
                }
            }
        }
        self.made.iter().for_each(cell);
    }
}

impl Handle {
    fn each_cell(&self, visit: &mut impl FnMut(&Cell)) {
        match self {
            Handle::Own(cell) | Handle::Predefined(cell) => visit(cell),
            Handle::Foreign(cells) => cells.iter().for_each(visit),
            Handle::Request(cells) => cells.iter().for_each(visit),
            Handle::ForeignRequest(cells) => cells.iter().for_each(visit),
            Handle::Unmade(cells, handle) => {
                cells.iter().for_each(&mut *visit);
                handle.each_cell(visit);
            }
        }
    }
}

impl Address {
    fn each_cell(&self, visit: &mut impl FnMut(&Cell)) {
        match self {
            Address::Null(cell) | Address::Named(cell) => visit(cell),
            Address::Own(cells) | Address::Unknown(cells) => cells.iter().for_each(visit),
            Address::Foreign(cells) => cells.iter().for_each(visit),
        }
    }
}

impl Array {
    fn each_cell(&self, visit: &mut impl FnMut(&Cell)) {
        if let Some((cell, _)) = &self.mode {
            visit(cell);
        }
        self.cells.iter().for_each(visit);
    }

    /// The elements, given each cell's value and the array of numbers before it among the arguments.
    pub fn elements(&self, value: impl Fn(&Cell) -> i64, before: &[i64]) -> Option<Vec<i64>> {
        let cells: Vec<i64> = self.cells.iter().map(value).collect();
        match &self.mode {
            None => Some(cells),
            Some((_, mode)) => mode.elements(&cells, self.length, before),
        }
    }
}

impl Arg {
    fn each_cell(&self, visit: &mut impl FnMut(&Cell)) {
        match self {
            Arg::Int(cell)
            | Arg::Doubled(cell)
            | Arg::Text(cell)
            | Arg::Absent(cell)
            | Arg::Made(cell) => visit(cell),
            Arg::Large(cells) => cells.iter().for_each(visit),
            Arg::DoubledAddress(address) | Arg::Address(address) => address.each_cell(visit),
            Arg::Handle(handle) => handle.each_cell(visit),
            Arg::Numbers(length, array) | Arg::Handles(length, array) => {
                visit(length);
                array.each_cell(visit);
            }
            Arg::Requests(length, firsts, seconds) => {
                visit(length);
                firsts.each_cell(visit);
                seconds.each_cell(visit);
            }
            Arg::Texts(length, all) => {
                visit(length);
                all.iter().for_each(|arg| arg.each_cell(visit));
            }
            Arg::Mixed(cells, all) => {
                cells.iter().for_each(&mut *visit);
                all.iter().for_each(|arg| arg.each_cell(visit));
            }
            Arg::Special(cell, address) => {
                visit(cell);
                address.each_cell(visit);
            }
            Arg::ByAddress(state, value) => {
                visit(state);
                if let Some(value) = value {
                    value.each_cell(visit);
                }
            }
            Arg::NotMade(cell, handle) => {
                visit(cell);
                handle.each_cell(visit);
            }
        }
    }
}

impl Reader<'_> {
    fn args(&mut self, plan: &Plan, args: &mut Args) -> Result<(), Stop> {
        for op in plan.inputs.iter().filter(|op| op.form != Form::Status) {
            let value = self.value(op)?;
            args.inputs.push((op.param, value));
        }
        if !args.head.returned {
            return Ok(());
        }
        args.result = match plan.result {
            Some(Form::Handle(kind)) => Some(Arg::Handle(self.handle(kind)?)),
            Some(Form::Address(_)) => Some(Arg::Address(self.address()?)),
            Some(_) if !plan.tells_time => Some(Arg::Int(self.cell()?)),
            _ => None,
        };
        if !plan.decides {
            let is_changed = |op: &&Op| op.changes && matches!(op.form, Form::Handle(_));
            for op in plan.outputs.iter().filter(|op| !is_changed(op)) {
                let value = match op.form {
                    Form::Handle(kind) if !op.array && !op.by_value => self.new_handle(kind)?,
                    _ => self.value(op)?,
                };
                args.outputs.push((op.param, value));
            }
            for op in plan.outputs.iter().filter(is_changed) {
                if let Form::Handle(kind) = op.form {
                    let change = self.change(kind)?;
                    args.changes.push((op.param, change));
                }
            }
        }
        if plan.makes != Makes::Nothing && !self.cells.is_empty() {
            let made = self.tag(|which| which.signum())?;
            let has_more = made.value != 0;
            args.made.push(made);
            if has_more {
                args.made.push(self.cell()?);
            }
        }
        Ok(())
    }

    /// The next number.
    fn cell(&mut self) -> Result<Cell, Stop> {
        let value = self.cells.get().ok_or(Stop::Damaged)?;
        let index = self.index;
        self.index += 1;
        Ok(Cell { index, value })
    }

    fn cells<const N: usize>(&mut self, first: Cell) -> Result<[Cell; N], Stop> {
        let mut all = [first; N];
        for cell in &mut all[1..] {
            *cell = self.cell()?;
        }
        Ok(all)
    }

    /// The next number. Reading stops unless `kind` of it is the same on all ranks.
    fn tag(&mut self, kind: fn(i64) -> i64) -> Result<Cell, Stop> {
        let cell = self.cell()?;
        match (self.agrees)(cell.index, kind) {
            true => Ok(cell),
            false => Err(Stop::Differs),
        }
    }

    fn value(&mut self, op: &Op) -> Result<Arg, Stop> {
        match op.form {
            Form::Text => return self.text(),
            Form::Texts => return self.texts(|this| this.text()),
            Form::Texts2 => return self.texts(|this| this.texts(|this| this.text())),
            Form::Status => return Err(Stop::Damaged),
            _ if op.array => return self.array(op),
            _ => {}
        }
        if op.by_value {
            return self.scalar(op.form);
        }
        let found = self.tag(itself)?;
        Ok(Arg::ByAddress(
            found,
            match found.value == i64::from(state::VALUE) {
                true => Some(Box::new(self.scalar(op.form)?)),
                false => None,
            },
        ))
    }

    fn scalar(&mut self, form: Form) -> Result<Arg, Stop> {
        Ok(match form {
            Form::Int | Form::Long => Arg::Int(self.cell()?),
            Form::Aint => self.aint()?,
            Form::Handle(kind) => Arg::Handle(self.handle(kind)?),
            Form::Address(_) => Arg::Address(self.address()?),
            Form::Text | Form::Texts | Form::Texts2 | Form::Status => return Err(Stop::Damaged),
        })
    }

    fn aint(&mut self) -> Result<Arg, Stop> {
        let first = self.tag(aint_kind)?;
        Ok(match aint_kind(first.value) {
            -5 => Arg::Large(self.cells(first)?),
            -6 => Arg::Doubled(first),
            kind => Arg::DoubledAddress(self.address_behind(first, kind)?),
        })
    }

    fn address(&mut self) -> Result<Address, Stop> {
        let first = self.tag(address_kind)?;
        self.address_behind(first, address_kind(first.value))
    }

    fn address_behind(&mut self, first: Cell, kind: i64) -> Result<Address, Stop> {
        Ok(match kind {
            0 => Address::Null(first),
            1 => Address::Own(self.cells(first)?),
            -1 => Address::Unknown(self.cells(first)?),
            -2 => Address::Foreign(self.cells(first)?),
            _ => Address::Named(first),
        })
    }

    fn handle(&mut self, kind: u8) -> Result<Handle, Stop> {
        let is_request = self.kinds.name(kind) == REQUEST;
        let first = self.tag(i64::signum)?;
        Ok(match (first.value.signum(), is_request) {
            (-1, _) => Handle::Predefined(first),
            (1, false) => Handle::Own(first),
            (1, true) => Handle::Request(self.cells(first)?),
            (_, false) => Handle::Foreign(self.cells(first)?),
            (_, true) => {
                let thread = self.tag(|thread| thread.min(0).signum())?;
                match thread.value < 0 {
                    true => Handle::Unmade([first, thread], Box::new(self.object()?)),
                    false => Handle::ForeignRequest([first, thread, self.cell()?, self.cell()?]),
                }
            }
        })
    }

    /// An object that is no request, or the object that an unknown request's handle stands for.
    fn object(&mut self) -> Result<Handle, Stop> {
        let first = self.tag(i64::signum)?;
        Ok(match first.value.signum() {
            -1 => Handle::Predefined(first),
            1 => Handle::Own(first),
            _ => Handle::Foreign(self.cells(first)?),
        })
    }

    fn new_handle(&mut self, kind: u8) -> Result<Arg, Stop> {
        let found = self.tag(itself)?;
        if found.value != i64::from(state::VALUE) {
            return Ok(Arg::ByAddress(found, None));
        }
        let value = match self.kinds.name(kind) == REQUEST {
            false => Arg::Handle(self.handle(kind)?),
            true => {
                let made = self.tag(itself)?;
                match made.value {
                    0 => Arg::Made(made),
                    _ => Arg::NotMade(made, self.object()?),
                }
            }
        };
        Ok(Arg::ByAddress(found, Some(Box::new(value))))
    }

    fn change(&mut self, kind: u8) -> Result<Change, Stop> {
        let how = self.tag(itself)?;
        let mut changed = Change { how, more: None, each: Vec::new() };
        match how.value {
            change::NONE | change::ALL | change::INDEXED => {}
            change::UNSET => changed.more = Some(self.cell()?),
            change::EACH => {
                let n = self.tag(itself)?;
                changed.more = Some(n);
                for _ in 0..usize::try_from(n.value).map_err(|_| Stop::Damaged)? {
                    let same = self.tag(itself)?;
                    let now = match (same.value, self.kinds.name(kind) == REQUEST) {
                        (0, true) => Some(self.object()?),
                        (0, false) => Some(self.handle(kind)?),
                        _ => None,
                    };
                    changed.each.push((same, now));
                }
            }
            _ => return Err(Stop::Damaged),
        }
        Ok(changed)
    }

    /// A number of elements, or the code that replaces it.
    fn count(&mut self) -> Result<Result<(Cell, usize), Arg>, Stop> {
        let count = self.tag(itself)?;
        Ok(match count.value {
            code::NULL | code::INSIGNIFICANT | code::UNSET | code::IGNORED => {
                Err(Arg::Absent(count))
            }
            code::SPECIAL => Err(Arg::Special(count, self.address()?)),
            n => {
                let n = usize::try_from(n).ok().filter(|n| *n <= LONGEST);
                Ok((count, n.ok_or(Stop::Damaged)?))
            }
        })
    }

    fn text(&mut self) -> Result<Arg, Stop> {
        let number = self.tag(|number| number.min(0))?;
        Ok(match number.value {
            code::SPECIAL => Arg::Special(number, self.address()?),
            number_or_code if number_or_code < 0 => Arg::Absent(number),
            _ => Arg::Text(number),
        })
    }

    fn texts(&mut self, each: impl Fn(&mut Self) -> Result<Arg, Stop>) -> Result<Arg, Stop> {
        let (count, n) = match self.count()? {
            Ok(count) => count,
            Err(absent) => return Ok(absent),
        };
        if n > self.cells.rest().len() {
            return Err(Stop::Damaged);
        }
        Ok(Arg::Texts(count, (0..n).map(|_| each(self)).collect::<Result<_, _>>()?))
    }

    fn array(&mut self, op: &Op) -> Result<Arg, Stop> {
        let first = self.tag(itself)?;
        if first.value == code::MIXED {
            let length = self.tag(itself)?;
            let n = usize::try_from(length.value).ok().filter(|n| *n <= self.cells.rest().len());
            let each = |this: &mut Self| match op.form {
                Form::Handle(kind) => this.handle(kind).map(Arg::Handle),
                Form::Address(_) => this.address().map(Arg::Address),
                _ => this.aint(),
            };
            let all = (0..n.ok_or(Stop::Damaged)?).map(|_| each(self)).collect::<Result<_, _>>()?;
            return Ok(Arg::Mixed([first, length], all));
        }
        let n = match first.value {
            code::SPECIAL => return Ok(Arg::Special(first, self.address()?)),
            code if code < 0 => return Ok(Arg::Absent(first)),
            n => usize::try_from(n).ok().filter(|n| *n <= LONGEST).ok_or(Stop::Damaged)?,
        };
        Ok(match op.form {
            Form::Handle(kind) if self.kinds.name(kind) == REQUEST => {
                Arg::Requests(first, self.numbers(n)?, self.numbers(n)?)
            }
            Form::Handle(_) => Arg::Handles(first, self.numbers(n)?),
            _ => Arg::Numbers(first, self.numbers(n)?),
        })
    }

    fn numbers(&mut self, length: usize) -> Result<Array, Stop> {
        let (mode, cells) = match length {
            0 | 1 => (None, length),
            _ => {
                let cell = self.tag(itself)?;
                let mode = Mode::from_code(cell.value).ok_or(Stop::Damaged)?;
                (Some((cell, mode)), mode.cells(length))
            }
        };
        if cells > self.cells.rest().len() {
            return Err(Stop::Damaged);
        }
        let cells = (0..cells).map(|_| self.cell()).collect::<Result<_, _>>()?;
        Ok(Array { length, mode, cells })
    }
}
