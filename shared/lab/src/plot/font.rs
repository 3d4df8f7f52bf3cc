//! The embedded font.

use plotters::style::{FontStyle, register_font};
use std::sync::OnceLock;

/// The family under which the font is registered; in an SVG, the viewer's own font of that family.
pub(super) const FAMILY: &str = "sans-serif";

/// DejaVu Sans; its licence stands beside it.
static DEJAVU_SANS: &[u8] = include_bytes!("../../fonts/DejaVuSans.ttf");

/// Makes the font known to plotters, once. Whether it is usable.
pub(super) fn register() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| register_font(FAMILY, FontStyle::Normal, DEJAVU_SANS).is_ok())
}
