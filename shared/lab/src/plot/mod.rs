//! Pictures: a thin layer over plotters that makes every chart of the workspace look alike.
//!
//! [`Chart`] shows numbers over numbers (lines and points, linear and logarithmic axes), [`Bars`] numbers over names, stacked or
//! side by side, [`Blocks`] rectangles with text, [`Gantt`] who works when. All are data until `write` draws them: as SVG, or as PNG at
//! twice the size, by the file's extension. Colours are those of Okabe and Ito, which colour-blind readers can tell apart; lines also
//! differ in their markers. The font is embedded, so that a picture is the same on every machine.

mod axis;
mod bars;
mod blocks;
mod canvas;
mod chart;
mod font;
mod gantt;
mod legend;
mod loss;

pub use axis::Axis;
pub use bars::Bars;
pub use blocks::Blocks;
pub use canvas::Format;
pub use chart::Chart;
pub use gantt::{Block, Gantt};
pub use loss::loss_curve;

use plotters::style::RGBColor;

/// Okabe and Ito's palette without yellow, which is hard to see on white.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x00, 0x00, 0x00),
];
/// Text and axes.
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
/// Grid lines.
const GRID: RGBColor = RGBColor(0xE4, 0xE4, 0xE4);

fn colour(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}
