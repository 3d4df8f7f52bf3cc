//! Title and legend above the data, where they hide none of it.

use super::canvas::{Canvas, Drawn, drawing_failed};
use plotters::backend::DrawingBackend;
use plotters::coord::Shift;
use plotters::drawing::DrawingArea;
use plotters::element::{Circle, Cross, PathElement, Rectangle, TriangleMarker};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor};

const TITLE: u32 = 20;
const ENTRY: u32 = 15;
const MARGIN: u32 = 16;
const SAMPLE: u32 = 26;

/// How a series is drawn, and so how its legend entry looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// A line through the points.
    Line,
    /// A dashed line: a formula's number, a limit.
    Dashed,
    /// Points; which shape.
    Points(usize),
    /// A bar.
    Bar,
}

/// One legend entry.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) colour: RGBColor,
    pub(super) mark: Mark,
}

/// Draws title and legend; returns the area that is left.
pub(super) fn head<B: DrawingBackend>(
    canvas: &Canvas<'_, B>,
    title: &str,
    entries: &[Entry<'_>],
) -> Drawn<DrawingArea<B, Shift>> {
    let margin = canvas.pixels(MARGIN);
    let (width, _) = canvas.area.dim_in_pixel();
    let limit = i32::try_from(width).unwrap_or(i32::MAX) - margin;
    let middle = Pos::new(HPos::Left, VPos::Center);
    let mut y = margin + canvas.pixels(TITLE) / 2;
    canvas.area.draw_text(title, &canvas.text(TITLE).pos(middle), (margin, y)).map_err(drawing_failed)?;
    y += canvas.pixels(TITLE) / 2 + canvas.pixels(14);
    let style = canvas.text(ENTRY).pos(middle);
    let mut x = margin;
    // One unnamed series needs no legend.
    let named = entries.iter().filter(|entry| !entry.name.is_empty());
    let mut any = false;
    for entry in named {
        let needed = canvas.pixels(SAMPLE + 6) + canvas.width(entry.name, &style)?;
        if x > margin && x + needed > limit {
            (x, y) = (margin, y + canvas.pixels(ENTRY + 7));
        }
        sample(canvas, entry, (x, y))?;
        let text = (x + canvas.pixels(SAMPLE + 6), y + canvas.text_drop());
        canvas.area.draw_text(entry.name, &style, text).map_err(drawing_failed)?;
        x += needed + canvas.pixels(22);
        any = true;
    }
    if any {
        y += canvas.pixels(ENTRY) / 2 + canvas.pixels(8);
    }
    let (_, rest) = canvas.area.split_vertically(y);
    Ok(rest)
}

/// The little picture before a legend's text, `SAMPLE` wide and centred at `y`.
fn sample<B: DrawingBackend>(canvas: &Canvas<'_, B>, entry: &Entry<'_>, (x, y): (i32, i32)) -> Drawn {
    let size = canvas.pixels(SAMPLE);
    let stroke = entry.colour.stroke_width(stroke_width(canvas));
    let centre = (x + size / 2, y);
    match entry.mark {
        Mark::Line => canvas.area.draw(&PathElement::new([(x, y), (x + size, y)], stroke)).map_err(drawing_failed),
        Mark::Dashed => {
            for part in [0, 2, 4] {
                let from = x + part * size / 5;
                let line = PathElement::new([(from, y), (from + size / 5, y)], stroke);
                canvas.area.draw(&line).map_err(drawing_failed)?;
            }
            Ok(())
        }
        Mark::Points(shape) => marker(canvas, shape, entry.colour, centre),
        Mark::Bar => {
            let half = canvas.pixels(6);
            let bar = Rectangle::new([(centre.0 - half, y - half), (centre.0 + half, y + half)], entry.colour.filled());
            canvas.area.draw(&bar).map_err(drawing_failed)
        }
    }
}

/// Width of the lines of a chart.
pub(super) fn stroke_width<B: DrawingBackend>(canvas: &Canvas<'_, B>) -> u32 {
    u32::try_from(canvas.pixels(2)).unwrap_or(2)
}

/// A marker: its shape, too, says which series it belongs to.
pub(super) fn marker<B: DrawingBackend>(
    canvas: &Canvas<'_, B>,
    shape: usize,
    colour: RGBColor,
    at: (i32, i32),
) -> Drawn {
    let size = canvas.pixels(5);
    let drawn = match shape % 4 {
        0 => canvas.area.draw(&Circle::new(at, size, colour.filled())),
        1 => canvas.area.draw(&TriangleMarker::new(at, size + size / 3, colour.filled())),
        2 => {
            let half = size - size / 6;
            canvas.area.draw(&Rectangle::new([(at.0 - half, at.1 - half), (at.0 + half, at.1 + half)], colour.filled()))
        }
        _ => canvas.area.draw(&Cross::new(at, size, colour.stroke_width(stroke_width(canvas)))),
    };
    drawn.map_err(drawing_failed)
}
