//! A short description of a call: function, peer, tag and communicator.

use crate::matching::Side;
use crate::objects::CallNames;
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use refrain_mpi::names::constant_name;
use refrain_reader::{Call, Value};

/// Describes one side of a call: `MPI_Recv, source=1, tag=0`.
pub(super) fn words(call: &Call, names: &CallNames, side: Side) -> String {
    let int = |name: &str| match call.input(name) {
        Some(Value::Int(n)) => Some(*n),
        _ => None,
    };
    let mut words = call.name().to_owned();
    let is_world = call.predefined("comm") == Some("MPI_COMM_WORLD");
    let shown: &[&str] = match side {
        Side::Send => &["dest", "tag", "sendtag", "root"],
        Side::Receive | Side::Whole => &["source", "tag", "recvtag", "root"],
        Side::Target => &["rank", "root"],
    };
    for name in shown {
        let Some(value) = int(name) else { continue };
        let group = if name.ends_with("tag") { "tag" } else { "rank" };
        let shown = match constant_name(call.layout().family, group, value) {
            Some(constant) => constant.to_owned(),
            None => value.to_string(),
        };
        words += &format!(", {name}={shown}");
        if let Some(rank) = call.world_rank_in(name).filter(|_| group == "rank" && !is_world) {
            words += &format!(" (rank {rank})");
        }
    }
    for (i, p) in call.function().params.iter().enumerate() {
        let is_scope = matches!(p.reads_as.as_str(), "comm" | "win" | "file");
        if p.class == Class::Handle && is_scope && p.direction != Direction::Out {
            let name = names.before.get(i).and_then(|names| names.first());
            // For messages, MPI_COMM_WORLD is the default and not mentioned.
            let is_mentioned = |name: &&String| *name != "MPI_COMM_WORLD" || side == Side::Whole;
            if let Some(name) = name.filter(is_mentioned) {
                words += &format!(", {}={name}", p.name);
            }
            break;
        }
    }
    words
}
