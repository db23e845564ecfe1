//! The windows of a process: epochs, accesses, and calls that use the memory of a window.

use super::Process;
use crate::epochs::Window;
use crate::finding::Findings;
use crate::finding::Place;
use crate::memory::{Owner, Range, Use};
use crate::rma::{Access, At, Kind as AccessKind, Shape};
use crate::turn::{Turn, Unordered};
use refrain_mpi::interface::Function;
use refrain_mpi::semantics::{self, Argument, Object, Rma, Sync};
use refrain_reader::{Call, Value};
use std::sync::Arc;

/// A window, as this process knows it.
#[derive(Debug)]
pub(super) struct OwnWindow {
    pub(super) epochs: Window,
    identity: u64,
    pub(super) members: Arc<[i32]>,
    /// Its own memory in the window.
    memory: Option<Range>,
}

impl Process {
    /// Follows windows: epochs, accesses, and memory of windows that other calls use.
    pub(super) fn windows_of(
        &mut self,
        call: &Call,
        function: &Function,
        place: &Arc<Place>,
        used: &[Use],
        turn: &mut Turn,
        findings: &mut Findings,
    ) {
        let arguments = call.arguments();
        let handle = arguments.handle(Argument::Window);
        match function.op() {
            semantics::Op::Rma(kind) => {
                let Some(handle) = handle else { return };
                self.access(call, kind, handle, place, used, turn, findings);
            }
            semantics::Op::Sync(sync) => {
                let Some(handle) = handle else { return };
                let Some(window) = self.windows.get_mut(&handle) else { return };
                window.epochs.synchronize(call, sync, place, findings);
                if matches!(sync, Sync::Start | Sync::Post) {
                    turn.unordered = Some(Unordered::One(window.identity));
                }
                let target = arguments.int(Argument::Target);
                let one = matches!(sync, Sync::Unlock | Sync::Flush | Sync::FlushLocal);
                let none = matches!(
                    sync,
                    Sync::Lock
                        | Sync::LockAll
                        | Sync::Start
                        | Sync::Post
                        | Sync::Memory
                        | Sync::Wait
                );
                if none {
                    return;
                }
                let target = target.filter(|_| one);
                self.in_flight.window_done(handle, target);
                if !matches!(sync, Sync::FlushLocal | Sync::FlushLocalAll) {
                    let world =
                        |target: i64| window.members.get(usize::try_from(target).ok()?).copied();
                    turn.synchronized.push((window.identity, target.and_then(world)));
                }
            }
            semantics::Op::Free(Object::Window) => {
                if let Some(window) = handle.and_then(|handle| self.windows.get(&handle)) {
                    window.epochs.free(place, findings);
                }
                if let Some(handle) = handle.filter(|_| call.returned()) {
                    if let Some(window) = self.windows.remove(&handle) {
                        turn.synchronized.push((window.identity, None));
                    }
                    self.in_flight.window_done(handle, None);
                }
            }
            _ => self.own_windows(used, turn, false),
        }
    }

    /// Accesses to the process's own memory in windows by its other calls.
    fn own_windows(&self, used: &[Use], turn: &mut Turn, until_sync: bool) {
        for window in self.windows.values() {
            let own = window.members.iter().position(|rank| *rank == self.rank);
            let is_locked = own.is_some_and(|own| window.epochs.is_locked(own as i64));
            let Some(memory) = window.memory.filter(|_| !is_locked) else { continue };
            for part in used.iter().filter(|part| part.range.meets(&memory)) {
                let kind = if part.writes { AccessKind::Store } else { AccessKind::Load };
                let at = At::Bytes(part.range.start - memory.start, part.range.end - memory.start);
                turn.accesses.push(Access {
                    window: window.identity,
                    target: self.rank,
                    at,
                    kind,
                    place: turn.place.clone(),
                    is_exclusive: false,
                    ends_at_once: !until_sync,
                });
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all parts of one call")]
    fn access(
        &mut self,
        call: &Call,
        kind: Rma,
        handle: u64,
        place: &Arc<Place>,
        used: &[Use],
        turn: &mut Turn,
        findings: &mut Findings,
    ) {
        let int = |name: &str| match call.input(name) {
            Some(Value::Int(n)) => Some(*n),
            _ => None,
        };
        let Some(target) = call.arguments().int(Argument::Target).filter(|target| *target >= 0)
        else {
            return;
        };
        let Some(window) = self.windows.get_mut(&handle) else { return };
        window.epochs.access(target, place, findings);
        let is_exclusive = window.epochs.is_exclusive(target);
        let identity = window.identity;
        let world =
            usize::try_from(target).ok().and_then(|target| window.members.get(target)).copied();
        // The buffers of accesses with requests are in flight until these are complete.
        if call.mpi().is_some_and(|function| function.form() != semantics::Form::Nonblocking) {
            self.in_flight.add(Owner::Window(handle, target), used, place);
        }
        if matches!(kind, Rma::FetchAndOp | Rma::CompareAndSwap) {
            turn.unordered = Some(Unordered::All);
        }
        self.own_windows(used, turn, true);
        let datatype =
            ["target_datatype", "datatype"].into_iter().find_map(|name| match call.input(name) {
                Some(Value::Word(handle)) => Some(*handle),
                _ => None,
            });
        let bytes = datatype.and_then(|datatype| {
            let (datatype, _) = self.types.get(call, datatype)?;
            let extent = datatype.extent.filter(|_| datatype.is_dense)?;
            int("target_count").unwrap_or(1).checked_mul(extent)
        });
        let op = match call.input("op") {
            Some(Value::Word(op)) => call.handle_name("op", *op),
            _ => None,
        };
        let kind = match kind {
            Rma::Put => AccessKind::Put,
            Rma::Get => AccessKind::Get,
            // Compare-and-swap is atomic with respect to the others.
            _ => AccessKind::Accumulate(op.map(Into::into)),
        };
        if let (Some(world), Some(bytes), Some(at)) = (world, bytes, int("target_disp"))
            && bytes > 0
        {
            turn.accesses.push(Access {
                window: identity,
                target: world,
                at: At::Units(at, bytes),
                kind,
                place: place.clone(),
                is_exclusive,
                ends_at_once: false,
            });
        }
    }

    /// A window that a call has made; its scope is the last one.
    pub(super) fn new_window(&mut self, call: &Call, turn: &mut Turn) {
        let Some(function) = call.mpi() else { return };
        if function.op() != semantics::Op::Make(Object::Window)
            || !call.returned()
            || call.error().is_some()
        {
            return;
        }
        let arguments = call.arguments();
        let Some(handle) = arguments.output_handle(Argument::Window) else { return };
        let comm = arguments.handle(Argument::Comm).and_then(|comm| self.comm(call, comm));
        let (Some(comm), Some((scope, _))) = (comm, self.tracker.scopes().last()) else { return };
        let int = |name: &str| match call.input(name) {
            Some(Value::Int(n)) => Some(*n),
            _ => None,
        };
        let size = int("size");
        let memory = call
            .arg("base")
            .zip(size)
            .and_then(|(base, size)| Range::at(base, turn.place.thread, size))
            .filter(|_| function.name.starts_with("MPI_Win_create"));
        let identity = scope.identity();
        let unit = int("disp_unit").filter(|unit| *unit > 0);
        turn.window = Some((identity, Shape { size, unit }));
        let epochs = Window::new(turn.place.clone());
        self.windows
            .insert(handle, OwnWindow { epochs, identity, members: comm.local.clone(), memory });
    }
}
