//! What happens. A plot is a chain of stages; each stage has a few ways to be told, of which one is chosen, and each
//! way fits every way of the stages around it.

mod friends;
mod home;
mod outside;
mod seasons;

use super::Template;
use super::places::{Setting, Sky};

/// One kind of story.
pub(in super::super) struct Plot {
    pub(in super::super) setting: Setting,
    pub(in super::super) sky: Sky,
    /// How the hero may feel at the beginning.
    pub(in super::super) moods: &'static [&'static str],
    pub(in super::super) stages: &'static [&'static [Template]],
    /// Last sentences that fit where the stages end.
    pub(in super::super) endings: &'static [Template],
}

/// Every plot, in groups.
pub(in super::super) const PLOTS: &[&[Plot]] = &[friends::PLOTS, home::PLOTS, outside::PLOTS, seasons::PLOTS];
