//! Translates length rules into expressions of a wrapper.

use refrain_mpi::interface::{Direction, Function, Param};
use refrain_mpi::kind::Class;
use refrain_mpi::length::Length;

/// The length of a string that ends at its NUL.
pub const UNLIMITED: &str = "UNLIMITED";

/// The number of elements of an array or the limit of a string.
pub fn expression(f: &Function, p: &Param) -> String {
    p.length.as_ref().map_or(UNLIMITED.to_owned(), |rule| of_rule(f, p, rule))
}

fn of_rule(f: &Function, p: &Param, rule: &Length) -> String {
    let param = |name: &str| f.param(name).unwrap_or_else(|| panic!("{}: no {name}", f.name));
    match rule {
        Length::Param(name, times) => {
            let value = number(param(name), p);
            if *times == 1 { value } else { format!("{value}.saturating_mul({times})") }
        }
        Length::Limit(name) => format!("memory::limit({name:?})"),
        Length::Min(name, rule) => {
            format!("{}.min({})", number(param(name), p), of_rule(f, p, rule))
        }
        Length::Root(rule) => {
            format!("objects::at_root(root, comm, || {})", of_rule(f, p, rule))
        }
        Length::Sent(rule) => {
            format!("objects::unless_in_place(sendbuf, || {})", of_rule(f, p, rule))
        }
        // For argv the length only says whether the array is significant.
        Length::Argv => "0".to_owned(),
        Length::NulTerminated => UNLIMITED.to_owned(),
        Length::Of(what, names) => of_object(f, what, names),
    }
}

fn of_object(f: &Function, what: &str, names: &[String]) -> String {
    let first = names.first().map(String::as_str).unwrap_or_default();
    match what {
        // The length of the other array is needed, without its root condition, which also encloses
        // this rule.
        "sum" | "last" => {
            let other = f.param(first).unwrap_or_else(|| panic!("{}: no {first}", f.name));
            let length = match other.length.as_ref() {
                Some(Length::Root(rule)) => of_rule(f, other, rule),
                _ => expression(f, other),
            };
            format!("memory::{what}({first}, {length})")
        }
        _ => format!("objects::{what}({})", names.join(", ")),
    }
}

/// The value of a parameter that counts elements of `p`.
fn number(q: &Param, p: &Param) -> String {
    match q.direction {
        Direction::In => format!("memory::count({})", q.name),
        Direction::Out => format!("memory::count_at({})", q.name),
        // The capacity of a string is what the program passed, not what MPI returned. For an array,
        // MPI may return more elements than it had capacity for.
        Direction::InOut if p.class == Class::Str => format!("{}_before", q.name),
        Direction::InOut if p.direction == Direction::Out => {
            format!("{0}_before.min(memory::count_at({0}))", q.name)
        }
        Direction::InOut => format!("memory::count_at({})", q.name),
    }
}

/// Parameters whose value before the call is the capacity of a string or an array.
pub fn capacities(f: &Function) -> impl Iterator<Item = &Param> {
    f.params.iter().filter(|q| {
        let is_capacity = |p: &Param| {
            (p.class == Class::Str || p.direction == Direction::Out)
                && p.length.as_ref().is_some_and(|l| l.parameters().contains(&q.name))
        };
        q.direction == Direction::InOut && f.params.iter().any(is_capacity)
    })
}
