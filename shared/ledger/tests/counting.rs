//! Measured bytes, with the allocator installed as a program installs it. Every test works in a ledger of its own, so that
//! tests may run side by side.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code)]

use ledger::{All, CountingAllocator, Counts, Error, Kind, Ledger, Limit, Observer, Operation, Phase, Record, scope};
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;
use std::sync::{Arc, mpsc};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A block of exactly `bytes` bytes.
fn block(bytes: usize) -> Box<[u8]> {
    black_box(vec![1u8; bytes].into_boxed_slice())
}

/// Now and peak of one kind.
fn figures(ledger: &Ledger, kind: Kind) -> (u64, u64) {
    (ledger.current(kind).unwrap(), ledger.peak(kind).unwrap())
}

fn operation(name: &'static str) -> Operation {
    Operation { name, label: "w".into(), phase: Phase::Forward, shape: vec![2, 3], flops: 12, bytes: 7 }
}

/// splitmix64: fresh inputs from a seed that is printed.
struct Generator(u64);

impl Generator {
    fn fresh() -> Self {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Self(time.as_nanos() as u64)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

#[test]
fn the_program_knows_that_it_counts() {
    assert!(ledger::is_counting());
    assert!(Ledger::main().current(Kind::Host).unwrap() > 0, "the test harness itself holds bytes");
    assert_eq!(Ledger::main().name(), "main");
}

#[test]
fn bytes_are_counted_by_kind_exactly_and_host_is_not_on_the_device() {
    let ledger = Ledger::claim("kinds").unwrap();
    let _entered = ledger.enter();
    let mut held = Vec::new();
    {
        let _host = scope(Kind::Host);
        held.reserve_exact(Kind::ALL.len());
    }
    let host_before = ledger.current(Kind::Host).unwrap();
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        let _scope = scope(kind);
        held.push(block(1000 + index));
    }
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        let expected = 1000 + index as u64 + if kind == Kind::Host { host_before } else { 0 };
        assert_eq!(ledger.current(kind), Some(expected), "{kind}");
    }
    assert_eq!(ledger.device_current(), Some((0..7).map(|index| 1000 + index).sum()), "all kinds but host");
    drop(held);
    for kind in Kind::ALL {
        assert_eq!(ledger.current(kind), Some(0), "{kind}");
    }
}

#[test]
fn kinds_and_ledgers_nest_and_come_back() {
    let [outer, inner] = ["outer", "inner"].map(|name| Ledger::claim(name).unwrap());
    let _outer = outer.enter();
    let _weights = scope(Kind::Weights);
    let a = block(10);
    {
        let _inner = inner.enter();
        let _cache = scope(Kind::KvCache);
        let b = block(20);
        {
            let _again = outer.enter();
            assert_eq!(Ledger::of_this_thread(), outer);
            let c = block(30);
            assert_eq!(outer.current(Kind::KvCache), Some(30));
            drop(c);
        }
        assert_eq!(inner.current(Kind::KvCache), Some(20));
        drop((a, b));
    }
    assert_eq!(Ledger::of_this_thread(), outer);
    assert_eq!(Kind::current(), Kind::Weights);
    assert_eq!(
        figures(&outer, Kind::Weights),
        (0, 10),
        "freed inside of another ledger and kind, credited to its owner"
    );
    assert_eq!(figures(&inner, Kind::KvCache), (0, 20));
}

#[test]
fn a_free_on_another_thread_credits_the_ledger_that_allocated() {
    let [giver, taker] = ["giver", "taker"].map(|name| Ledger::claim(name).unwrap());
    let (send, receive) = mpsc::channel::<Box<[u8]>>();
    std::thread::scope(|threads| {
        let (giver, taker) = (&giver, &taker);
        threads.spawn(move || {
            let _entered = taker.enter();
            // Outside of the scope: a thread that has to wait for a channel keeps some bytes for the next time.
            let blocks: Vec<_> = receive.iter().collect();
            let _scope = scope(Kind::Workspace);
            let mine = block(5000);
            assert_eq!(giver.current(Kind::Weights), Some(300), "handing over changes nothing");
            drop(blocks);
            assert_eq!(giver.current(Kind::Weights), Some(0));
            assert!(taker.current(Kind::Workspace).unwrap() >= 5000, "the taker's own block is untouched");
            drop(mine);
        });
        let _entered = giver.enter();
        for bytes in [100, 200] {
            let made = {
                let _scope = scope(Kind::Weights);
                block(bytes)
            };
            send.send(made).unwrap();
        }
        drop(send);
    });
    assert_eq!(figures(&giver, Kind::Weights), (0, 300));
    assert_eq!(taker.current(Kind::Workspace), Some(0));
}

#[test]
fn a_growing_vector_keeps_its_owner_and_kind() {
    let [owner, other] = ["owner", "other"].map(|name| Ledger::claim(name).unwrap());
    let mut vector: Vec<u64> = {
        let (_entered, _scope) = (owner.enter(), scope(Kind::KvCache));
        Vec::with_capacity(1)
    };
    let (_entered, _scope) = (other.enter(), scope(Kind::Weights));
    for value in 0..10_000 {
        vector.push(value);
    }
    assert_eq!(owner.current(Kind::KvCache), Some(8 * vector.capacity() as u64));
    assert_eq!(other.device_peak(), Some(0));
    vector.truncate(17);
    vector.shrink_to_fit();
    assert_eq!(owner.current(Kind::KvCache), Some(8 * vector.capacity() as u64));
    assert!(vector.iter().copied().eq(0..17), "the values came along");
}

#[test]
fn any_size_and_alignment_is_aligned_zeroed_when_asked_and_survives_reallocation() {
    let ledger = Ledger::claim("layouts").unwrap();
    let _entered = ledger.enter();
    let mut random = Generator::fresh();
    let seed = random.0;
    let mut largest = 0;
    for round in 0..600 {
        let align = 1usize << random.below(14);
        let [size, new_size] =
            [0; 2].map(|_: u8| 1 + random.below(if round % 50 == 0 { 3_000_000 } else { 5000 }) as usize);
        let layout = Layout::from_size_align(size, align).unwrap();
        let what = format!("seed {seed}, round {round}: {size} -> {new_size} bytes aligned to {align}");
        largest = largest.max(size.max(new_size) as u64);
        let zeroed = random.below(2) == 0;
        let scope = scope(Kind::Workspace);
        // SAFETY: sizes are not zero; reads and writes stay inside of the block; the layout is the one of the block.
        unsafe {
            let pointer = if zeroed { alloc_zeroed(layout) } else { alloc(layout) };
            drop(scope);
            assert!(!pointer.is_null() && pointer.addr().is_multiple_of(align), "{what}");
            let bytes = std::slice::from_raw_parts_mut(pointer, size);
            assert!(!zeroed || bytes.iter().all(|&byte| byte == 0), "{what}: not zero");
            bytes.iter_mut().enumerate().for_each(|(index, byte)| *byte = index as u8);
            assert_eq!(ledger.current(Kind::Workspace), Some(size as u64), "{what}");
            let pointer = realloc(pointer, layout, new_size);
            assert!(!pointer.is_null() && pointer.addr().is_multiple_of(align), "{what}: after realloc");
            assert_eq!(ledger.current(Kind::Workspace), Some(new_size as u64), "{what}: after realloc");
            let kept = std::slice::from_raw_parts(pointer, size.min(new_size));
            assert!(kept.iter().enumerate().all(|(index, &byte)| byte == index as u8), "{what}: values lost");
            dealloc(pointer, Layout::from_size_align(new_size, align).unwrap());
        }
        assert_eq!(ledger.current(Kind::Workspace), Some(0), "{what}: freed");
    }
    assert_eq!(ledger.peak(Kind::Workspace), Some(largest), "seed {seed}: the peak is the largest single block");
}

#[test]
fn what_the_system_refuses_is_not_counted() {
    let ledger = Ledger::claim("refused").unwrap();
    let (_entered, _scope) = (ledger.enter(), scope(Kind::Weights));
    let huge = Layout::from_size_align(isize::MAX as usize - 7, 8).unwrap();
    let small = Layout::from_size_align(64, 8).unwrap();
    // SAFETY: the layouts are not of size zero; a refused reallocation leaves the block as it was.
    unsafe {
        // The compiler may leave out an allocation that nobody looks at.
        assert!(black_box(alloc(huge)).is_null());
        assert!(black_box(alloc_zeroed(huge)).is_null());
        let pointer = alloc(small);
        assert!(black_box(realloc(pointer, small, huge.size())).is_null());
        assert_eq!(figures(&ledger, Kind::Weights), (64, 64));
        dealloc(pointer, small);
    }
    assert_eq!(ledger.device_current(), Some(0));
}

#[test]
fn the_device_peak_is_the_peak_of_the_sum_and_starts_again_on_request() {
    let ledger = Ledger::claim("peaks").unwrap();
    let _entered = ledger.enter();
    let of = |kind, bytes| {
        let _scope = scope(kind);
        block(bytes)
    };
    let weights = of(Kind::Weights, 1000);
    drop(of(Kind::Activations, 500));
    drop(of(Kind::Workspace, 700));
    let snapshot = ledger.snapshot().unwrap();
    assert_eq!((snapshot.device().current, snapshot.device().peak), (1000, 1700), "500 and 700 were not held at once");
    assert_eq!(snapshot.of(Kind::Activations).peak, 500);
    ledger.reset_peaks();
    assert_eq!(ledger.device_peak(), Some(1000));
    assert_eq!(figures(&ledger, Kind::Activations), (0, 0));
    drop(weights);
    assert_eq!((ledger.device_current(), ledger.device_peak()), (Some(0), Some(1000)));
}

#[test]
fn a_temporary_above_the_limit_is_caught_once_and_named() {
    let ledger = Ledger::claim("rank 3").unwrap();
    let _entered = ledger.enter();
    drop({
        let _scope = scope(Kind::Activations);
        block(9000)
    });
    ledger.set_limit(Some(5000)).unwrap();
    ledger.check().expect("what was held before the limit does not count");
    let weights = {
        let _scope = scope(Kind::Weights);
        block(5000)
    };
    ledger.check().expect("exactly full is not over");
    drop({
        let _host = scope(Kind::Host);
        block(100_000)
    });
    ledger.check().expect("host bytes are not on the device");
    drop({
        let _scope = scope(Kind::Activations);
        block(1)
    });
    let error = Limit.observe(&operation("linear")).unwrap_err();
    let message = error.to_string();
    let Error::OutOfMemory { who, limit, held, snapshot } = error else { panic!("{message}") };
    assert_eq!((who.as_str(), limit, held, snapshot.device().current), ("rank 3", 5000, 5001, 5000));
    for part in ["rank 3", "5001 bytes", "5000 bytes", "weights", "activations", "--device-memory"] {
        assert!(message.contains(part), "{part} is missing:\n{message}");
    }
    ledger.check().expect("the temporary is gone and was reported");
    assert_eq!(ledger.device_peak(), Some(9000), "checking does not forget the peak");
    ledger.set_limit(Some(4999)).unwrap();
    assert!(ledger.check().is_err(), "what is held counts from the first check on");
    ledger.set_limit(None).unwrap();
    ledger.check().unwrap();
    drop(weights);
}

#[test]
fn a_place_is_not_used_again_while_a_byte_is_held() {
    let first = Ledger::claim("first").unwrap();
    let late = {
        let (_entered, _scope) = (first.enter(), scope(Kind::KvCache));
        block(123)
    };
    drop(first);
    // Free places are taken from the front: the first ledger's would be among these.
    let others: Vec<_> = (0..50).map(|_| Ledger::claim("other").unwrap()).collect();
    for (index, other) in others.iter().enumerate() {
        assert_eq!(figures(other, Kind::KvCache), (0, 0), "claim {index} got a place that still holds bytes");
        assert!(others[..index].iter().all(|earlier| earlier != other), "claim {index} got a place that is taken");
    }
    drop(late);
    assert!(others.iter().all(|other| other.current(Kind::KvCache) == Some(0)), "the late free credited a stranger");
}

#[test]
fn ranks_can_come_and_go_more_often_than_there_are_places() {
    for round in 0..5000 {
        let ledger = Ledger::claim("short-lived").unwrap_or_else(|error| panic!("round {round}: {error}"));
        let (_entered, _scope) = (ledger.enter(), scope(Kind::Weights));
        assert_eq!(ledger.device_peak(), Some(0), "round {round}: a new ledger is empty");
        assert_eq!(ledger.limit(), None, "round {round}: a new ledger has no limit");
        ledger.set_limit(Some(1)).unwrap();
        drop(block(round + 1));
    }
}

#[test]
fn many_threads_at_once_end_at_zero() {
    let ledgers: Vec<_> = (0..4).map(|rank| Ledger::claim(&format!("rank {rank}")).unwrap()).collect();
    let seed = Generator::fresh().0;
    std::thread::scope(|threads| {
        let (send, receive) = mpsc::channel::<Vec<u32>>();
        for (rank, ledger) in ledgers.iter().enumerate() {
            let send = send.clone();
            threads.spawn(move || {
                let (_entered, _scope) = (ledger.enter(), scope(Kind::Communication));
                let mut random = Generator(seed + rank as u64);
                for _ in 0..500 {
                    let mut values = vec![rank as u32; 1 + random.below(300) as usize];
                    values.extend_from_within(..);
                    if random.below(2) == 0 {
                        send.send(values).unwrap();
                    }
                }
            });
        }
        drop(send);
        threads.spawn(move || receive.iter().for_each(drop));
    });
    for ledger in &ledgers {
        assert_eq!(ledger.current(Kind::Communication), Some(0), "seed {seed}, {}", ledger.name());
        assert!(ledger.peak(Kind::Communication).unwrap() > 0, "seed {seed}, {}", ledger.name());
    }
}

#[test]
fn combined_observers_all_hear_everything_and_the_first_objection_counts() {
    let ledger = Ledger::claim("observed").unwrap();
    let _entered = ledger.enter();
    let (counts, record) = (Arc::new(Counts::default()), Arc::new(Record::default()));
    let all = All(vec![counts.clone(), Arc::new(Limit), record.clone()]);
    all.observe(&operation("linear")).unwrap();
    let _scope = scope(Kind::Activations);
    ledger.set_limit(Some(0)).unwrap();
    let before = ledger.device_current();
    let second = operation("softmax");
    let activations = block(1);
    assert!(matches!(all.observe(&second), Err(Error::OutOfMemory { .. })));
    assert_eq!((counts.operations(), counts.flops(), counts.bytes()), (2, 24, 14));
    let names: Vec<_> = record.take().into_iter().map(|operation| operation.name).collect();
    assert_eq!(names, ["linear", "softmax"], "also heard after the objection");
    assert!(record.operations().is_empty());
    drop((activations, second, names));
    assert_eq!(ledger.device_current(), before, "what observers keep is the host's");
}
