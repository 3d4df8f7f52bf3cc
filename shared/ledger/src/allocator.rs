//! The allocator that measures: every block carries its owner, so that a free credits the ledger that paid.
//!
//! A program that wants measured bytes installs it:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;
//! ```
//!
//! # Layout of a block, and the invariant
//!
//! ```text
//! base (from System)          user pointer
//! |<------- offset ---------->|<------ layout.size() bytes ------>|
//! |    padding    | header 16 |
//! ```
//!
//! `offset = max(16, layout.align())`. For every pointer this allocator returned for a `layout`:
//!
//! 1. the block begins `offset` bytes before it and was got from `System` with `outer(layout)`;
//! 2. the 16 bytes before it hold an initialised [`Header`], written before the pointer is handed out and only read after;
//! 3. the pointer is aligned: the base is aligned to `max(16, align)`, and `offset` is a multiple of that.
//!
//! `offset` depends on the alignment alone. The alignment never changes in a reallocation, so the header stays where it
//! is and `System.realloc` carries it along. Nothing here allocates, blocks or panics.
#![allow(unsafe_code)]

use crate::Kind;
use crate::table::{current_slot, slot};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Set by the first allocation.
static COUNTING: AtomicBool = AtomicBool::new(false);

/// Whether this program installed [`CountingAllocator`]; if not, every measured figure is `None`.
pub fn is_counting() -> bool {
    // Before the program's first allocation the flag is not set: allocate one.
    COUNTING.load(Relaxed) || {
        drop(std::hint::black_box(Box::new(0u8)));
        COUNTING.load(Relaxed)
    }
}

/// The system's allocator, with each allocation charged to the current thread's ledger and kind.
///
/// Counted are the bytes asked for (`layout.size()`), neither the header nor what the system rounds up to. A
/// reallocation keeps owner and kind; old and new block are not counted twice while the system moves one to the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

/// Who pays for a block. 16 bytes, so that the user's pointer keeps the alignment that `malloc` gives.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Header {
    slot: u16,
    kind: Kind,
}

/// Bytes between the base of the block and the user's pointer.
const fn offset(align: usize) -> usize {
    if align > size_of::<Header>() { align } else { size_of::<Header>() }
}

/// What is asked of the system: offset and `size` bytes. `None` if that is more than an address space holds.
fn outer(size: usize, align: usize) -> Option<Layout> {
    let align = align.max(align_of::<Header>());
    Layout::from_size_align(size.checked_add(offset(align))?, align).ok()
}

/// Writes the header of a fresh block and charges it; returns the user's pointer.
///
/// # Safety
/// `base` is null, or a block got from `System` with `outer(layout.size(), layout.align())`.
unsafe fn open(base: *mut u8, layout: Layout) -> *mut u8 {
    if base.is_null() {
        return base;
    }
    if !COUNTING.load(Relaxed) {
        COUNTING.store(true, Relaxed);
    }
    let header = Header { slot: current_slot(), kind: Kind::current() };
    slot(header.slot).charge(header.kind, layout.size() as u64);
    // SAFETY: the block is `offset` bytes longer than the user's part, `offset` is at least a header, and both base and
    // offset are multiples of 16, so the header is in bounds and aligned.
    unsafe {
        let pointer = base.add(offset(layout.align()));
        pointer.cast::<Header>().sub(1).write(header);
        pointer
    }
}

// SAFETY: every pointer returned is in a live block of `System` with room for `layout` behind it and its alignment (see the
// invariant above); the methods neither unwind nor allocate through the global allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match outer(layout.size(), layout.align()) {
            // SAFETY: the outer layout is never of size zero; the block is as `open` wants it.
            Some(outer) => unsafe { open(System.alloc(outer), layout) },
            None => std::ptr::null_mut(),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match outer(layout.size(), layout.align()) {
            // SAFETY: as in `alloc`; the header is written over zeros outside of the user's part.
            Some(outer) => unsafe { open(System.alloc_zeroed(outer), layout) },
            None => std::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller got `pointer` from this allocator with this `layout`, so 1. and 2. of the invariant hold, and
        // the outer layout is the same as at the allocation.
        unsafe {
            let header = pointer.cast::<Header>().sub(1).read();
            slot(header.slot).credit(header.kind, layout.size() as u64);
            if let Some(outer) = outer(layout.size(), layout.align()) {
                System.dealloc(pointer.sub(offset(layout.align())), outer);
            }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let (Some(old), Some(new)) = (outer(layout.size(), layout.align()), outer(new_size, layout.align())) else {
            return std::ptr::null_mut();
        };
        // SAFETY: as in `dealloc`; `new.size()` is not zero and was checked against overflow. `System.realloc` keeps the
        // first bytes of the block, the header among them, at the same offset (the alignment does not change).
        unsafe {
            let header = pointer.cast::<Header>().sub(1).read();
            let base = System.realloc(pointer.sub(offset(layout.align())), old, new.size());
            if base.is_null() {
                return base;
            }
            if new_size > layout.size() {
                slot(header.slot).charge(header.kind, (new_size - layout.size()) as u64);
            } else {
                slot(header.slot).credit(header.kind, (layout.size() - new_size) as u64);
            }
            base.add(offset(layout.align()))
        }
    }
}
