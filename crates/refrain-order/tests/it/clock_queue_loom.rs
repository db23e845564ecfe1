//! The queue under all orders of memory accesses that the language allows: `scripts/loom.sh`.

use loom::sync::Arc;
use loom::thread;
use refrain_order::clock::queue::{Refused, queue};

/// One side offers elements to a queue of this capacity, the other polls it. Neither side waits, or there would be
/// infinitely many orders; a refused element is offered again later.
fn pass_elements(capacity: usize, offers: usize, polls: usize) {
    loom::model(move || {
        let (mut sender, mut receiver) = queue(capacity);
        let sending = thread::spawn(move || {
            let mut put = 0;
            for _ in 0..offers {
                match sender.offer(Box::new(put)) {
                    Ok(()) => put += 1,
                    Err(Refused::Full(back)) => assert_eq!(*back, put),
                    Err(Refused::Closed(_)) => panic!("there is a receiver"),
                }
            }
            put
        });
        let mut taken = 0;
        for _ in 0..polls {
            if let Some(number) = receiver.poll() {
                assert_eq!(*number, taken);
                taken += 1;
            } else if receiver.is_over() {
                // No element appears after the end.
                assert!(receiver.poll().is_none());
            }
        }
        let put = sending.join().unwrap();
        while let Some(number) = receiver.poll() {
            assert_eq!(*number, taken);
            taken += 1;
        }
        assert_eq!(taken, put);
        assert!(receiver.is_over());
        assert!(put >= capacity.min(offers));
    });
}

#[test]
fn nothing_is_lost_or_reordered_in_a_queue_of_one() {
    pass_elements(1, 4, 3);
}

#[test]
fn nothing_is_lost_or_reordered_in_a_queue_of_two() {
    pass_elements(2, 5, 3);
}

#[test]
fn elements_that_are_never_taken_are_dropped_once() {
    loom::model(|| {
        let counted = Arc::new(());
        let (mut sender, mut receiver) = queue(2);
        let element = counted.clone();
        let sending = thread::spawn(move || {
            for _ in 0..2 {
                let _ = sender.offer(element.clone());
            }
        });
        drop(receiver.poll());
        drop(receiver);
        sending.join().unwrap();
        assert_eq!(Arc::strong_count(&counted), 1);
    });
}
