//! Symbolic arguments say what decoding a rank says, for every signature of every golden file.

use crate::traces;
use refrain_reader::{Arg, Value};
use refrain_signature::args::Args;

#[test]
fn arguments_of_a_rank_are_those_that_are_decoded() {
    let (mut numbers, mut over_ranks) = (0, 0);
    for trace in traces() {
        let merged = trace.structure().expect("a structure");
        for (structure, group) in trace.structures().expect("structures").zip(&merged.groups) {
            for rank in structure.ranks().iter().take(5) {
                let rows: Vec<_> = (0..structure.len()).map(|row| (rank, row)).collect();
                let events = trace.samples(group, &rows).expect("samples");
                for (signature, event) in structure.signatures().zip(events) {
                    let mut variants = signature.variants();
                    let arguments = variants.find(|a| a.ranks.contains(rank)).expect("a variant");
                    let mut before = Vec::new();
                    for (param, p) in event.function.params.iter().enumerate() {
                        let input = event.inputs[param].as_ref();
                        match (arguments.arg(&p.name), input) {
                            (Some(Arg::Int(num)), Some(Value::Int(n))) => {
                                assert_eq!(
                                    num.on(rank),
                                    Some(*n),
                                    "{} {}",
                                    event.function.name,
                                    p.name
                                );
                                numbers += 1;
                                over_ranks += usize::from(num.constant().is_none());
                            }
                            (
                                Some(Arg::Address { offset, .. }),
                                Some(Value::Location { offset: o, .. }),
                            ) => {
                                assert_eq!(offset.on(rank), Some(*o), "{}", event.function.name);
                            }
                            (Some(Arg::Numbers(array)), Some(Value::List(list))) => {
                                let elements = array.on(rank, &before).expect("elements");
                                let list: Vec<i64> = list.iter().map(Value::as_result).collect();
                                assert_eq!(elements, list, "{}", event.function.name);
                                before = elements;
                            }
                            (None, Some(value)) => {
                                let is_status =
                                    matches!(value, Value::Status { .. } | Value::Unset);
                                assert!(is_status, "{} {}: {value:?}", event.function.name, p.name);
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
    }
    assert!(numbers > 100 && over_ranks > 0, "{numbers} numbers, {over_ranks} over ranks");
}

#[test]
fn typed_arguments_give_their_cells_back() {
    let mut signatures = 0;
    for trace in traces() {
        let functions = trace.function_table().expect("functions");
        for group in &trace.structure().expect("a structure").groups {
            for row in &group.rows {
                let function =
                    functions.get(row.head().expect("a head").function).expect("a function");
                for rank in group.ranks.iter().take(5) {
                    let cells = row.cells.cells(rank).expect("cells");
                    let args = Args::read(&function.plan, functions.kinds(), &cells);
                    let args =
                        args.unwrap_or_else(|| panic!("{} does not read", function.def.name));
                    let mut again = Vec::new();
                    args.put(&mut again);
                    assert!(args.is_whole && again == *cells, "{}", function.def.name);
                    signatures += 1;
                }
            }
        }
    }
    assert!(signatures > 100, "{signatures}");
}
