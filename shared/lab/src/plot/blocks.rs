//! Rectangles with text in them: matrices, and how they are divided.

use super::canvas::{Canvas, Drawn, Picture, drawing_failed};
use super::legend::{Entry, Mark, head};
use super::{INK, colour};
use crate::error::Result;
use plotters::backend::DrawingBackend;
use plotters::element::Rectangle;
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

/// A picture of rectangles and texts on a plane of its own: `x` to the right, `y` downwards, units as you like; it is scaled to fit.
///
/// ```no_run
/// use lab::plot::Blocks;
/// Blocks::new("X by rows", (10.0, 4.0))
///     .entry("rank 0", 0)
///     .block((0.0, 1.0, 3.0, 1.0), Some(0), "rows 0 to 3")
///     .block((4.0, 1.0, 3.0, 2.0), None, "every rank")
///     .text((1.5, 0.5), "X")
///     .write("out/blocks.svg".as_ref())?;
/// # Ok::<(), lab::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Blocks {
    title: String,
    size: (f64, f64),
    entries: Vec<(String, usize)>,
    blocks: Vec<Block>,
    texts: Vec<((f64, f64), String)>,
}

#[derive(Clone, Debug)]
struct Block {
    /// Left, top, width, height.
    place: (f64, f64, f64, f64),
    colour: Option<usize>,
    label: String,
}

/// How much of its colour fills a block: text stays readable on it.
const TINT: f64 = 0.3;
const LABEL: u32 = 13;
const TEXT: u32 = 15;

impl Blocks {
    /// An empty plane of `size` (width, height).
    pub fn new(title: impl Into<String>, size: (f64, f64)) -> Self {
        Self { title: title.into(), size, entries: Vec::new(), blocks: Vec::new(), texts: Vec::new() }
    }

    /// With a legend entry for the colour `index`.
    #[must_use]
    pub fn entry(mut self, name: impl Into<String>, index: usize) -> Self {
        self.entries.push((name.into(), index));
        self
    }

    /// With a rectangle at (left, top, width, height), filled with the colour of an index or left white, and a label in it, which is left
    /// out where it does not fit.
    #[must_use]
    pub fn block(
        mut self,
        place: (f64, f64, f64, f64),
        colour: impl Into<Option<usize>>,
        label: impl Into<String>,
    ) -> Self {
        self.blocks.push(Block { place, colour: colour.into(), label: label.into() });
        self
    }

    /// With a text centred at (x, y).
    #[must_use]
    pub fn text(mut self, at: (f64, f64), text: impl Into<String>) -> Self {
        self.texts.push((at, text.into()));
        self
    }

    /// Draws into `path`, `.svg` or `.png`; its folder is created.
    ///
    /// # Errors
    /// Another extension, a path that cannot be written, a plane or a block without a size.
    pub fn write(&self, path: &Path) -> Result<()> {
        Picture::write(self, path)
    }

    /// The same picture as the text of an SVG document.
    ///
    /// # Errors
    /// As [`Blocks::write`], but for the path.
    pub fn svg(&self) -> Result<String> {
        Picture::svg(self)
    }
}

impl Picture for Blocks {
    fn title(&self) -> &str {
        &self.title
    }

    fn check(&self) -> Result<(), String> {
        let positive = |size: f64| size.is_finite() && size > 0.0;
        if !(positive(self.size.0) && positive(self.size.1)) {
            return Err(format!("a plane of {} x {} has no area", self.size.0, self.size.1));
        }
        for Block { place: (x, y, width, height), label, .. } in &self.blocks {
            if !(x.is_finite() && y.is_finite() && positive(*width) && positive(*height)) {
                return Err(format!("block {label:?}: {width} x {height} at ({x}, {y}) is no rectangle"));
            }
        }
        Ok(())
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>) -> Drawn {
        let entries = self.entries.iter().map(|(name, index)| Entry { name, colour: colour(*index), mark: Mark::Bar });
        let area = head(canvas, &self.title, &entries.collect::<Vec<_>>())?;
        let canvas = &canvas.on(&area);
        let margin = f64::from(canvas.pixels(16));
        let (width, height) = canvas.area.dim_in_pixel();
        let inner = (f64::from(width) - 2.0 * margin, f64::from(height) - margin);
        let scale = (inner.0 / self.size.0).min(inner.1 / self.size.1);
        let at = |x: f64, y: f64| ((margin + x * scale) as i32, (y * scale) as i32);
        let centred = Pos::new(HPos::Center, VPos::Center);
        let outline = INK.stroke_width(canvas.pixels(1).unsigned_abs());
        for Block { place: (x, y, width, height), colour: index, label } in &self.blocks {
            let corners = [at(*x, *y), at(x + width, y + height)];
            if let Some(index) = index {
                let filled = Rectangle::new(corners, colour(*index).mix(TINT).filled());
                canvas.area.draw(&filled).map_err(drawing_failed)?;
            }
            canvas.area.draw(&Rectangle::new(corners, outline)).map_err(drawing_failed)?;
            let style = canvas.text(LABEL).pos(centred);
            let room = (corners[1].0 - corners[0].0, corners[1].1 - corners[0].1);
            if canvas.width(label, &style)? <= room.0 - canvas.pixels(4) && canvas.pixels(LABEL) <= room.1 {
                let middle = ((corners[0].0 + corners[1].0) / 2, (corners[0].1 + corners[1].1) / 2);
                let middle = (middle.0, middle.1 + canvas.text_drop());
                canvas.area.draw_text(label, &style, middle).map_err(drawing_failed)?;
            }
        }
        for ((x, y), text) in &self.texts {
            let (x, y) = at(*x, *y);
            let style = canvas.text(TEXT).pos(centred);
            canvas.area.draw_text(text, &style, (x, y + canvas.text_drop())).map_err(drawing_failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn blocks_and_texts_are_drawn_in_both_formats_and_what_does_not_fit_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let blocks = Blocks::new("divided", (10.0, 4.0))
            .entry("rank 0", 0)
            .block((0.0, 1.0, 3.0, 2.0), 0, "inside")
            .block((4.0, 1.0, 0.1, 2.0), None, "too wide for it")
            .text((1.5, 0.5), "X");
        for name in ["new/a.svg", "new/b.png"] {
            let path = folder.path().join(name);
            blocks.write(&path).unwrap();
            assert!(std::fs::metadata(&path).unwrap().len() > 500, "{name}");
        }
        let text = std::fs::read_to_string(folder.path().join("new/a.svg")).unwrap();
        for part in ["divided", "rank 0", "inside"] {
            assert!(text.contains(part), "{part} is missing");
        }
        assert!(!text.contains("too wide"));
    }

    #[test]
    fn what_is_no_rectangle_is_refused_by_its_label() {
        for place in [(0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, -1.0), (f64::NAN, 0.0, 1.0, 1.0)] {
            let message = Blocks::new("t", (1.0, 1.0)).block(place, None, "this").write("a.svg".as_ref()).unwrap_err();
            assert!(message.to_string().contains("this"), "{message}");
        }
        let message = Blocks::new("t", (0.0, 1.0)).write("a.svg".as_ref()).unwrap_err().to_string();
        assert!(message.contains("no area"), "{message}");
    }
}
