//! What the stories are made of. Only data: how it is put together stands in `grammar` and `world`.
//!
//! A **template** is text with two kinds of holes:
//! - `[one|two|three]` is a choice, which may be empty or hold further holes;
//! - `{slot}` is filled from the state of the story; the slots are listed at `World::fill`.

pub(super) mod characters;
pub(super) mod openings;
pub(super) mod places;
pub(super) mod plots;
pub(super) mod things;

/// Text with holes.
pub(super) type Template = &'static str;
