//! A timeline: a lane per worker, a block per piece of work, time from left to right.

use super::canvas::{Canvas, Drawn, Picture, drawing_failed};
use super::legend::{Entry, Mark, head};
use super::{GRID, INK, colour};
use crate::{Result, numbers};
use plotters::backend::DrawingBackend;
use plotters::element::{PathElement, Rectangle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor, WHITE};
use std::path::Path;

/// Text in blocks and beside lanes.
const TEXT: u32 = 13;
/// Ticks of the time axis.
const TICKS: u32 = 6;

/// A piece of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// From, in seconds, or in units of the caller's own after [`Gantt::without_unit`].
    pub start: f64,
    /// To.
    pub end: f64,
    /// Which of the chart's kinds it is.
    pub kind: usize,
    /// A lighter shade of the kind's colour.
    pub light: bool,
    /// What stands in it, if there is room.
    pub label: String,
}

/// A timeline under construction.
///
/// ```no_run
/// # use lab::plot::{Block, Gantt}; use std::path::Path;
/// let work = Block { start: 0.0, end: 1.0, kind: 0, light: false, label: "0".into() };
/// Gantt::new("one stage", ["forward"]).lane("stage 0", vec![work]).write(Path::new("out/timeline.svg"))?;
/// # Ok::<(), lab::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gantt {
    title: String,
    kinds: Vec<String>,
    lanes: Vec<(String, Vec<Block>)>,
    in_seconds: bool,
}

impl Gantt {
    /// A timeline of work of some kinds, each with a colour.
    pub fn new(title: impl Into<String>, kinds: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            title: title.into(),
            kinds: kinds.into_iter().map(Into::into).collect(),
            lanes: Vec::new(),
            in_seconds: true,
        }
    }

    /// With one more lane, below those before it.
    #[must_use]
    pub fn lane(mut self, name: impl Into<String>, blocks: Vec<Block>) -> Self {
        self.lanes.push((name.into(), blocks));
        self
    }

    /// The axis has bare numbers: times are multiples of a unit that the caller chose.
    #[must_use]
    pub fn without_unit(self) -> Self {
        Self { in_seconds: false, ..self }
    }

    /// Draws it; `.svg` or `.png`. The folder is created.
    ///
    /// # Errors
    /// Another extension, no work, times that are not numbers, or a file that cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        Picture::write(self, path)
    }

    /// Draws it as SVG.
    ///
    /// # Errors
    /// No work, or times that are not numbers.
    pub fn svg(&self) -> Result<String> {
        Picture::svg(self)
    }

    fn end(&self) -> Drawn<f64> {
        let mut end = 0.0;
        for block in self.lanes.iter().flat_map(|(_, blocks)| blocks) {
            if !(block.start.is_finite() && block.end.is_finite() && 0.0 <= block.start && block.start <= block.end) {
                return Err(format!("block {:?} from {} to {}", block.label, block.start, block.end));
            }
            end = block.end.max(end);
        }
        if end > 0.0 { Ok(end) } else { Err("there is no work to draw".to_owned()) }
    }
}

impl Picture for Gantt {
    fn title(&self) -> &str {
        &self.title
    }

    fn check(&self) -> Result<(), String> {
        self.end().map(drop)
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>) -> Drawn {
        let kinds = self.kinds.iter().enumerate();
        let entries: Vec<_> =
            kinds.map(|(index, name)| Entry { name, colour: colour(index), mark: Mark::Bar }).collect();
        let area = head(canvas, &self.title, &entries)?;
        let canvas = &canvas.on(&area);
        let end = self.end()?;
        let pixels = |size: u32| i32::try_from(size).unwrap_or(i32::MAX);
        let (width, height) = canvas.area.dim_in_pixel();
        let names = canvas.text(TEXT);
        let widest = self.lanes.iter().map(|(name, _)| canvas.width(name, &names)).collect::<Drawn<Vec<_>>>()?;
        let left = canvas.pixels(24) + widest.into_iter().max().unwrap_or(0);
        let (right, bottom) = (pixels(width) - canvas.pixels(24), pixels(height) - canvas.pixels(44));
        let x = |time: f64| left + (f64::from(right - left) * time / end).round() as i32;
        let each = (bottom - canvas.pixels(8)) / i32::try_from(self.lanes.len()).unwrap_or(i32::MAX).max(1);
        let gap = if each > canvas.pixels(12) { canvas.pixels(3) } else { 0 };
        self.axis(canvas, end, bottom, &x)?;
        for (index, (name, blocks)) in self.lanes.iter().enumerate() {
            let top = canvas.pixels(8) + each * i32::try_from(index).unwrap_or(i32::MAX);
            let rows = (top, top + each - gap);
            if each >= canvas.pixels(TEXT) {
                let at = (left - canvas.pixels(8), i32::midpoint(rows.0, rows.1) + canvas.text_drop());
                let style = names.clone().pos(Pos::new(HPos::Right, VPos::Center));
                canvas.area.draw_text(name, &style, at).map_err(drawing_failed)?;
            }
            for block in blocks {
                draw_block(canvas, block, [(x(block.start), rows.0), (x(block.end), rows.1)])?;
            }
        }
        Ok(())
    }
}

impl Gantt {
    fn axis<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>, end: f64, y: i32, x: &impl Fn(f64) -> i32) -> Drawn {
        let style = canvas.text(TEXT).pos(Pos::new(HPos::Center, VPos::Top));
        for tick in 0..=TICKS {
            let time = end * f64::from(tick) / f64::from(TICKS);
            let line = PathElement::new([(x(time), canvas.pixels(8)), (x(time), y)], GRID.stroke_width(1));
            canvas.area.draw(&line).map_err(drawing_failed)?;
            let text = if self.in_seconds { numbers::seconds(time) } else { numbers::plain(time) };
            canvas.area.draw_text(&text, &style, (x(time), y + canvas.pixels(8))).map_err(drawing_failed)?;
        }
        let line = PathElement::new([(x(0.0), y), (x(end), y)], INK.stroke_width(canvas.pixels(1).unsigned_abs()));
        canvas.area.draw(&line).map_err(drawing_failed)
    }
}

fn draw_block<B: DrawingBackend>(canvas: &Canvas<'_, B>, block: &Block, corners: [(i32, i32); 2]) -> Drawn {
    let full = colour(block.kind);
    let paint = if block.light { lighter(full) } else { full };
    canvas.area.draw(&Rectangle::new(corners, paint.filled())).map_err(drawing_failed)?;
    let room = corners[1].0 - corners[0].0;
    if room > canvas.pixels(3) {
        canvas.area.draw(&Rectangle::new(corners, WHITE.stroke_width(1))).map_err(drawing_failed)?;
    }
    let style = canvas.text(TEXT);
    let fits = canvas.width(&block.label, &style)? < room && corners[1].1 - corners[0].1 >= canvas.pixels(TEXT);
    if !fits {
        return Ok(());
    }
    let ink = if block.light { INK } else { RGBColor(0xFF, 0xFF, 0xFF) };
    let style = style.color(&ink).pos(Pos::new(HPos::Center, VPos::Center));
    let centre = (i32::midpoint(corners[0].0, corners[1].0), i32::midpoint(corners[0].1, corners[1].1));
    canvas.area.draw_text(&block.label, &style, (centre.0, centre.1 + canvas.text_drop())).map_err(drawing_failed)
}

/// Half way to white.
fn lighter(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    let half = |value: u8| value / 2 + 127;
    RGBColor(half(red), half(green), half(blue))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn block(start: f64, end: f64) -> Block {
        Block { start, end, kind: 0, light: false, label: "7".to_owned() }
    }

    #[test]
    fn lanes_blocks_and_labels_are_drawn_in_both_formats() {
        let folder = tempfile::tempdir().unwrap();
        let chart = Gantt::new("two stages", ["forward", "backward"])
            .lane("stage 0", vec![block(0.0, 1.0), Block { kind: 1, light: true, ..block(2.0, 4.0) }])
            .lane("stage 1", vec![block(1.0, 2.0)]);
        for name in ["a.svg", "a.png"] {
            chart.write(&folder.path().join(name)).unwrap();
        }
        let text = std::fs::read_to_string(folder.path().join("a.svg")).unwrap();
        for part in ["two stages", "stage 0", "stage 1", "forward", "backward", "7", "4 s"] {
            assert!(text.contains(part), "{part} is missing");
        }
    }

    #[test]
    fn without_a_unit_the_axis_has_bare_numbers() {
        let chart = Gantt::new("one stage", ["forward"]).lane("stage 0", vec![block(0.0, 6.0)]);
        assert!(chart.svg().unwrap().contains("\n6 s\n"));
        let bare = chart.without_unit().svg().unwrap();
        assert!(bare.contains("\n6.00\n"), "{bare}");
        assert!(!bare.contains(" s\n"), "{bare}");
    }

    #[test]
    fn no_work_and_times_that_are_none_are_refused() {
        let refused = |chart: Gantt| chart.write(Path::new("/nowhere/a.svg")).unwrap_err().to_string();
        assert!(refused(Gantt::new("t", ["f"])).contains("no work"));
        assert!(refused(Gantt::new("t", ["f"]).lane("s", vec![block(2.0, 1.0)])).contains("from 2 to 1"));
        assert!(refused(Gantt::new("t", ["f"]).lane("s", vec![block(0.0, f64::NAN)])).contains("NaN"));
    }
}
