//! What the cells of a signature mean, so far as it helps to predict them.

use refrain_format::define::FunctionDef;
use refrain_signature::args::{Address, Arg, Args, Cell, Handle};
use refrain_signature::plan::{Kinds, Plan};
use std::collections::BTreeMap;

/// What a cell means. Cells with the same role in different functions predict each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Role {
    /// Anything else.
    #[default]
    Other,
    /// A rank.
    Peer,
    /// A tag.
    Tag,
    /// A number of elements of a message.
    Count,
    /// The number of a segment of memory.
    Segment,
    /// An offset in it.
    Offset,
    /// An object's number.
    Object,
    /// The signature that made a request, plus 1.
    Request,
    /// The number of a request.
    RequestNumber,
    /// An element of an array.
    Element,
    /// A cell of the outcome.
    Outcome,
}

/// How many roles there are.
pub(crate) const ROLES: usize = 11;

/// Which way the message of a call goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Direction {
    /// It has no message, or several.
    #[default]
    Neither,
    /// To its peer.
    Send,
    /// From its peer.
    Receive,
}

/// The functions of a trace: what their cells mean.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    kinds: Kinds,
    plans: BTreeMap<u16, Plan>,
}

impl Functions {
    /// Reads the definitions; a malformed one is left out.
    pub fn of(texts: &BTreeMap<u16, String>) -> Functions {
        let mut functions = Functions::default();
        for (number, text) in texts {
            if let Ok(def) = FunctionDef::from_text(text) {
                let plan = Plan::new(def, &mut functions.kinds);
                functions.plans.insert(*number, plan);
            }
        }
        functions
    }

    /// The plan of a function.
    pub fn plan(&self, function: u16) -> Option<&Plan> {
        self.plans.get(&function)
    }

    /// Which way the message of a function goes.
    pub fn direction(&self, function: u16) -> Direction {
        let Some(plan) = self.plan(function) else { return Direction::Neither };
        let has = |name: &str| plan.def.params.iter().any(|param| param.name == name);
        match (has("dest"), has("source")) {
            (true, false) => Direction::Send,
            (false, true) => Direction::Receive,
            _ => Direction::Neither,
        }
    }

    /// The arguments of a signature.
    pub fn args(&self, function: u16, cells: &[u8]) -> Option<Args> {
        Args::read(self.plan(function)?, &self.kinds, cells)
    }

    /// The roles of the cells of a signature.
    pub fn roles(&self, function: u16, cells: &[u8], length: usize) -> Vec<Role> {
        let mut roles = vec![Role::Other; length];
        let (Some(plan), Some(args)) = (self.plan(function), self.args(function, cells)) else {
            return roles;
        };
        let mut set = |cell: &Cell, role: Role| {
            if let Some(slot) = roles.get_mut(cell.index as usize) {
                *slot = role;
            }
        };
        for (param, arg) in args.inputs.iter().chain(&args.outputs) {
            let Some(def) = plan.def.params.get(usize::from(*param)) else { continue };
            let number = match (def.reads_as.as_str(), def.name.as_str()) {
                ("rank", _) => Role::Peer,
                ("tag", _) => Role::Tag,
                (_, name) if name.ends_with("count") || name.ends_with("counts") => Role::Count,
                _ => Role::Other,
            };
            mark(arg, number, &mut set);
        }
        for cell in args.made {
            set(&cell, Role::RequestNumber);
        }
        roles
    }
}

fn mark(arg: &Arg, number: Role, set: &mut impl FnMut(&Cell, Role)) {
    match arg {
        Arg::Int(cell) | Arg::Doubled(cell) | Arg::Large([_, cell]) => set(cell, number),
        Arg::Handle(handle) => mark_handle(handle, set),
        Arg::Address(address) | Arg::DoubledAddress(address) => {
            if let Address::Own([segment, offset]) = address {
                set(segment, Role::Segment);
                set(offset, Role::Offset);
            }
        }
        Arg::Requests(_, firsts, seconds) => {
            firsts.cells.iter().for_each(|cell| set(cell, Role::Request));
            seconds.cells.iter().for_each(|cell| set(cell, Role::RequestNumber));
        }
        Arg::Numbers(_, array) | Arg::Handles(_, array) => {
            array.cells.iter().for_each(|cell| set(cell, Role::Element));
        }
        Arg::ByAddress(_, Some(value)) => mark(value, number, set),
        _ => {}
    }
}

fn mark_handle(handle: &Handle, set: &mut impl FnMut(&Cell, Role)) {
    match handle {
        Handle::Own(cell) | Handle::Predefined(cell) => set(cell, Role::Object),
        Handle::Request([signature, number]) => {
            set(signature, Role::Request);
            set(number, Role::RequestNumber);
        }
        _ => {}
    }
}
