//! Receives and probes: posts them as the record says, and waits for their messages.

use crate::inside::library::{abi, predefined};
use crate::table;
use refrain_order::{Kind, Post, Posting};
use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::super::role::{Hooked, Mode, Origin};
use super::super::split::{self, envelope, irecv};
use super::super::stop::{self, PRIVATE_COMM, Waiting};
use super::super::{mpi, turn_key};
use super::complete::await_request;
use super::concurrent::Turns;
use super::{Decided, Persistent, Receive, ask, decide, put_request, request_of};

/// The receive that a call posts, and how the record says to post it.
pub(super) fn recorded_post(call: &Hooked<'_>, origin: Origin) -> (Post, Posting) {
    ask(|state| {
        let post = state.post_of(call, origin);
        Ok((post, state.posting(&post, origin)?))
    })
}

/// Replaces wildcards by the recorded source and tag.
pub(super) fn narrow(words: &mut [usize], source: usize, tag: usize, posting: Posting) {
    if let Posting::Narrowed(from) = posting {
        for (index, value) in [(source, from.source), (tag, from.tag)] {
            if let Some(word) = words.get_mut(index) {
                *word = value as u32 as usize;
            }
        }
    }
}

fn is_withheld(posting: Posting) -> bool {
    matches!(posting, Posting::WithheldCancelled | Posting::WithheldNever)
}

/// The source and tag that a receive waits for; `None` is a wildcard.
pub(super) fn from(post: &Post, posting: Posting) -> (Option<i32>, Option<i32>) {
    match posting {
        Posting::Narrowed(from) => (Some(from.source), Some(from.tag)),
        _ => (post.source, post.tag),
    }
}

pub(super) fn describe((source, tag): (Option<i32>, Option<i32>)) -> String {
    let text = |value: Option<i32>| value.map_or("any".to_owned(), |value| value.to_string());
    format!("a message from {} with tag {}", text(source), text(tag))
}

/// Waits until there is a message for a receive or probe. Returns MPI's error code.
fn await_message([source, tag, comm]: [usize; 3], what: impl Fn() -> String) -> c_int {
    let ignore = mpi::status_ignore() as usize;
    let mut waiting = Waiting::new(|| what() + &instead(source, comm));
    loop {
        let mut flag: c_int = 0;
        let words = [source, tag, comm, &raw mut flag as usize, ignore];
        // SAFETY: the program's arguments, an int, and no status.
        let result = unsafe { mpi::call(table::MPI_Iprobe, &words) };
        if flag != 0 || result != 0 {
            return result;
        }
        waiting.again();
    }
}

/// For the report of a wait that takes too long: another message from that source, if there is one.
fn instead(source: usize, comm: usize) -> String {
    let (mut flag, mut status): (c_int, _) = (0, mpi::Status::new());
    let any = mpi::layout().any_tag as u32 as usize;
    let words = [source, any, comm, &raw mut flag as usize, status.address() as usize];
    // SAFETY: the program's arguments, an int and a status; a probe does not receive the message.
    let found = unsafe {
        mpi::call(table::MPI_Iprobe, &words);
        if flag == 0 { None } else { mpi::envelope(status.address()) }
    };
    found.map_or_else(String::new, |found| format!("; there is one with tag {}", found.tag))
}

/// A request that never receives anything.
fn dummy(request: &mut usize) -> c_int {
    let comm = PRIVATE_COMM.load(Ordering::Relaxed) as usize;
    let byte = predefined("MPI_BYTE").unwrap_or(0);
    irecv(&[0, 0, byte, 0, 0, comm], false, request)
}

pub(super) fn receive(call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let (post, posting) = recorded_post(&call, origin);
    narrow(call.words, call.role.source, call.role.tag, posting);
    let name = || ask(|state| Ok(state.name(origin.site)));
    let what = || format!("{kind} at {} for {}", name(), describe(from(&post, posting)));
    if kind == Kind::Sendrecv {
        return exchange(&call, origin, posting, what);
    }
    decide(origin, kind, 0);
    // A recorded receive that returned without a message had invalid arguments, and fails again.
    if kind == Kind::Recv && !is_withheld(posting) {
        await_message(envelope(&call), what);
    }
    // The message has arrived: this does not block for long, and reports the same errors as in the recorded run.
    call.forward()
}

/// Replays `MPI_Sendrecv`: sends, waits for the message, and receives it.
fn exchange(
    call: &Hooked<'_>,
    origin: Origin,
    posting: Posting,
    what: impl Fn() -> String,
) -> c_int {
    let mut packed = Vec::new();
    let mut request = 0;
    let sent = split::sent(call, &mut packed).map_or_else(
        |error| error,
        |words| split::isend(&words, call.role.large, Mode::Standard, &mut request),
    );
    // The send comes first: in the recorded run it happened even if the record ends before the answer.
    decide(origin, Kind::Sendrecv, 0);
    if sent != 0 {
        return sent;
    }
    if !is_withheld(posting) {
        await_message(envelope(call), &what);
    }
    let [.., status] = *call.words else { return 0 };
    let [buffer, count, datatype, source, tag, comm] = split::received(call);
    let recv = if call.role.large { table::MPI_Recv_c } else { table::MPI_Recv };
    // SAFETY: the program's arguments.
    let received =
        unsafe { mpi::call(recv, &[buffer, count, datatype, source, tag, comm, status]) };
    await_request(request, || format!("{}, its send", what()));
    let sent = split::wait(&mut request, mpi::status_ignore() as usize);
    if received != 0 { received } else { sent }
}

pub(super) fn post(call: Hooked<'_>, origin: Origin) -> c_int {
    let _turns = Turns::of_call(&call, origin);
    let (post, posting) = recorded_post(&call, origin);
    let from = from(&post, posting);
    // Only a plain receive can be withheld: `MPI_Isendrecv` also has to send.
    let withheld = is_withheld(posting) && call.role.source == mpi::IRECV_SOURCE;
    let mut request = 0;
    let result = if withheld {
        let result = dummy(&mut request);
        put_request(&call, 0, request);
        result
    } else {
        narrow(call.words, call.role.source, call.role.tag, posting);
        let result = call.forward();
        request = request_of(&call);
        result
    };
    if result == 0 {
        let (active, cancelled) = (Some(mpi::handle(request)), false);
        let receive = Receive { active, withheld, cancelled, from, persistent: None };
        ask(|state| {
            state.requests.add(mpi::handle(request), receive);
            Ok(())
        });
    }
    result
}

pub(super) fn init(call: Hooked<'_>, origin: Origin) -> c_int {
    let result = call.forward();
    if result == 0
        && let Some(words) = call.words.first_chunk::<6>()
    {
        let mut words = *words;
        let datatype = duplicate_datatype(words[2]);
        words[2] = datatype.unwrap_or(words[2]);
        ask(|state| {
            let post = state.post_of(&call, origin);
            let persistent = Some(Persistent { words, datatype, large: call.role.large, post });
            let (active, withheld, cancelled, from) = (None, false, false, (None, None));
            let receive = Receive { active, withheld, cancelled, from, persistent };
            state.requests.add(request_of(&call), receive);
            Ok(())
        });
    }
    result
}

/// Duplicates a datatype: a persistent request keeps its datatype even if the program frees it.
fn duplicate_datatype(of: usize) -> Option<usize> {
    let mut datatype = 0usize;
    // SAFETY: a datatype of the program, and room for a handle.
    let result = unsafe { mpi::call(table::MPI_Type_dup, &[of, &raw mut datatype as usize]) };
    (result == 0).then(|| mpi::handle(datatype))
}

/// Frees the datatype of a persistent request.
pub(super) fn release(persistent: &Persistent) {
    if let Some(mut datatype) = persistent.datatype {
        // SAFETY: the agent's datatype.
        unsafe { mpi::call(table::MPI_Type_free, &[&raw mut datatype as usize]) };
    }
}

/// Starts requests, one after the other. Persistent receives are posted as new receives each time, since each
/// may have another source.
pub(super) fn start_all(call: Hooked<'_>, origin: Origin) -> c_int {
    let (at, n) = call.requests();
    for i in 0..n {
        // SAFETY: by the interface table, the argument points to that many requests.
        let handle = unsafe { mpi::handle_at(at, i) };
        let persistent =
            ask(|state| Ok(state.requests.get(handle).and_then(|receive| receive.persistent)));
        let key = match persistent {
            Some(persistent) => Some(turn_key::of_receives(persistent.post.communicator)),
            None => ask(|state| Ok(state.send_keys.get(&handle).copied())),
        };
        let _turn = key.map(|key| Turns::one(key, origin));
        let result = match persistent {
            Some(persistent) => start_one(handle, persistent, origin),
            None => {
                let address = at.wrapping_add(i * abi().handle_bytes) as usize;
                // SAFETY: the address of one of the program's requests.
                unsafe { mpi::call(table::MPI_Start, &[address]) }
            }
        };
        if result != 0 {
            return result;
        }
    }
    0
}

fn start_one(handle: usize, persistent: Persistent, origin: Origin) -> c_int {
    let Persistent { mut words, large, post, .. } = persistent;
    let post = Post { site: origin.site, ..post };
    let posting = ask(|state| state.posting(&post, origin));
    let withheld = is_withheld(posting);
    let mut request = 0;
    let result = if withheld {
        dummy(&mut request)
    } else {
        narrow(&mut words, 3, 4, posting);
        irecv(&words, large, &mut request)
    };
    ask(|state| {
        if let Some(receive) = state.requests.get_mut(handle).filter(|_| result == 0) {
            (receive.active, receive.withheld) = (Some(mpi::handle(request)), withheld);
            (receive.from, receive.cancelled) = (from(&post, posting), false);
        }
        Ok(())
    });
    result
}

pub(super) fn probe(call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    if let Decided::Fail = decide(origin, kind, 0) {
        stop::drive();
        call.set_output(call.role.flag, 0);
        return 0;
    }
    let _turns = Turns::of_call(&call, origin);
    let (post, posting) = recorded_post(&call, origin);
    narrow(call.words, call.role.source, call.role.tag, posting);
    let name = || ask(|state| Ok(state.name(origin.site)));
    let what = || format!("{kind} at {} for {}", name(), describe(from(&post, posting)));
    await_message(envelope(&call), what);
    // No other call receives the message: this finds it at once.
    call.forward()
}
