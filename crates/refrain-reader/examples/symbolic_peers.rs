//! The destination of each send as a formula of the rank, without expanding a rank or a loop.

use refrain_reader::open;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: symbolic_peers TRACE")?;
    let trace = open(path.as_ref())?.calls().ok_or("this file holds no calls")?;
    for structure in trace.structures()? {
        let occurrences = structure.occurrences();
        for signature in structure.signatures() {
            for arguments in signature.variants() {
                let Some(dest) = arguments.arg("dest").and_then(|dest| dest.int()) else {
                    continue;
                };
                let (name, ranks) = (&signature.function.name, arguments.ranks);
                let times = occurrences[signature.number as usize];
                println!("ranks {ranks}: {times} x {name} to {dest}");
            }
        }
    }
    Ok(())
}
