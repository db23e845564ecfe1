//! Spilling sealed grammars does not change the trace.

use refrain_encode::task::Task;
use refrain_signature::cells::Cells;

/// Calls that hardly repeat, so that some grammars are sealed.
fn long_task(calls: u32, mut then: impl FnMut(&mut Task)) -> Task {
    let mut task = Task::default();
    let mut state = 1u32;
    for _ in 0..calls {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let kind = (state >> 20) as u16 % 512;
        let signature = task.signature(7, &kind.to_le_bytes(), b"outcome").expect("room");
        task.emit(signature, b"outcome", 0);
        then(&mut task);
    }
    task
}

#[test]
fn spilled_and_loaded_grammars_are_unchanged() {
    let calls = 400_000;
    let in_memory = long_task(calls, |_| {});
    assert!(in_memory.grammars().len() > 2, "nothing was sealed: this test would show nothing");

    let mut file = Vec::new();
    let mut most = 0;
    let mut task = long_task(calls, |task| {
        let put = |sealed: &mut refrain_encode::sealed::Sealed| {
            sealed.spill(&mut |bytes| {
                file.extend_from_slice(bytes);
                Some((file.len() - bytes.len()) as u64)
            })
        };
        assert!(task.sealed_mut().all(put));
        most = most.max(task.sealed_memory());
    });
    assert_eq!(most, 0);
    assert!(task.grammars().len() < in_memory.grammars().len());

    // A killed process leaves a state with the positions of the spilled bytes.
    let mut state = Vec::new();
    task.put(&mut state);
    task = Task::get(&mut Cells::new(&state)).expect("a state");
    let fetch = &mut |at: u64, length: u64| {
        file.get(at as usize..).and_then(|rest| rest.get(..length as usize)).map(<[u8]>::to_vec)
    };
    assert!(task.sealed_mut().all(|sealed| sealed.load(fetch)));
    assert_eq!(task.grammars(), in_memory.grammars());
}

#[test]
fn sealed_grammars_that_cannot_be_stored_stay_in_memory() {
    let mut task = long_task(300_000, |_| {});
    let held = task.sealed_memory();
    assert!(held > 0);
    assert!(!task.sealed_mut().all(|sealed| sealed.spill(&mut |_| None)));
    assert_eq!(task.sealed_memory(), held);
}
