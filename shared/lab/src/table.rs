//! Tables for people: the same text on a terminal and in a pipe, numbers aligned to the right.

use comfy_table::{CellAlignment, TableStyle, presets};
use std::fmt;

/// A table: a header and rows. `Display` writes it with lines, [`Table::markdown`] for a lesson.
///
/// ```
/// let table = lab::Table::new(["weight", "bytes"]).row(["q_proj", "1024"]).row(["norm", "64"]);
/// assert_eq!(table.markdown(), "| weight | bytes |\n|---|---:|\n| q_proj | 1024 |\n| norm | 64 |\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

const STYLE: TableStyle = presets::UTF8_HORIZONTAL_ONLY.row_separator(comfy_table::LineStyle::none());

impl Table {
    /// An empty table with these columns.
    pub fn new<T: Into<String>>(header: impl IntoIterator<Item = T>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// The table with one more row. A short row is filled up with empty cells, a long one gets columns without a name.
    #[must_use]
    pub fn row<T: Into<String>>(mut self, cells: impl IntoIterator<Item = T>) -> Self {
        self.push(cells);
        self
    }

    /// Adds a row.
    pub fn push<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As a table in a Markdown document.
    pub fn markdown(&self) -> String {
        let columns = self.columns();
        let line = |cells: &[String]| {
            let cell = |column| cells.get(column).map_or("", String::as_str).replace('|', "\\|").replace('\n', " ");
            (0..columns).map(|column| format!("| {} ", cell(column))).collect::<String>() + "|\n"
        };
        let rule =
            (0..columns).map(|column| if self.is_numeric(column) { "|---:" } else { "|---" }).collect::<String>();
        format!("{}{rule}|\n{}", line(&self.header), self.rows.iter().map(|row| line(row)).collect::<String>())
    }

    /// As an element of a page.
    pub fn html(&self) -> String {
        let columns = self.columns();
        let line = |tag: &str, cells: &[String]| {
            let cell = |column| {
                let align = if self.is_numeric(column) { "right" } else { "left" };
                let text: &str = cells.get(column).map_or("", String::as_str);
                format!("<{tag} align=\"{align}\">{}</{tag}>", escaped(text))
            };
            format!("<tr>{}</tr>\n", (0..columns).map(cell).collect::<String>())
        };
        let rows: String = self.rows.iter().map(|row| line("td", row)).collect();
        format!("<table>\n{}{rows}</table>\n", line("th", &self.header))
    }

    fn columns(&self) -> usize {
        self.rows.iter().map(Vec::len).chain([self.header.len()]).max().unwrap_or(0)
    }

    /// Whether a column holds numbers: at least one, and otherwise only cells that say that there is none.
    fn is_numeric(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.trim()).peekable();
        let blank = |cell: &str| matches!(cell, "" | "-" | "–" | NOT_MEASURED);
        cells.clone().any(|cell| !blank(cell)) && cells.all(|cell| blank(cell) || begins_with_number(cell))
    }
}

/// What stands in place of a figure that was not measured: never 0.
pub const NOT_MEASURED: &str = "not measured";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\n', "<br>")
}

fn begins_with_number(cell: &str) -> bool {
    let unsigned = cell.trim_start_matches(['+', '-', '−', '±', '<', '>', '≤', '≥', '≈', '~', ' ']);
    unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '∞')
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns();
        let fill = |cells: &[String]| {
            (0..columns).map(|column| cells.get(column).cloned().unwrap_or_default()).collect::<Vec<_>>()
        };
        let mut table = comfy_table::Table::new();
        table.load_style(STYLE).set_header(fill(&self.header));
        for row in &self.rows {
            table.add_row(fill(row));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            if self.is_numeric(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        f.write_str(&table.trim_fmt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::new(["kind", "now", "note"])
            .row(["weights", "513.1 MiB", "a|b"])
            .row(["KV cache", "1 KiB", "7"])
            .row(["host", NOT_MEASURED])
    }

    #[test]
    fn numbers_end_in_one_column_and_words_begin_in_one() {
        let text = table().to_string();
        let find = |part: &str| {
            let line = text.lines().find(|line| line.contains(part)).unwrap_or_default();
            line.split(part).next().unwrap_or_default().chars().count()
        };
        assert_eq!(find("513.1 MiB") + "513.1 MiB".len(), find("1 KiB") + "1 KiB".len(), "\n{text}");
        assert_eq!(find("513.1 MiB") + "513.1 MiB".len(), find(NOT_MEASURED) + NOT_MEASURED.len(), "\n{text}");
        assert_eq!(find("weights"), find("host"), "\n{text}");
        assert!(!text.contains('\u{1b}'), "no colours: the text may go into a pipe\n{text}");
        assert!(text.lines().all(|line| line == line.trim_end()), "no blanks at line ends\n{text}");
    }

    #[test]
    fn markdown_escapes_and_fills_up() {
        let text = table().markdown();
        assert_eq!(
            text,
            "| kind | now | note |\n|---|---:|---|\n| weights | 513.1 MiB | a\\|b |\n| KV cache | 1 KiB | 7 |\n\
             | host | not measured |  |\n"
        );
    }

    #[test]
    fn html_escapes_fills_up_and_aligns() {
        let text = Table::new(["a<b", "n"]).row(["x & \"y\"", "1 > 0"]).row(["z"]).html();
        assert_eq!(
            text,
            "<table>\n<tr><th align=\"left\">a&lt;b</th><th align=\"right\">n</th></tr>\n\
             <tr><td align=\"left\">x &amp; \"y\"</td><td align=\"right\">1 &gt; 0</td></tr>\n\
             <tr><td align=\"left\">z</td><td align=\"right\"></td></tr>\n</table>\n"
        );
    }

    #[test]
    fn a_table_without_rows_or_columns_is_written_too() {
        assert!(Table::new(["only", "header"]).to_string().contains("header"));
        assert_eq!(Table::default().to_string().trim(), "");
    }
}
