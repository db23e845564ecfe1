//! Names of C: types, variables, constants.

use refrain_mpi::abi::Family;
use refrain_mpi::names::{constant_name, mask_names};

/// The C type of a kind of handles.
pub fn handle_type(kind: &str) -> &'static str {
    match kind {
        "comm" => "MPI_Comm",
        "datatype" => "MPI_Datatype",
        "group" => "MPI_Group",
        "win" => "MPI_Win",
        "file" => "MPI_File",
        "session" => "MPI_Session",
        "request" => "MPI_Request",
        "message" => "MPI_Message",
        "info" => "MPI_Info",
        "op" => "MPI_Op",
        "errhandler" => "MPI_Errhandler",
        _ => "void *",
    }
}

/// The array of the handles of a kind that a thread made.
pub fn handle_array(kind: &str, thread: u32) -> String {
    let name = match kind {
        "datatype" => "type",
        "errhandler" => "handler",
        kind => kind,
    };
    of_thread(name, thread)
}

/// The name of something of which each thread has its own.
pub fn of_thread(name: &str, thread: u32) -> String {
    match thread {
        0 => name.to_owned(),
        thread => format!("{name}_{thread}"),
    }
}

/// The C type of the handles of the tools interface, and of other addresses that MPI returns.
pub fn address_type(kind: &str) -> &'static str {
    match kind {
        "CVAR" => "MPI_T_cvar_handle",
        "PVAR" => "MPI_T_pvar_handle",
        "PVAR_SESSION" => "MPI_T_pvar_session",
        "TOOLS_ENUM" => "MPI_T_enum",
        "EVENT_REGISTRATION" => "MPI_T_event_registration",
        "EVENT_INSTANCE" => "MPI_T_event_instance",
        _ => "void *",
    }
}

/// The name of a number of a group of constants.
pub fn number(family: Family, group: &str, value: i64) -> Option<String> {
    match group {
        "number" | "bool" | "limit" => None,
        "amode" | "assert" => {
            let text = mask_names(family, group, value);
            (value != 0 && !text.contains("0x")).then(|| text.replace('|', " | "))
        }
        _ => {
            let name = constant_name(family, group, value)?;
            let is_standard = name.starts_with("MPI_");
            is_standard.then(|| name.to_owned())
        }
    }
}

/// A text as a C literal.
pub fn text(bytes: &[u8]) -> String {
    let mut literal = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' => literal.push_str("\\\""),
            b'\\' => literal.push_str("\\\\"),
            b'\n' => literal.push_str("\\n"),
            b'?' => literal.push_str("\\?"),
            b' '..=b'~' => literal.push(char::from(*byte)),
            byte => literal.push_str(&format!("\\{byte:03o}")),
        }
    }
    literal.push('"');
    literal
}
