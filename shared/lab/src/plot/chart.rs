//! Numbers over numbers: lines, dashed lines and points on two axes.

use super::axis::{Axis, Span};
use super::canvas::{Canvas, Drawn, Picture, drawing_failed};
use super::legend::{Entry, Mark, head, marker, stroke_width};
use super::{GRID, INK, colour};
use crate::error::Result;
use plotters::backend::DrawingBackend;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::Ranged;
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::{Color, RGBColor};
use std::path::Path;

/// A chart of named series. Convention: what a formula predicts is a line, what was measured is points.
///
/// ```no_run
/// use lab::plot::{Axis, Chart};
/// Chart::new("Bytes of the KV cache", Axis::log2("context (tokens)"), Axis::linear("MiB"))
///     .line("predicted", [(128.0, 1.0), (1024.0, 8.0)])
///     .points("measured", [(128.0, 1.0), (1024.0, 8.0)])
///     .write("out/kv.svg".as_ref())?;
/// # Ok::<(), lab::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chart {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    levels: Vec<(String, f64)>,
}

#[derive(Clone, Debug)]
struct Series {
    name: String,
    mark: Mark,
    colour: usize,
    points: Vec<(f64, f64)>,
}

impl Chart {
    /// A chart without series.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), levels: Vec::new() }
    }

    /// With a line through `points`, in their order.
    #[must_use]
    pub fn line(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.with(name.into(), Mark::Line, points)
    }

    /// With a dashed line through `points`.
    #[must_use]
    pub fn dashed(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.with(name.into(), Mark::Dashed, points)
    }

    /// With a marker at each of `points`.
    #[must_use]
    pub fn points(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let shape = self.series.iter().filter(|series| matches!(series.mark, Mark::Points(_))).count();
        self.with(name.into(), Mark::Points(shape), points)
    }

    /// Gives the last series the colour of the one before: measured points on their predicted line.
    #[must_use]
    pub fn in_the_same_colour(mut self) -> Self {
        if let [.., before, last] = &mut self.series[..] {
            last.colour = before.colour;
        }
        self
    }

    /// With a horizontal dashed line over the whole width: the memory of a device, the peak of a unit.
    #[must_use]
    pub fn level(mut self, name: impl Into<String>, y: f64) -> Self {
        self.levels.push((name.into(), y));
        self
    }

    /// Draws into `path`, `.svg` or `.png`; its folder is created.
    ///
    /// # Errors
    /// Another extension, a path that cannot be written, no points, values that an axis cannot show.
    pub fn write(&self, path: &Path) -> Result<()> {
        Picture::write(self, path)
    }

    /// The same picture as the text of an SVG document.
    ///
    /// # Errors
    /// As [`Chart::write`], but for the path.
    pub fn svg(&self) -> Result<String> {
        Picture::svg(self)
    }

    fn with(mut self, name: String, mark: Mark, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let colour = self.series.iter().map(|series| series.colour + 1).max().unwrap_or(0);
        self.series.push(Series { name, mark, colour, points: points.into_iter().collect() });
        self
    }

    fn spans(&self) -> Option<(Span, Span)> {
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let levels = self.levels.iter().map(|(_, y)| *y);
        Some((self.x.over(points().map(|(x, _)| x))?, self.y.over(points().map(|(_, y)| y).chain(levels))?))
    }

    fn level_colour(index: usize) -> RGBColor {
        // Levels are no data: ink, not the next colour.
        if index == 0 { INK } else { colour(6 - index % 6) }
    }
}

impl Picture for Chart {
    fn title(&self) -> &str {
        &self.title
    }

    fn check(&self) -> Result<(), String> {
        let points = self.series.iter().flat_map(|series| series.points.iter().map(|point| (&series.name, point)));
        let refused = points.map(|(name, &(x, y))| (name, self.x.refuses(x).or_else(|| self.y.refuses(y))));
        let levels = self.levels.iter().map(|(name, y)| (name, self.y.refuses(*y)));
        for (name, problem) in refused.chain(levels) {
            if let Some(problem) = problem {
                return Err(format!("series {name:?}: {problem}"));
            }
        }
        if self.series.iter().all(|series| series.points.is_empty()) {
            return Err("there are no points to draw".to_owned());
        }
        Ok(())
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>) -> Drawn {
        let series = self.series.iter().map(|series| (&*series.name, colour(series.colour), series.mark));
        let levels =
            self.levels.iter().enumerate().map(|(index, (name, _))| (&**name, Self::level_colour(index), Mark::Dashed));
        let entries: Vec<_> = series.chain(levels).map(|(name, colour, mark)| Entry { name, colour, mark }).collect();
        let area = head(canvas, &self.title, &entries)?;
        let canvas = &canvas.on(&area);
        let (x, y) = self.spans().ok_or("there are no points to draw")?;
        let across = x.range();
        let mut context = ChartBuilder::on(canvas.area)
            .margin_right(canvas.pixels(24))
            .margin_left(canvas.pixels(10))
            .margin_bottom(canvas.pixels(8))
            .x_label_area_size(canvas.pixels(46))
            .y_label_area_size(canvas.pixels(72))
            .build_cartesian_2d(x, y)
            .map_err(drawing_failed)?;
        mesh(canvas, &mut context, self.x.label(), self.y.label())?;
        let width = stroke_width(canvas);
        for (index, (_, y)) in self.levels.iter().enumerate() {
            let ends = vec![(across.start, *y), (across.end, *y)];
            dashed(canvas, &mut context, ends, Self::level_colour(index))?;
        }
        for series in &self.series {
            let points = series.points.iter().copied();
            let colour = colour(series.colour);
            match series.mark {
                Mark::Dashed => dashed(canvas, &mut context, points.collect(), colour)?,
                Mark::Points(shape) => {
                    let plane = context.plotting_area();
                    let (base, inner) = (plane.get_base_pixel(), plane.strip_coord_spec());
                    for point in points {
                        let (x, y) = plane.map_coordinate(&point);
                        marker(&canvas.on(&inner), shape, colour, (x - base.0, y - base.1))?;
                    }
                }
                Mark::Line | Mark::Bar => {
                    context.draw_series(LineSeries::new(points, colour.stroke_width(width))).map_err(drawing_failed)?;
                }
            }
        }
        Ok(())
    }
}

/// The coordinates of a chart.
type Plane<'a, B> = ChartContext<'a, B, Cartesian2d<Span, Span>>;

fn dashed<B: DrawingBackend>(
    canvas: &Canvas<'_, B>,
    context: &mut Plane<'_, B>,
    points: Vec<(f64, f64)>,
    colour: RGBColor,
) -> Drawn {
    let style = colour.stroke_width(stroke_width(canvas));
    let series = DashedLineSeries::new(points, canvas.pixels(7), canvas.pixels(5), style);
    context.draw_series(series).map_err(drawing_failed).map(drop)
}

fn mesh<B: DrawingBackend>(canvas: &Canvas<'_, B>, context: &mut Plane<'_, B>, x: &str, y: &str) -> Drawn {
    context
        .configure_mesh()
        .x_desc(x)
        .y_desc(y)
        .x_labels(10)
        .y_labels(8)
        .y_label_offset(canvas.text_drop())
        .axis_desc_style(canvas.text(16))
        .label_style(canvas.text(14))
        .axis_style(INK.stroke_width(canvas.pixels(1).unsigned_abs()))
        .bold_line_style(GRID.stroke_width(canvas.pixels(1).unsigned_abs()))
        .light_line_style(plotters::style::TRANSPARENT)
        .draw()
        .map_err(drawing_failed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn chart(x: Axis, y: Axis) -> Chart {
        Chart::new("time over context", x, y)
            .line("predicted", [(128.0, 0.5), (1024.0, 4.0)])
            .points("measured", [(128.0, 0.6), (1024.0, 4.1)])
            .in_the_same_colour()
            .dashed("without a cache", [(128.0, 1.0), (1024.0, 64.0)])
            .level("limit", 50.0)
    }

    #[test]
    fn every_axis_is_drawn_in_both_formats_into_a_new_folder() {
        let folder = tempfile::tempdir().unwrap();
        let axes = [Axis::linear, Axis::log, Axis::log2].map(|axis: fn(&'static str) -> Axis| axis("tokens"));
        for (index, x) in axes.iter().enumerate() {
            let path = |extension: &str| folder.path().join(format!("{index}/chart.{extension}"));
            chart(x.clone(), Axis::log("seconds")).write(&path("svg")).unwrap();
            let text = std::fs::read_to_string(path("svg")).unwrap();
            for part in ["time over context", "predicted", "measured", "without a cache", "limit", "tokens", "seconds"]
            {
                assert!(text.contains(part), "{part} is missing in chart {index}");
            }
            chart(x.clone(), Axis::linear("seconds").zoomed()).write(&path("png")).unwrap();
            let bytes = std::fs::read(path("png")).unwrap();
            assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
            assert!(bytes.len() > 5000);
        }
    }

    #[test]
    fn what_cannot_be_drawn_or_written_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let linear = || chart(Axis::linear("x"), Axis::linear("y"));
        let cases = [
            (linear(), "chart.pdf", ".svg or .png"),
            (linear(), "file/chart.svg", "cannot create the folder"),
            (linear(), "file/chart.png", "cannot create the folder"),
            (linear().line("bad", [(1.0, f64::NAN)]), "chart.svg", "\"bad\": NaN"),
            (chart(Axis::log("x"), Axis::linear("y")).line("bad", [(0.0, 1.0)]), "chart.svg", "logarithmic"),
            (chart(Axis::log("x"), Axis::log("y")).level("none", -1.0), "chart.svg", "logarithmic"),
            (Chart::new("empty", Axis::linear("x"), Axis::linear("y")).line("none", []), "chart.svg", "no points"),
        ];
        for (chart, name, reason) in cases {
            let message = chart.write(&folder.path().join(name)).unwrap_err().to_string();
            assert!(message.contains(reason), "{name}: {message}");
        }
        // A folder in place of the file.
        let path = folder.path().join("folder.svg");
        std::fs::create_dir(&path).unwrap();
        for extension in ["svg", "png"] {
            let path = path.with_extension(extension);
            std::fs::create_dir_all(&path).unwrap();
            let message = linear().write(&path).unwrap_err().to_string();
            assert!(message.contains("cannot write") && message.contains("folder."), "{message}");
        }
    }
}
