//! Bytes that each rank sends to each other rank, by iterating over all calls.

use refrain_reader::open;
use std::collections::BTreeMap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: message_matrix TRACE")?;
    let trace = open(path.as_ref())?.calls().ok_or("this file holds no calls")?;
    let mut sent: BTreeMap<(i32, u32), u64> = BTreeMap::new();
    for task in trace.tasks() {
        for call in task.calls()? {
            let call = call?;
            if let (Some(to), Some(bytes)) = (call.world_rank_in("dest"), call.bytes()) {
                *sent.entry((task.rank(), to)).or_default() += bytes;
            }
        }
    }
    for ((from, to), bytes) in sent {
        println!("{from} -> {to}: {bytes} bytes");
    }
    Ok(())
}
