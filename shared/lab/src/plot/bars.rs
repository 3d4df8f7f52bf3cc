//! Numbers over names: bars, stacked (parts of a whole) or side by side (alternatives).

use super::axis::{Axis, Span};
use super::canvas::{Canvas, Drawn, Picture, drawing_failed};
use super::legend::{Entry, Mark, head, stroke_width};
use super::{GRID, INK, colour};
use crate::error::Result;
use crate::numbers;
use plotters::backend::DrawingBackend;
use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::drawing::DrawingArea;
use plotters::element::{PathElement, Rectangle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, TRANSPARENT};
use std::path::Path;

/// A bar chart: one group of bars per name, one bar per series in each.
///
/// ```no_run
/// use lab::plot::{Axis, Bars};
/// Bars::stacked("Memory of training", ["Llama 2 7B", "Llama 3 70B"], Axis::linear("GiB"))
///     .series("weights", [12.6, 131.4])
///     .series("optimiser", [75.3, 788.5])
///     .level("H100, 80 GB", 74.5)
///     .write("out/memory.svg".as_ref())?;
/// # Ok::<(), lab::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bars {
    title: String,
    groups: Vec<String>,
    axis: Axis,
    stacked: bool,
    series: Vec<(String, Vec<f64>)>,
    levels: Vec<(String, f64)>,
}

/// Share of a group's width that its bars fill.
const FILLED: f64 = 0.7;
const GROUP_TEXT: u32 = 14;

impl Bars {
    /// Bars of one group on top of each other.
    pub fn stacked<T: Into<String>>(title: impl Into<String>, groups: impl IntoIterator<Item = T>, axis: Axis) -> Self {
        Self::new(title.into(), groups, axis, true)
    }

    /// Bars of one group side by side.
    pub fn grouped<T: Into<String>>(title: impl Into<String>, groups: impl IntoIterator<Item = T>, axis: Axis) -> Self {
        Self::new(title.into(), groups, axis, false)
    }

    /// With a series: one value per group, in the groups' order.
    #[must_use]
    pub fn series(mut self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        self.series.push((name.into(), values.into_iter().collect()));
        self
    }

    /// With a horizontal dashed line over the whole width: the memory of a device.
    #[must_use]
    pub fn level(mut self, name: impl Into<String>, y: f64) -> Self {
        self.levels.push((name.into(), y));
        self
    }

    /// Draws into `path`, `.svg` or `.png`; its folder is created.
    ///
    /// # Errors
    /// Another extension, a path that cannot be written, a series without one value per group, values that cannot be bars
    /// (negative, not finite, 0 on a logarithmic axis), stacked bars on a logarithmic axis.
    pub fn write(&self, path: &Path) -> Result<()> {
        Picture::write(self, path)
    }

    /// The same picture as the text of an SVG document.
    ///
    /// # Errors
    /// As [`Bars::write`], but for the path.
    pub fn svg(&self) -> Result<String> {
        Picture::svg(self)
    }

    fn new<T: Into<String>>(title: String, groups: impl IntoIterator<Item = T>, axis: Axis, stacked: bool) -> Self {
        let groups = groups.into_iter().map(Into::into).collect();
        Self { title, groups, axis, stacked, series: Vec::new(), levels: Vec::new() }
    }

    /// The bars of one group: series, left and right within the group (0 to 1), bottom, top.
    fn bars(&self, group: usize, floor: f64) -> Vec<(usize, f64, f64, f64, f64)> {
        let edge = (1.0 - FILLED) / 2.0;
        let each = FILLED / self.series.len() as f64;
        let mut below = 0.0;
        let heights = self.series.iter().filter_map(|(_, values)| values.get(group)).enumerate();
        heights
            .map(|(index, &height)| {
                if self.stacked {
                    below += height;
                    (index, edge, 1.0 - edge, below - height, below)
                } else {
                    let left = edge + each * index as f64;
                    (index, left, left + 0.94 * each, floor, height)
                }
            })
            .collect()
    }

    /// The vertical axis. The second value is where bars begin: 0, on a logarithmic axis its lower end.
    fn span(&self) -> Option<(Span, f64)> {
        let tops = (0..self.groups.len()).flat_map(|group| self.bars(group, 0.0)).map(|bar| bar.4);
        let span = self.axis.over(tops.chain(self.levels.iter().map(|(_, level)| *level)))?;
        let floor = if self.axis.is_logarithmic() { span.range().start } else { 0.0 };
        Some((span, floor))
    }
}

impl Picture for Bars {
    fn title(&self) -> &str {
        &self.title
    }

    fn check(&self) -> Result<(), String> {
        if self.groups.is_empty() || self.series.is_empty() {
            return Err("there are no bars to draw".to_owned());
        }
        if self.stacked && self.axis.is_logarithmic() {
            return Err(
                "parts of a whole cannot be stacked on a logarithmic axis; use a linear one or grouped bars".to_owned()
            );
        }
        for (name, values) in &self.series {
            let (found, expected) = (values.len(), self.groups.len());
            if found != expected {
                return Err(format!("series {name:?} has {found} values for {expected} groups"));
            }
        }
        let levels = self.levels.iter().map(|(name, level)| (name, level));
        let values = self.series.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
        for (name, value) in values.chain(levels) {
            if let Some(problem) = self.axis.refuses(*value) {
                return Err(format!("series {name:?}: {problem}"));
            }
            if *value < 0.0 {
                return Err(format!("series {name:?}: a bar cannot have the negative height {value}"));
            }
        }
        Ok(())
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>) -> Drawn {
        let bars = self.series.iter().enumerate().map(|(index, (name, _))| Entry {
            name,
            colour: colour(index),
            mark: Mark::Bar,
        });
        let levels = self.levels.iter().map(|(name, _)| Entry { name, colour: INK, mark: Mark::Dashed });
        let area = head(canvas, &self.title, &bars.chain(levels).collect::<Vec<_>>())?;
        let canvas = &canvas.on(&area);
        let (y, floor) = self.span().ok_or("there are no bars to draw")?;
        let (left, right) = (canvas.pixels(82), canvas.pixels(24));
        let width = i32::try_from(canvas.area.dim_in_pixel().0).unwrap_or(i32::MAX) - left - right;
        let names = self.wrapped_names(canvas, width / i32::try_from(self.groups.len()).unwrap_or(i32::MAX))?;
        let lines = names.iter().map(Vec::len).max().unwrap_or(1);
        let line_height = canvas.pixels(GROUP_TEXT + 4);
        let below = line_height * i32::try_from(lines).unwrap_or(1) + canvas.pixels(14);
        let mut context = ChartBuilder::on(canvas.area)
            .margin_right(right)
            .margin_left(canvas.pixels(10))
            .margin_top(canvas.pixels(14))
            .margin_bottom(below)
            .y_label_area_size(canvas.pixels(72))
            .build_cartesian_2d(Axis::groups(self.groups.len()), y)
            .map_err(drawing_failed)?;
        context
            .configure_mesh()
            .disable_x_mesh()
            .y_desc(self.axis.label())
            .y_labels(8)
            .y_label_offset(canvas.text_drop())
            .axis_desc_style(canvas.text(16))
            .label_style(canvas.text(14))
            .axis_style(INK.stroke_width(canvas.pixels(1).unsigned_abs()))
            .bold_line_style(GRID.stroke_width(canvas.pixels(1).unsigned_abs()))
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(drawing_failed)?;
        let plane = context.plotting_area();
        let (base, inner) = (plane.get_base_pixel(), plane.strip_coord_spec());
        let at = |x: f64, y: f64| {
            let (x, y) = plane.map_coordinate(&(x, y));
            (x - base.0, y - base.1)
        };
        for (group, lines) in names.iter().enumerate() {
            self.draw_group(canvas, &inner, group, floor, &at)?;
            let (x, y) = at(group as f64 + 0.5, floor);
            let style = canvas.text(GROUP_TEXT).pos(Pos::new(HPos::Center, VPos::Top));
            for (index, line) in lines.iter().enumerate() {
                let y = y + canvas.pixels(8) + line_height * i32::try_from(index).unwrap_or(0);
                inner.draw_text(line, &style, (x, y)).map_err(drawing_failed)?;
            }
        }
        let dash = (canvas.pixels(7), canvas.pixels(5));
        for (_, level) in &self.levels {
            let (from, to) = (at(0.0, *level), at(self.groups.len() as f64, *level));
            let starts = (from.0..to.0).step_by(usize::try_from(dash.0 + dash.1).unwrap_or(1));
            for x in starts {
                let line = [(x, from.1), ((x + dash.0).min(to.0), from.1)];
                inner.draw(&PathElement::new(line, INK.stroke_width(stroke_width(canvas)))).map_err(drawing_failed)?;
            }
        }
        Ok(())
    }
}

impl Bars {
    /// The bars of one group and the number above each column.
    fn draw_group<B: DrawingBackend>(
        &self,
        canvas: &Canvas<'_, B>,
        area: &DrawingArea<B, Shift>,
        group: usize,
        floor: f64,
        at: &impl Fn(f64, f64) -> (i32, i32),
    ) -> Drawn {
        let style = canvas.text(13).pos(Pos::new(HPos::Center, VPos::Bottom));
        let bars = self.bars(group, floor);
        for (number, &(index, left, right, bottom, top)) in bars.iter().enumerate() {
            let corners = [at(group as f64 + left, bottom), at(group as f64 + right, top)];
            area.draw(&Rectangle::new(corners, colour(index).filled())).map_err(drawing_failed)?;
            let label = numbers::plain(top);
            let fits = canvas.width(&label, &style)? <= corners[1].0 - corners[0].0 + canvas.pixels(8);
            if fits && (!self.stacked || number + 1 == bars.len()) {
                let x = i32::midpoint(corners[0].0, corners[1].0);
                area.draw_text(&label, &style, (x, corners[1].1 - canvas.pixels(3))).map_err(drawing_failed)?;
            }
        }
        Ok(())
    }

    /// Each group's name, broken into lines at blanks so that it fits under its group.
    fn wrapped_names<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>, width: i32) -> Drawn<Vec<Vec<String>>> {
        let style = canvas.text(GROUP_TEXT);
        let room = width - canvas.pixels(6);
        let wrap = |name: &String| {
            let mut lines: Vec<String> = Vec::new();
            for word in name.split_whitespace() {
                match lines.last_mut() {
                    Some(line) if canvas.width(&format!("{line} {word}"), &style)? <= room => {
                        *line += &format!(" {word}")
                    }
                    _ => lines.push(word.to_owned()),
                }
            }
            Ok(lines)
        };
        self.groups.iter().map(wrap).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn bars(axis: Axis, stacked: bool) -> Bars {
        Bars::new("memory".into(), ["7B", "70B"], axis, stacked)
            .series("weights", [1.0, 10.0])
            .series("moments", [2.0, 20.0])
    }

    #[test]
    fn stacked_bars_stand_on_each_other_and_grouped_ones_beside() {
        let stacked = bars(Axis::linear(""), true).bars(1, 0.0);
        assert_eq!(stacked.iter().map(|bar| (bar.3, bar.4)).collect::<Vec<_>>(), [(0.0, 10.0), (10.0, 30.0)]);
        let grouped = bars(Axis::linear(""), false).bars(1, 0.0);
        assert_eq!(grouped.iter().map(|bar| (bar.3, bar.4)).collect::<Vec<_>>(), [(0.0, 10.0), (0.0, 20.0)]);
        assert!(grouped[0].2 <= grouped[1].1 && grouped[1].2 <= 1.0, "{grouped:?}");
    }

    #[test]
    fn what_cannot_be_bars_is_refused_with_the_reason() {
        let refused = |bars: Bars| bars.write(Path::new("/nowhere/a.svg")).unwrap_err().to_string();
        assert!(refused(bars(Axis::log(""), true)).contains("logarithmic"));
        assert!(refused(bars(Axis::linear(""), true).series("short", [1.0])).contains("1 values for 2 groups"));
        assert!(refused(bars(Axis::linear(""), true).series("x", [1.0, -1.0])).contains("negative"));
        assert!(refused(bars(Axis::linear(""), true).series("x", [1.0, f64::NAN])).contains("NaN"));
        assert!(refused(bars(Axis::log(""), false).series("x", [1.0, 0.0])).contains("logarithmic"));
        assert!(refused(Bars::stacked("t", ["a"], Axis::linear(""))).contains("no bars"));
    }

    #[test]
    fn both_kinds_are_written_in_both_formats() {
        let folder = tempfile::tempdir().unwrap();
        for (stacked, name) in [(true, "new/a.svg"), (false, "new/b.png")] {
            let path = folder.path().join(name);
            bars(Axis::linear("GiB"), stacked).level("80 GB", 25.0).write(&path).unwrap();
            assert!(std::fs::metadata(&path).unwrap().len() > 1000, "{name}");
        }
        let text = std::fs::read_to_string(folder.path().join("new/a.svg")).unwrap();
        for part in ["memory", "weights", "moments", "80 GB", "70B", "GiB", "30.0"] {
            assert!(text.contains(part), "{part} is missing");
        }
    }
}
