//! Findings as SARIF 2.1.0, the exchange format for results of static and dynamic analysis.

use super::report::{Outcome, PlaceRow, Row};
use crate::select::ranks_in_words;
use anyhow::Result;
use refrain_check::Class;
use serde_json::{Value as Json, json};

/// The findings as a SARIF log with one run.
pub fn as_sarif(outcome: &Outcome) -> Result<String> {
    let rules: Vec<Json> = Class::ALL
        .into_iter()
        .map(|class| {
            json!({
                "id": class.name(),
                "help": { "text": class.remedy() },
                "defaultConfiguration": { "level": class.severity().name() },
            })
        })
        .collect();
    let results: Vec<Json> = outcome.findings.iter().map(result).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "refrain check",
                    "version": env!("CARGO_PKG_VERSION"),
                    "rules": rules,
                },
            },
            "results": results,
        }],
    });
    Ok(serde_json::to_string_pretty(&log)?)
}

fn result(row: &Row) -> Json {
    let text = format!("{} ({}) {}", row.message, ranks_in_words(&row.ranks), row.remedy);
    let mut located = row.places.iter().filter_map(location);
    let first: Vec<Json> = located.next().into_iter().collect();
    let others: Vec<Json> = located.collect();
    json!({
        "ruleId": row.class,
        "level": row.severity,
        "message": { "text": text },
        "locations": first,
        "relatedLocations": others,
        "occurrenceCount": row.times,
    })
}

fn location(place: &PlaceRow) -> Option<Json> {
    let (file, line) = (place.file.as_ref()?, place.line?);
    let uri = match file.starts_with('/') {
        true => format!("file://{file}"),
        false => file.clone(),
    };
    Some(json!({
        "physicalLocation": {
            "artifactLocation": { "uri": uri },
            "region": { "startLine": line },
        },
        "message": { "text": format!("rank {} #{} {}", place.rank, place.call, place.function) },
    }))
}
