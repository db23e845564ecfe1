//! Replaying: the record decides, and MPI is made to do it.

use crate::memory::Statuses;
use crate::process;
use crate::table;
use refrain_order::{Call, Choice, Decision, Frames, Kind, Post, Posting, Replayer, Stop};
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::board::{self, State};
use super::guarded::Guarded;
use super::mpi::{self, Status};
use super::requests::{Comms, Requests};
use super::role::{Act, Hooked, Role};
use super::stop::{self, OWN_COMM, Waiting};
use super::thread::Thread;
use super::{files, record};

static REPLAYING: Guarded<Replaying> = Guarded::new();

/// What is replayed in this process.
struct Replaying {
    replayer: Replayer,
    requests: Requests<Receive>,
    comms: Comms,
    /// Names of places in the program, by site.
    names: HashMap<u64, String>,
    /// The call of this rank before which to wait for a debugger.
    until: Option<u64>,
}

/// A receive that completes later.
struct Receive {
    /// While it is active: the request in MPI, which is the program's unless that is persistent.
    active: Option<usize>,
    /// It is not posted, and the program's request is one on which nothing is received.
    withheld: bool,
    /// What it waits for, for messages.
    from: (Option<i32>, Option<i32>),
    persistent: Option<Persistent>,
}

/// A receive that can be started.
#[derive(Clone, Copy)]
struct Persistent {
    /// The arguments of `MPI_Irecv`, but for the request.
    words: [usize; 6],
    large: bool,
    post: Post,
}

/// What a matching call is to do.
enum Decided {
    Fail,
    All,
    Undefined,
    These(Vec<u32>),
}

/// Where a call was made.
#[derive(Clone, Copy)]
struct Place {
    stream: u32,
    site: u64,
}

impl Replaying {
    fn name(&self, site: u64) -> String {
        self.names.get(&site).cloned().unwrap_or_else(|| format!("{site:#x}"))
    }
}

fn facts() -> impl Iterator<Item = (String, String)> {
    let facts = String::from_utf8(files::read("facts").unwrap_or_default()).unwrap_or_default();
    let pair = |line: &str| Some(line.split_once(' ')?).map(|(a, b)| (a.to_owned(), b.to_owned()));
    facts.lines().filter_map(pair).collect::<Vec<_>>().into_iter()
}

/// MPI has begun, with so many ranks.
pub fn start(rank: c_int, size: c_int) {
    let Some(frames) = files::read("order") else {
        stop::abort(stop::NO_RECORD, "there is no record of this rank");
    };
    let recorded = facts().find(|(fact, _)| fact == "size").map(|(_, size)| size);
    if recorded.as_ref().is_some_and(|recorded| *recorded != size.to_string()) {
        let recorded = recorded.unwrap_or_default();
        stop::abort(stop::NO_RECORD, &format!("{size} ranks run, but {recorded} were recorded"));
    }
    let frames = Frames::read(frames);
    let replayer = Replayer::new(frames);
    let replayer = replayer.unwrap_or_else(|error| {
        stop::abort(stop::NO_RECORD, &format!("the record cannot be read: {error}"))
    });
    let name = |(fact, text): (String, String)| {
        let (site, place) = text.split_once(' ').filter(|_| fact == "site")?;
        let short = place.rsplit('/').next().unwrap_or(place);
        Some((u64::from_str_radix(site, 16).ok()?, short.to_owned()))
    };
    let names = facts().filter_map(name).collect();
    let until = std::env::var("REFRAIN_UNTIL").ok();
    let until = until.as_deref().and_then(|until| until.split_once(':'));
    let until = until.filter(|(who, _)| *who == rank.to_string());
    let until = until.and_then(|(_, event)| event.parse().ok());
    board::start(rank as usize, size as usize);
    REPLAYING.put(Replaying {
        replayer,
        requests: Requests::default(),
        comms: Comms::default(),
        names,
        until,
    });
    make_own_comm();
}

/// A communicator of this process alone, for requests on which nothing is received.
fn make_own_comm() {
    let mut comm = 0usize;
    if let Some(own) = process::predefined("MPI_COMM_SELF") {
        // SAFETY: a predefined communicator, and room for a handle.
        let result = unsafe { mpi::call(table::MPI_Comm_dup, &[own, &raw mut comm as usize]) };
        if result == 0 {
            OWN_COMM.store(comm as u64, Ordering::Relaxed);
        }
    }
}

/// MPI is about to end.
pub fn end() {
    let Some(own) = REPLAYING.take() else { return };
    for (_, receive) in own.requests.iter().filter(|(_, receive)| receive.withheld) {
        if let Some(mut request) = receive.active {
            let place = &raw mut request as usize;
            // SAFETY: a request of our own.
            unsafe {
                mpi::call(table::MPI_Cancel, &[place]);
                mpi::call(table::MPI_Request_free, &[place]);
            }
        }
    }
    let mut comm = OWN_COMM.swap(0, Ordering::Relaxed) as usize;
    if comm != 0 {
        // SAFETY: a communicator of our own.
        unsafe { mpi::call(table::MPI_Comm_free, &[&raw mut comm as usize]) };
    }
    let Replaying { replayer, names, .. } = own;
    if let Err(Stop::Diverged(divergence)) = replayer.finish() {
        let name = |site: u64| names.get(&site).cloned().unwrap_or_else(|| format!("{site:#x}"));
        stop::abort(
            stop::DIVERGED,
            &format!("diverged at MPI_Finalize: {}", divergence.text(name)),
        );
    }
    if let Some(board) = board::get() {
        board.say(State::Finalizing, "");
    }
}

/// Asks the record; where it has no answer, the job ends.
fn ask<R>(what: impl FnOnce(&mut Replaying) -> Result<R, Stop>) -> R {
    let answer = REPLAYING.with(|own| match what(own) {
        Ok(answer) => Ok(answer),
        Err(stop) => Err((
            match &stop {
                Stop::Diverged(divergence) => {
                    let names = |site| own.name(site);
                    divergence.text(names)
                }
                _ => String::new(),
            },
            own.replayer.position(0),
            stop,
        )),
    });
    match answer {
        Some(Ok(answer)) => answer,
        Some(Err((text, _, Stop::Diverged(_)))) => {
            stop::abort(stop::DIVERGED, &format!("diverged: {text}"))
        }
        Some(Err((_, position, Stop::RecordEnds))) => {
            stop::record_ends(&format!("after {position} calls"))
        }
        Some(Err((_, _, Stop::Unreadable(error)))) => {
            stop::abort(stop::NO_RECORD, &format!("the record cannot be read: {error}"))
        }
        None => stop::abort(stop::NO_RECORD, "the replay was interrupted in the middle of a call"),
    }
}

/// What the clock said.
pub fn value(thread: &Thread, which: u8) -> Option<u64> {
    let stream = thread.stream;
    REPLAYING.is_there().then(|| ask(|own| own.replayer.value(stream, which)))
}

/// A call that is the program's.
pub fn call(call: Hooked<'_>, thread: &mut Thread) -> c_int {
    if !REPLAYING.is_there() {
        return call.forward();
    }
    if let Some(board) = board::get() {
        board.step();
    }
    let place = Place { stream: thread.stream, site: thread.site(&call.entry) };
    match call.role.act {
        Act::Receive(kind) => receive(call, place, kind),
        Act::Post => post(call, place),
        Act::Init => init(call, place),
        Act::Start => start_all(call, place),
        Act::Probe(kind) => probe(call, place, kind),
        Act::Complete(kind) => complete(call, place, kind),
        Act::Arrive => arrive(call, place),
        Act::Cancel => cancel(call),
        Act::Free => free(call),
        Act::FreeComm => free_comm(call),
        Act::Begin | Act::End => call.forward(),
    }
}

/// What the record says of a matching call.
fn decide(place: Place, kind: Kind, count: u32) -> Decided {
    let (decided, held) = ask(|own| {
        let call = Call { kind, site: place.site, count };
        let decided = match own.replayer.call(place.stream, &call)? {
            Decision::Fail => Decided::Fail,
            Decision::All => Decided::All,
            Decision::Undefined => Decided::Undefined,
            Decision::These(indices) => Decided::These(indices.to_vec()),
        };
        let position = own.replayer.position(place.stream);
        let due = !matches!(decided, Decided::Fail) && own.until == Some(position);
        Ok((
            decided,
            due.then(|| format!("at call {position}, {kind} at {}", own.name(place.site))),
        ))
    });
    if let Some(held) = held {
        stop::hold(&held);
    }
    decided
}

/// The receive that a call posts, and what the record says of it.
fn wanted(call: &Hooked<'_>, place: Place) -> (Post, Posting) {
    ask(|own| {
        let post = own.wanted(call, place);
        Ok((post, own.replayer.post(place.stream, &post)?))
    })
}

impl Replaying {
    /// As when recording.
    fn wanted(&mut self, call: &Hooked<'_>, place: Place) -> Post {
        let communicator = self.comms.number(call.comm());
        call.post(place.site, communicator)
    }
}

/// Asks for the recorded source and tag in place of wildcards.
fn narrow(words: &mut [usize], source: usize, tag: usize, posting: Posting) {
    if let Posting::Narrowed(from) = posting {
        let places = [(source, from.source), (tag, from.tag)];
        for (place, value) in places {
            if let Some(word) = words.get_mut(place) {
                *word = value as u32 as usize;
            }
        }
    }
}

fn is_withheld(posting: Posting) -> bool {
    matches!(posting, Posting::WithheldCancelled | Posting::WithheldNever)
}

/// What a narrowed receive waits for.
fn from(post: &Post, posting: Posting) -> (Option<i32>, Option<i32>) {
    match posting {
        Posting::Narrowed(from) => (Some(from.source), Some(from.tag)),
        _ => (post.source, post.tag),
    }
}

fn describe((source, tag): (Option<i32>, Option<i32>)) -> String {
    let text = |value: Option<i32>| value.map_or("any".to_owned(), |value| value.to_string());
    format!("a message from {} with tag {}", text(source), text(tag))
}

/// Waits until a request is known to be complete, and leaves it: what completes it then reports
/// errors as the program's own call would.
fn await_request(request: usize, what: impl Fn() -> String) {
    let ignore = mpi::status_ignore() as usize;
    let mut waiting = Waiting::new(what);
    loop {
        let mut flag: c_int = 0;
        let words = [request, &raw mut flag as usize, ignore];
        // SAFETY: a request, an int, and no status.
        let result = unsafe { mpi::call(table::MPI_Request_get_status, &words) };
        if flag != 0 || result != 0 {
            return;
        }
        waiting.again();
    }
}

/// Waits until there is a message for a receive or probe; gives what MPI has to complain about.
fn await_message([source, tag, comm]: [usize; 3], what: impl Fn() -> String) -> c_int {
    let ignore = mpi::status_ignore() as usize;
    let mut waiting = Waiting::new(what);
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

/// Posts a receive.
fn irecv(words: &[usize], large: bool, request: &mut usize) -> c_int {
    let function = if large { table::MPI_Irecv_c } else { table::MPI_Irecv };
    let mut all = [0; 7];
    all[..6].copy_from_slice(&words[..6]);
    all[6] = &raw mut *request as usize;
    // SAFETY: the program's arguments, and room for a handle.
    unsafe { mpi::call(function, &all) }
}

/// A request on which nothing is ever received.
fn dummy(request: &mut usize) -> c_int {
    let comm = OWN_COMM.load(Ordering::Relaxed) as usize;
    let byte = process::predefined("MPI_BYTE").unwrap_or(0);
    irecv(&[0, 0, byte, 0, 0, comm], false, request)
}

fn receive(call: Hooked<'_>, place: Place, kind: Kind) -> c_int {
    let (post, posting) = wanted(&call, place);
    narrow(call.words, call.role.source, call.role.tag, posting);
    let name = || ask(|own| Ok(own.name(place.site)));
    let what = || format!("{kind} at {} for {}", name(), describe(from(&post, posting)));
    if kind == Kind::Sendrecv {
        return exchange(&call, place, what);
    }
    decide(place, kind, 0);
    if kind == Kind::Recv {
        await_message(envelope(&call), what);
    }
    // A message is there: this does not block for long, and what is wrong with it is reported as
    // it was.
    call.forward()
}

/// Source, tag and communicator of a receive.
fn envelope(call: &Hooked<'_>) -> [usize; 3] {
    let Role { source, tag, comm, .. } = *call.role;
    [source, tag, comm].map(|place| call.word(place))
}

/// Sends, and receives when there is a message.
fn exchange(call: &Hooked<'_>, place: Place, what: impl Fn() -> String) -> c_int {
    let mut packed = Vec::new();
    let sent = match call.words.len() {
        12 => Ok(call.words.first_chunk::<5>().copied().unwrap_or_default()),
        _ => pack(call, &mut packed),
    };
    let comm = call.comm();
    let mut request = 0;
    let sent = sent.map_or_else(
        |error| error,
        |[buffer, count, datatype, to, tag]| {
            let isend = if call.role.large { table::MPI_Isend_c } else { table::MPI_Isend };
            let words = [buffer, count, datatype, to, tag, comm, &raw mut request as usize];
            // SAFETY: the program's arguments, and room for a handle.
            unsafe { mpi::call(isend, &words) }
        },
    );
    // What was sent was sent, even where the record ends before the answer.
    decide(place, Kind::Sendrecv, 0);
    if sent != 0 {
        return sent;
    }
    let envelope = envelope(call);
    await_message(envelope, &what);
    let [.., status] = *call.words else { return 0 };
    let [source, tag, comm] = envelope;
    let [buffer, count, datatype] = match *call.words {
        [_, _, _, _, _, buffer, count, datatype, _, _, _, _] => [buffer, count, datatype],
        [buffer, count, datatype, ..] => [buffer, count, datatype],
        _ => [0; 3],
    };
    let recv = if call.role.large { table::MPI_Recv_c } else { table::MPI_Recv };
    // SAFETY: the program's arguments.
    let received =
        unsafe { mpi::call(recv, &[buffer, count, datatype, source, tag, comm, status]) };
    await_request(request, || format!("{}, its send", what()));
    let ignore = mpi::status_ignore() as usize;
    // SAFETY: a request of our own.
    let sent = unsafe { mpi::call(table::MPI_Wait, &[&raw mut request as usize, ignore]) };
    if received != 0 { received } else { sent }
}

/// Packs what `MPI_Sendrecv_replace` sends, since what it receives goes to the same place; gives
/// what to send.
fn pack(call: &Hooked<'_>, packed: &mut Vec<u8>) -> Result<[usize; 5], c_int> {
    let [buffer, count, datatype, dest, tag, ..] = *call.words else {
        return Err(mpi::layout().err_other);
    };
    let comm = call.comm();
    let (size, pack) = match call.role.large {
        true => (table::MPI_Pack_size_c, table::MPI_Pack_c),
        false => (table::MPI_Pack_size, table::MPI_Pack),
    };
    // Large counts have eight bytes, others four: zeros fit both.
    let (mut bytes, mut position) = (0usize, 0usize);
    // SAFETY: the program's arguments, and room for what is asked for.
    unsafe {
        let result = mpi::call(size, &[count, datatype, comm, &raw mut bytes as usize]);
        if result != 0 {
            return Err(result);
        }
        packed.resize(bytes.max(1), 0);
        let (place, at) = (packed.as_mut_ptr() as usize, &raw mut position as usize);
        match mpi::call(pack, &[buffer, count, datatype, place, bytes, at, comm]) {
            0 => Ok([place, position, process::predefined("MPI_PACKED").unwrap_or(0), dest, tag]),
            error => Err(error),
        }
    }
}

/// The request that a call gives by address.
fn request_of(call: &Hooked<'_>) -> usize {
    // SAFETY: the table says a request is there.
    unsafe { mpi::handle_at(call.word(call.role.request) as *mut u8, 0) }
}

fn put_request(call: &Hooked<'_>, index: usize, handle: usize) {
    // SAFETY: the table says that so many requests are there.
    unsafe { mpi::put_handle(call.word(call.role.request) as *mut u8, index, handle) };
}

fn post(call: Hooked<'_>, place: Place) -> c_int {
    let (post, posting) = wanted(&call, place);
    let from = from(&post, posting);
    // Only a plain receive can be withheld: what is sent along has to be sent.
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
        let receive =
            Receive { active: Some(mpi::handle(request)), withheld, from, persistent: None };
        ask(|own| {
            own.requests.add(mpi::handle(request), receive);
            Ok(())
        });
    }
    result
}

fn init(call: Hooked<'_>, place: Place) -> c_int {
    let result = call.forward();
    if result == 0
        && let Some(words) = call.words.first_chunk::<6>()
    {
        let words = with_own_datatype(*words);
        ask(|own| {
            let post = own.wanted(&call, place);
            let persistent = Some(Persistent { words, large: call.role.large, post });
            let receive = Receive { active: None, withheld: false, from: (None, None), persistent };
            own.requests.add(request_of(&call), receive);
            Ok(())
        });
    }
    result
}

/// A persistent request keeps its datatype, even if the program frees it: so must we.
fn with_own_datatype(mut words: [usize; 6]) -> [usize; 6] {
    let mut datatype = 0usize;
    // SAFETY: a datatype of the program, and room for a handle.
    if unsafe { mpi::call(table::MPI_Type_dup, &[words[2], &raw mut datatype as usize]) } == 0 {
        words[2] = mpi::handle(datatype);
    }
    words
}

/// Starts requests, one after the other. Receives that can be started are posted anew each time,
/// since each may ask for another source.
fn start_all(call: Hooked<'_>, place: Place) -> c_int {
    let (at, n) = call.requests();
    for i in 0..n {
        // SAFETY: the table says that so many requests are there.
        let handle = unsafe { mpi::handle_at(at, i) };
        let persistent = ask(|own| Ok(own.requests.get(handle).and_then(|own| own.persistent)));
        let result = match persistent {
            Some(persistent) => start_one(handle, persistent, place),
            None => {
                let address = at.wrapping_add(i * process::abi().handle_bytes) as usize;
                // SAFETY: the address of a request of the program.
                unsafe { mpi::call(table::MPI_Start, &[address]) }
            }
        };
        if result != 0 {
            return result;
        }
    }
    0
}

fn start_one(handle: usize, persistent: Persistent, place: Place) -> c_int {
    let Persistent { mut words, large, post } = persistent;
    let post = Post { site: place.site, ..post };
    let posting = ask(|own| own.replayer.post(place.stream, &post));
    let withheld = is_withheld(posting);
    let mut request = 0;
    let result = if withheld {
        dummy(&mut request)
    } else {
        narrow(&mut words, 3, 4, posting);
        irecv(&words, large, &mut request)
    };
    ask(|own| {
        if let Some(receive) = own.requests.get_mut(handle).filter(|_| result == 0) {
            (receive.active, receive.withheld) = (Some(mpi::handle(request)), withheld);
            receive.from = from(&post, posting);
        }
        Ok(())
    });
    result
}

fn probe(call: Hooked<'_>, place: Place, kind: Kind) -> c_int {
    if let Decided::Fail = decide(place, kind, 0) {
        stop::drive();
        call.set_output(call.role.flag, 0);
        return 0;
    }
    let (post, posting) = wanted(&call, place);
    narrow(call.words, call.role.source, call.role.tag, posting);
    let name = || ask(|own| Ok(own.name(place.site)));
    let what = || format!("{kind} at {} for {}", name(), describe(from(&post, posting)));
    await_message(envelope(&call), what);
    // Nobody else takes the message: this finds it at once.
    call.forward()
}

fn arrive(call: Hooked<'_>, place: Place) -> c_int {
    if let Decided::Fail = decide(place, Kind::Parrived, 0) {
        stop::drive();
        call.set_output(call.role.flag, 0);
        return 0;
    }
    let name = || ask(|own| Ok(own.name(place.site)));
    let mut waiting = Waiting::new(|| format!("Parrived at {} for a partition", name()));
    loop {
        let result = call.forward();
        if result != 0 || call.output(call.role.flag) != Some(0) {
            return result;
        }
        waiting.again();
    }
}

/// Reports that nothing was found.
fn fail(call: &Hooked<'_>, kind: Kind) -> c_int {
    stop::drive();
    call.set_output(call.role.flag, 0);
    match kind.choice() {
        Choice::One => call.set_output(call.role.index, mpi::layout().undefined),
        Choice::Some => call.set_output(call.role.outcount, 0),
        Choice::All => {}
    }
    0
}

fn complete(call: Hooked<'_>, place: Place, kind: Kind) -> c_int {
    let (_, n) = call.requests();
    let n = if kind == Kind::GetStatus { 1 } else { n };
    let count = if kind.has_array() { n as u32 } else { 0 };
    let indices = match decide(place, kind, count) {
        Decided::Fail => return fail(&call, kind),
        // Nothing is active: MPI says so itself.
        Decided::Undefined => return call.forward(),
        Decided::All => (0..n as u32).collect(),
        Decided::These(indices) => indices,
    };
    let one = |(n, index): (usize, &u32)| {
        choose(&call, place, kind, *index as usize, status_of(&call, kind, n))
    };
    let chosen: Vec<Chosen> = indices.iter().enumerate().map(one).collect();
    let result = match record::consumes(kind) {
        true => finish(&call, kind, chosen),
        false => look_at(&call, kind, &chosen),
    };
    call.set_output(call.role.flag, 1);
    match kind.choice() {
        Choice::One => call.set_output(call.role.index, indices.first().map_or(0, |i| *i as c_int)),
        Choice::Some => {
            call.set_output(call.role.outcount, indices.len() as c_int);
            let at = call.word(call.role.index) as *mut c_int;
            for (n, index) in indices.iter().enumerate() {
                // SAFETY: there is room for as many indices as requests.
                unsafe { at.add(n).write_unaligned(*index as c_int) };
            }
        }
        Choice::All => {}
    }
    result
}

/// A request that a call is to complete.
struct Chosen {
    index: usize,
    /// The program's handle.
    handle: usize,
    /// The request in MPI.
    request: usize,
    /// What is no receive was completed already, with that status and result.
    completed: Option<(Status, c_int)>,
}

/// Waits until a request is complete. Receives are left so; others are completed, since not every
/// MPI makes progress with all sorts of them when it is only asked.
fn choose(call: &Hooked<'_>, place: Place, kind: Kind, index: usize, status: Statuses) -> Chosen {
    let (at, _) = call.requests();
    let handle = match kind {
        Kind::GetStatus => mpi::handle(call.word(call.role.request)),
        // SAFETY: the table says that so many requests are there.
        _ => unsafe { mpi::handle_at(at, index) },
    };
    let known = ask(|own| Ok(own.requests.get(handle).map(|known| (known.active, known.from))));
    let mut request = known.and_then(|(active, _)| active).unwrap_or(handle);
    let what = || {
        let name = ask(|own| Ok(own.name(place.site)));
        let what = match known {
            Some((_, from)) => describe(from),
            None => "an operation that is no receive".to_owned(),
        };
        format!("{kind} at {name} for request {index}, {what}")
    };
    let mut completed = None;
    if known.is_some() || !record::consumes(kind) {
        await_request(request, what);
    } else {
        let mut own = Status::new();
        own.copy_from(status);
        let result = complete_other(&mut request, own.place(), what);
        completed = Some((own, result));
    }
    Chosen { index, handle, request, completed }
}

/// Completes something that is no receive.
fn complete_other(request: &mut usize, status: Statuses, what: impl Fn() -> String) -> c_int {
    let mut waiting = Waiting::new(what);
    loop {
        let mut flag: c_int = 0;
        let words = [&raw mut *request as usize, &raw mut flag as usize, status as usize];
        // SAFETY: a request, an int and a status.
        let result = unsafe { mpi::call(table::MPI_Test, &words) };
        if flag != 0 || result != 0 {
            *request = mpi::handle(*request);
            return result;
        }
        waiting.again();
    }
}

/// The status of the n-th completed request, if the program wants one.
fn status_of(call: &Hooked<'_>, kind: Kind, n: usize) -> Statuses {
    let has_array = kind.has_array() && kind.choice() != Choice::One;
    let offset = if has_array { n * process::abi().status_bytes } else { 0 };
    match call.ignores_status(has_array) {
        true => mpi::status_ignore(),
        false => call.status().wrapping_add(offset),
    }
}

/// Completes requests that are complete in MPI: all at once where the call has several statuses.
fn finish(call: &Hooked<'_>, kind: Kind, mut chosen: Vec<Chosen>) -> c_int {
    let status = call.status() as usize;
    let bytes = process::abi().handle_bytes;
    let mut result = 0;
    if kind.has_array() && kind.choice() != Choice::One {
        let mut requests = vec![0u8; chosen.len() * bytes];
        for (n, one) in chosen.iter().enumerate() {
            // SAFETY: there is room for all of them.
            unsafe { mpi::put_handle(requests.as_mut_ptr(), n, one.request) };
        }
        let at = requests.as_mut_ptr();
        if chosen.iter().any(|one| one.completed.is_none()) {
            // SAFETY: requests, and statuses of the program or none.
            result = unsafe { mpi::call(table::MPI_Waitall, &[chosen.len(), at as usize, status]) };
        }
        for (n, one) in chosen.iter_mut().enumerate() {
            // SAFETY: as above.
            one.request = unsafe { mpi::handle_at(at, n) };
        }
    } else if let Some(one) = chosen.first_mut().filter(|one| one.completed.is_none()) {
        let place = &raw mut one.request as usize;
        // SAFETY: a request, and a status of the program or none.
        result = unsafe { mpi::call(table::MPI_Wait, &[place, status]) };
        one.request = mpi::handle(one.request);
    }
    for (n, one) in chosen.iter_mut().enumerate() {
        if let Some((own, error)) = &mut one.completed {
            own.copy_to(status_of(call, kind, n));
            result = if result == 0 { *error } else { result };
        }
    }
    ask(|own| {
        for one in &chosen {
            match own.requests.get_mut(one.handle).filter(|known| known.persistent.is_some()) {
                Some(persistent) => persistent.active = None,
                None => {
                    own.requests.remove(one.handle);
                    put_request(call, one.index, one.request);
                }
            }
        }
        Ok(())
    });
    result
}

/// Gives the statuses of requests that are complete, and leaves them.
fn look_at(call: &Hooked<'_>, kind: Kind, chosen: &[Chosen]) -> c_int {
    let mut result = 0;
    for (n, one) in chosen.iter().enumerate() {
        let status = status_of(call, kind, n);
        let mut flag: c_int = 0;
        let words = [one.request, &raw mut flag as usize, status as usize];
        // SAFETY: a request, an int, and a status of the program or none.
        let error = unsafe { mpi::call(table::MPI_Request_get_status, &words) };
        result = if result == 0 { error } else { result };
    }
    result
}

/// What was cancelled in the record was never posted. What was not must not be now.
fn cancel(call: Hooked<'_>) -> c_int {
    let handle = request_of(&call);
    let known = ask(|own| Ok(own.requests.get(handle).map(|known| (known.active, known.withheld))));
    match known {
        Some((Some(mut request), true)) => {
            // SAFETY: a request of our own.
            unsafe { mpi::call(table::MPI_Cancel, &[&raw mut request as usize]) }
        }
        Some(_) => 0,
        None => call.forward(),
    }
}

fn free(call: Hooked<'_>) -> c_int {
    let handle = request_of(&call);
    let known = ask(|own| Ok(own.requests.remove(handle)));
    if let Some(known) = known
        && let Some(mut request) = known.active
    {
        let place = &raw mut request as usize;
        // SAFETY: a request that is ours, or that the program lets go of.
        unsafe {
            if known.withheld {
                mpi::call(table::MPI_Cancel, &[place]);
            }
            let result = mpi::call(table::MPI_Request_free, &[place]);
            if known.persistent.is_none() {
                put_request(&call, 0, request);
                return result;
            }
        }
    }
    call.forward()
}

fn free_comm(call: Hooked<'_>) -> c_int {
    // SAFETY: the table says a communicator is there.
    let handle = unsafe { mpi::handle_at(call.word(call.role.comm) as *mut u8, 0) };
    let result = call.forward();
    if result == 0 {
        ask(|own| {
            own.comms.remove(handle);
            Ok(())
        });
    }
    result
}
