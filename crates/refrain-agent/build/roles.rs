//! Functions that have to do with receive orders: what each is to them, and the text of what
//! stands between its wrapper and MPI.
//!
//! ```text
//! static ROLE_OF_MPI_IRECV: Role = Role { act: Act::Post, function: 187, source: 3, tag: 4, … };
//! pub unsafe extern "C-unwind" fn MPI_Irecv(a0: usize, a1: usize, …, a6: usize) -> c_int {
//!     order::call(&ROLE_OF_MPI_IRECV, &mut [a0, a1, …, a6])
//! }
//! ```
//!
//! Functions that programs call often have another one for recording, `recorded_MPI_Irecv`, which is
//! compiled for that role alone.
//!
//! Every argument is a word: C passes integers, handles and addresses in registers and places of
//! eight bytes, whatever their size, and what is above an `int` is noise in either case. So a
//! function and its `_c` variant have one form. Where the arguments are that matter is read from
//! the interface table, by their names.

use refrain_mpi::interface::{Function, functions, is_wrapped};
use std::fmt::Write;

/// What functions are to receive orders; see `order/role.rs`.
const ACTS: &[(&str, &str)] = &[
    ("MPI_Init", "Begin"),
    ("MPI_Init_thread", "Begin"),
    ("MPI_Finalize", "End"),
    ("MPI_Session_init", "Begin"),
    ("MPI_Session_finalize", "End"),
    ("MPI_Recv", "Receive(Kind::Recv)"),
    ("MPI_Sendrecv", "Receive(Kind::Sendrecv)"),
    ("MPI_Sendrecv_replace", "Receive(Kind::Sendrecv)"),
    ("MPI_Mrecv", "Receive(Kind::Mrecv)"),
    ("MPI_Irecv", "Post"),
    ("MPI_Isendrecv", "Post"),
    ("MPI_Isendrecv_replace", "Post"),
    ("MPI_Imrecv", "Post"),
    ("MPI_Recv_init", "Init"),
    ("MPI_Start", "Start"),
    ("MPI_Startall", "Start"),
    ("MPI_Probe", "Probe(Kind::Probe)"),
    ("MPI_Iprobe", "Probe(Kind::Iprobe)"),
    ("MPI_Mprobe", "Probe(Kind::Mprobe)"),
    ("MPI_Improbe", "Probe(Kind::Improbe)"),
    ("MPI_Wait", "Complete(Kind::Wait)"),
    ("MPI_Waitall", "Complete(Kind::Waitall)"),
    ("MPI_Waitany", "Complete(Kind::Waitany)"),
    ("MPI_Waitsome", "Complete(Kind::Waitsome)"),
    ("MPI_Test", "Complete(Kind::Test)"),
    ("MPI_Testall", "Complete(Kind::Testall)"),
    ("MPI_Testany", "Complete(Kind::Testany)"),
    ("MPI_Testsome", "Complete(Kind::Testsome)"),
    ("MPI_Request_get_status", "Complete(Kind::GetStatus)"),
    ("MPI_Request_get_status_all", "Complete(Kind::GetStatusAll)"),
    ("MPI_Request_get_status_any", "Complete(Kind::GetStatusAny)"),
    ("MPI_Request_get_status_some", "Complete(Kind::GetStatusSome)"),
    ("MPI_Parrived", "Arrive"),
    ("MPI_Cancel", "Cancel"),
    ("MPI_Request_free", "Free"),
    ("MPI_Grequest_start", "Generalized"),
    ("MPI_Send", "Send(Mode::Standard)"),
    ("MPI_Bsend", "Send(Mode::Buffered)"),
    ("MPI_Ssend", "Send(Mode::Synchronous)"),
    ("MPI_Rsend", "Send(Mode::Ready)"),
    ("MPI_Isend", "Send(Mode::Standard)"),
    ("MPI_Ibsend", "Send(Mode::Buffered)"),
    ("MPI_Issend", "Send(Mode::Synchronous)"),
    ("MPI_Irsend", "Send(Mode::Ready)"),
    ("MPI_Send_init", "InitSend"),
    ("MPI_Bsend_init", "InitSend"),
    ("MPI_Ssend_init", "InitSend"),
    ("MPI_Rsend_init", "InitSend"),
    ("MPI_Comm_free", "FreeComm"),
    ("MPI_Comm_disconnect", "FreeComm"),
];

/// Functions whose results depend on an order that is not kept. They are forwarded, and named at
/// the end.
const OUTSIDE: &[&str] = &[
    "MPI_Accumulate",
    "MPI_Raccumulate",
    "MPI_Get_accumulate",
    "MPI_Rget_accumulate",
    "MPI_Fetch_and_op",
    "MPI_Compare_and_swap",
    "MPI_Win_lock",
    "MPI_File_read_shared",
    "MPI_File_write_shared",
    "MPI_File_iread_shared",
    "MPI_File_iwrite_shared",
    "MPI_Comm_accept",
    "MPI_Comm_connect",
    "MPI_Comm_join",
    "MPI_Comm_spawn",
    "MPI_Comm_spawn_multiple",
];

/// Collective operations, blocking or not, and who hears of whom by them; see `order/role.rs`.
const MEETINGS: &[(&str, &str)] = &[
    ("barrier", "Everyone"),
    ("allgather", "Everyone"),
    ("allreduce", "Everyone"),
    ("alltoall", "Everyone"),
    ("allgatherv", "Some"),
    ("alltoallv", "Some"),
    ("alltoallw", "Some"),
    ("bcast", "Some"),
    ("exscan", "Some"),
    ("gather", "Some"),
    ("gatherv", "Some"),
    ("reduce", "Some"),
    ("reduce_scatter", "Some"),
    ("reduce_scatter_block", "Some"),
    ("scan", "Some"),
    ("scatter", "Some"),
    ("scatterv", "Some"),
    ("neighbor_allgather", "Some"),
    ("neighbor_allgatherv", "Some"),
    ("neighbor_alltoall", "Some"),
    ("neighbor_alltoallv", "Some"),
    ("neighbor_alltoallw", "Some"),
    ("win_create", "Some"),
    ("win_create_dynamic", "Some"),
    ("win_allocate", "Some"),
    ("win_allocate_shared", "Some"),
    ("file_open", "Some"),
];

/// Functions that make communicators: whether all of the old one take part, and whether others
/// do, too, who are in the new one.
const MAKERS: &[(&str, bool, bool)] = &[
    ("MPI_Comm_dup", true, false),
    ("MPI_Comm_dup_with_info", true, false),
    ("MPI_Comm_idup", true, false),
    ("MPI_Comm_idup_with_info", true, false),
    ("MPI_Comm_split", true, false),
    ("MPI_Comm_split_type", true, false),
    ("MPI_Comm_create", true, false),
    ("MPI_Comm_create_group", false, true),
    ("MPI_Comm_create_from_group", false, true),
    ("MPI_Cart_create", true, false),
    ("MPI_Cart_sub", true, false),
    ("MPI_Graph_create", true, false),
    ("MPI_Dist_graph_create", true, false),
    ("MPI_Dist_graph_create_adjacent", true, false),
    ("MPI_Intercomm_create", true, true),
    ("MPI_Intercomm_create_from_groups", false, true),
    ("MPI_Intercomm_merge", true, false),
];

/// Functions by which processes hear of each other, and clocks do not go along.
const UNMET: &[&str] = &[
    "MPI_Psend_init",
    "MPI_Precv_init",
    "MPI_Win_fence",
    "MPI_Win_free",
    "MPI_Win_start",
    "MPI_Win_complete",
    "MPI_Win_post",
    "MPI_Win_wait",
    "MPI_Win_test",
    "MPI_File_close",
];

/// What a collective function is, if it is one.
fn meeting(name: &str) -> Option<String> {
    if let Some((_, parent, new)) = MAKERS.iter().find(|(maker, ..)| *maker == name) {
        return Some(format!("MakeComm {{ parent: {parent}, new: {new} }}"));
    }
    let plain = name.strip_prefix("MPI_")?.to_lowercase();
    let is_io = plain.starts_with("file_")
        && ["_all", "_all_begin", "_all_end", "_ordered"].iter().any(|end| plain.ends_with(end));
    let find = |plain: &str| MEETINGS.iter().find(|(known, _)| *known == plain);
    let found = find(&plain).or_else(|| find(plain.strip_prefix('i')?));
    if let Some((_, what)) = found {
        return Some(format!("Meet(Meeting::{what})"));
    }
    let persistent = plain.strip_suffix("_init").and_then(find).is_some();
    (persistent || is_io || UNMET.contains(&name)).then(|| "Unmet".to_owned())
}

/// Functions that nothing ever stands in front of: they do not return, or take what is no word.
const PASSED_BY: &[&str] = &["MPI_Abort", "MPI_Pcontrol"];

/// The arguments that matter, and the names the table has for them.
const PLACES: &[(&str, &[&str])] = &[
    ("source", &["source"]),
    ("tag", &["recvtag", "tag"]),
    ("comm", &["comm", "comm_old", "local_comm", "intercomm"]),
    (
        "newcomm",
        &["newcomm", "newintercomm", "newintracomm", "comm_cart", "comm_graph", "comm_dist_graph"],
    ),
    ("message", &["message"]),
    ("dest", &["dest"]),
    ("sendtag", &["sendtag", "tag"]),
    ("request", &["request", "array_of_requests"]),
    ("count", &["count", "incount", "recvcount"]),
    ("status", &["status", "array_of_statuses"]),
    ("flag", &["flag"]),
    ("index", &["index", "array_of_indices"]),
    ("outcount", &["outcount"]),
];

/// As many arguments `order/mpi.rs` can pass.
const MOST_ARGUMENTS: usize = 13;

fn act(f: &Function) -> Option<String> {
    let name = if f.large { f.name.trim_end_matches("_c") } else { &f.name };
    let listed = ACTS.iter().find(|(function, _)| *function == name).map(|(_, act)| *act);
    let outside = OUTSIDE.contains(&name).then_some("Outside");
    // What is in between gives an `int`: what gives something else would be cut.
    let fits = f.returns_error() && f.params.len() <= MOST_ARGUMENTS && !PASSED_BY.contains(&name);
    let meeting = if fits { meeting(name) } else { None };
    let listed = listed.or(outside).map(str::to_owned).or(meeting);
    listed.or(fits.then(|| "Other".to_owned()))
}

/// Whether programs call what is that often, and recording it has to be quick.
fn is_frequent(act: &str) -> bool {
    ["Post", "Receive", "Probe", "Complete"].iter().any(|often| act.starts_with(often))
}

/// What stands between, and a function that finds it.
pub fn hooks() -> String {
    let mut text =
        "use crate::order::{self, Act, Kind, Meeting, Mode, Role};\nuse std::ffi::c_int;\n"
            .to_owned();
    let mut found = String::new();
    for (number, f) in functions().iter().enumerate() {
        let Some(act) = act(f).filter(|_| is_wrapped(&f.name)) else { continue };
        assert!(f.params.len() <= MOST_ARGUMENTS, "{}: see order/mpi.rs", f.name);
        assert!(f.returns_error(), "{} gives something else than an error", f.name);
        let place = |names: &[&str]| {
            let at = names.iter().find_map(|name| f.params.iter().position(|p| p.name == *name));
            at.map_or("Role::NOWHERE".to_owned(), |at| at.to_string())
        };
        let places: String =
            PLACES.iter().map(|(field, names)| format!("{field}: {}, ", place(names))).collect();
        let arguments: Vec<String> = (0..f.params.len()).map(|n| format!("a{n}")).collect();
        let words = arguments.join(", ");
        let parameters: String = arguments.iter().map(|a| format!("{a}: usize, ")).collect();
        let (name, upper, large) = (&f.name, f.name.to_uppercase(), f.large);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "
static ROLE_OF_{upper}: Role = Role {{ act: Act::{act}, function: {number}, large: {large}, {places} }};
pub unsafe extern \"C-unwind\" fn {name}({parameters}) -> c_int {{
    order::call(&ROLE_OF_{upper}, &mut [{words}])
}}
"
        );
        if is_frequent(&act) && !large {
            let _ = write!(
                text,
                "
unsafe extern \"C-unwind\" fn recorded_{name}({parameters}) -> c_int {{
    order::recorded(&ROLE_OF_{upper}, &mut [{words}])
}}
"
            );
            let _ =
                writeln!(found, "        {number} if recorded => recorded_{name} as *const (),");
        }
        // Of sends there is something to be said only where threads send at the same time; what may
        // wait for other ranks is noticed in a replay, for who waits in it.
        let blocks = f.params.iter().all(|p| p.name != "request");
        let guard = match act.as_str() {
            "Other" => " if replay",
            "Unmet" => " if replay || clock",
            "Generalized" => " if clock",
            _ if act.starts_with("Meet") || act.starts_with("Make") => " if replay || clock",
            _ if act.starts_with("Send") && blocks => " if shared || replay || clock",
            _ if act.starts_with("Send") || act == "InitSend" => " if shared || clock",
            _ => "",
        };
        let _ = writeln!(found, "        {number}{guard} => {name} as *const (),");
    }
    let _ = write!(
        text,
        "
/// What stands between the wrapper of a function and MPI; `shared` is whether threads call MPI at
/// the same time, `replay` whether this is a replay, `clock` whether messages carry clocks.
pub fn find(function: usize, shared: bool, replay: bool, clock: bool) -> Option<*const ()> {{
    let recorded = !replay && !clock;
    Some(match function {{
{found}        _ => return None,
    }})
}}
"
    );
    text
}
