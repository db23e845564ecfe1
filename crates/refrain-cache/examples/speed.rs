//! What `make cache` measures, without building everything else: `cargo run --release -p refrain-cache --example
//! speed [irregular | sizes…]`.

#[path = "../../../bench/src/cache.rs"]
mod cache;

/// A measured figure with its bound.
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// The measurements behind it, in words.
    pub detail: String,
    /// The figure.
    pub value: f64,
    /// The most that it may be.
    pub bound: f64,
    /// Its unit.
    pub unit: &'static str,
}

fn main() {
    let sizes: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let is_irregular = std::env::args().nth(1).is_some_and(|word| word == "irregular");
    let sizes = if sizes.is_empty() && !is_irregular { vec![100, 300] } else { sizes };
    let (_, figures) = cache::measure(&sizes);
    for Figure { name, detail, value, bound, unit } in figures {
        println!("{name}: {value:.3} {unit} (at most {bound} {unit}; {detail})");
    }
}
