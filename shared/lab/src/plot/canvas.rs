//! The file a picture goes into, and the area it is drawn on.

use super::{INK, font};
use crate::error::{Error, Result, create_parent, write_file};
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::style::{IntoFont, TextStyle, WHITE};
use std::fs::File;
use std::path::Path;

/// Size of a picture in logical pixels.
const SIZE: (u32, u32) = (880, 520);

/// Pixels of a PNG per logical pixel.
const PNG_SCALE: u32 = 2;

/// What a picture is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Scalable: for documents.
    Svg,
    /// Pixels, two per logical pixel: for everywhere else.
    Png,
}

impl Format {
    /// The format that the extension of `path` names.
    ///
    /// # Errors
    /// Any other extension, and none.
    pub fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            _ => Err(Error::Flag {
                flag: "--plot",
                found: path.display().to_string(),
                expected: "the file's extension says what is drawn: .svg or .png".to_owned(),
            }),
        }
    }
}

/// What a picture is drawn on: an area, and how many of its pixels are one logical pixel.
pub(super) struct Canvas<'a, B: DrawingBackend> {
    pub(super) area: &'a DrawingArea<B, Shift>,
    scale: u32,
}

/// A failure to draw, as text: plotters' errors have a type per backend.
pub(super) type Drawn<T = ()> = Result<T, String>;

pub(super) fn drawing_failed(error: impl std::fmt::Display) -> String {
    format!("it could not be drawn: {error}")
}

/// Something that can be drawn on any canvas.
pub(super) trait Picture {
    fn title(&self) -> &str;
    /// Whether it can be drawn, and why not.
    fn check(&self) -> Result<(), String>;
    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>) -> Drawn;

    /// Draws into a file; its folder is created.
    fn write(&self, path: &Path) -> Result<()> {
        match Format::of(path)? {
            Format::Svg => write_file(path, self.svg()?.as_bytes()),
            Format::Png => {
                self.ready()?;
                create_parent(path)?;
                // plotters' own error would not say which file, and why.
                File::create(path).map_err(Error::file("write", path))?;
                let area = BitMapBackend::new(path, (SIZE.0 * PNG_SCALE, SIZE.1 * PNG_SCALE)).into_drawing_area();
                self.draw_on(&area, PNG_SCALE)
            }
        }
    }

    /// Draws into a text.
    fn svg(&self) -> Result<String> {
        self.ready()?;
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        self.draw_on(&area, 1)?;
        drop(area);
        Ok(text)
    }

    fn ready(&self) -> Result<()> {
        self.check().map_err(|problem| self.problem(problem))?;
        if !font::register() {
            return Err(self.problem("the embedded font cannot be read".to_owned()));
        }
        Ok(())
    }

    fn draw_on<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Result<()> {
        let canvas = Canvas { area, scale };
        let filled = area.fill(&WHITE).map_err(drawing_failed);
        let drawn = filled.and_then(|()| self.draw(&canvas)).and_then(|()| area.present().map_err(drawing_failed));
        drawn.map_err(|problem| self.problem(problem))
    }

    fn problem(&self, problem: String) -> Error {
        Error::Plot { title: self.title().to_owned(), problem }
    }
}

impl<'a, B: DrawingBackend> Canvas<'a, B> {
    /// `logical` pixels in pixels of the area.
    pub(super) fn pixels(&self, logical: u32) -> i32 {
        i32::try_from(logical * self.scale).unwrap_or(i32::MAX)
    }

    /// The style of text of a `logical` height.
    pub(super) fn text(&self, logical: u32) -> TextStyle<'static> {
        (font::FAMILY, self.pixels(logical)).into_font().color(&INK)
    }

    /// How far below its centre line text must be asked for to stand on it: plotters' bitmap text sits too high.
    pub(super) fn text_drop(&self) -> i32 {
        if self.scale == PNG_SCALE { self.pixels(2) } else { 0 }
    }

    /// Width of a text in pixels of the area.
    pub(super) fn width(&self, text: &str, style: &TextStyle<'_>) -> Drawn<i32> {
        let (width, _) = self.area.estimate_text_size(text, style).map_err(drawing_failed)?;
        Ok(i32::try_from(width).unwrap_or(i32::MAX))
    }

    /// The same canvas on a part of its area.
    pub(super) fn on<'b>(&self, area: &'b DrawingArea<B, Shift>) -> Canvas<'b, B> {
        Canvas { area, scale: self.scale }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_extension_decides_and_anything_else_names_the_legal_ones() {
        assert_eq!(Format::of(Path::new("a/b.SVG")).unwrap(), Format::Svg);
        assert_eq!(Format::of(Path::new("b.png")).unwrap(), Format::Png);
        for path in ["a.pdf", "a", "svg", ".png", ""] {
            let message = Format::of(Path::new(path)).unwrap_err().to_string();
            assert!(message.contains(".svg or .png"), "{path:?}: {message}");
        }
    }
}
