//! `refrain verify` of records of receive orders.

use crate::order_programs::Victim;
use refrain_testing::Mpi;

#[test]
fn verify_checks_a_record_of_either_method() {
    for mpi in Mpi::representatives() {
        for method in ["causal", "clock"] {
            let victim = Victim::new(&mpi, "completed_receives.c", &[]).on("4").by(method);
            victim.record("r.refrain").expect_success();
            let verified = victim.look(&["verify", "r.refrain", "--json"]).expect_success();
            let found: serde_json::Value = serde_json::from_str(&verified.stdout).expect("JSON");
            assert_eq!(found["ok"], true, "{verified}");
            assert_eq!((&found["ranks"], &found["method"]), (&4.into(), &method.into()));
            // Three ranks send 41 messages each, and rank 0 receives each from any source.
            assert_eq!(found["receives"], 123, "{verified}");
            assert_eq!(
                found["completions"],
                if method == "causal" { 123 } else { 0 },
                "{verified}"
            );
            let text = victim.look(&["verify", "r.refrain"]).expect_success();
            for words in ["every checksum right", "4 of 4 ranks", "123 ", "not checked: "] {
                assert!(text.stdout.contains(words), "{words}: {text}");
            }
            assert!(!text.stdout.contains("remark"), "{text}");
        }
    }
}

#[test]
fn verify_finds_every_damaged_byte_of_a_record() {
    let mpi = Mpi::any();
    for method in ["causal", "clock"] {
        let victim = Victim::new(&mpi, "completed_receives.c", &[]).on("2").by(method);
        victim.record("r.refrain").expect_success();
        let path = victim.folder.path().join("r.refrain");
        let bytes = std::fs::read(&path).expect("the record");
        for at in (0..bytes.len()).step_by(bytes.len() / 40) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            std::fs::write(victim.folder.path().join("d.refrain"), damaged).expect("written");
            let verified = victim.look(&["verify", "d.refrain"]);
            // One whose head is damaged is no file of Refrain.
            let is_found = verified.code == 125 || verified.stdout.contains("wrong: ");
            assert!(is_found && verified.code != 0, "byte {at}: {verified}");
        }
    }
}

#[test]
fn verify_says_why_a_record_is_truncated() {
    let mpi = Mpi::any();
    let victim = Victim::new(&mpi, "order_crash.c", &["1000"]);
    victim.record("r.refrain");
    let verified = victim.look(&["verify", "r.refrain"]).expect_success();
    assert!(verified.stdout.contains("did not reach MPI_Finalize"), "{verified}");
    let info = victim.look(&["info", "r.refrain"]).expect_success();
    assert!(info.stdout.contains("did not reach MPI_Finalize"), "{info}");
}
