//! Lines in columns, under a heading whose first word is the topic.

use crate::explanation::wrap::wrap;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// Columns are so far apart.
const GAP: usize = 2;
/// The topic of panels that `gpuwhy explain` has more of than any table.
pub(super) const ANSWER: &str = "explain";

/// Where that can be read which finds no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest<'a> {
    /// Nothing is recorded.
    Nowhere,
    /// In tables of the trace; the command says what the answer has.
    Recorded { explain: &'a str },
}

impl Rest<'_> {
    /// A command that is cut cannot be pasted: one that does not fit is left out.
    fn line(self, left: usize, table: &str, width: usize) -> String {
        let count = format!("... {left} more");
        let whole = match self {
            Rest::Nowhere => return count,
            Rest::Recorded { explain } if table == ANSWER => format!("{count}: {explain}"),
            Rest::Recorded { .. } => format!("{count} in table {table}"),
        };
        if whole.chars().count() <= width { whole } else { count }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Panel {
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// Where all of it is in the file.
    table: &'static str,
    /// What its signs mean; below the rows, however few of them there is room for.
    legend: Option<Line<'static>>,
    is_answer: bool,
}

#[derive(Debug, Clone)]
struct Column {
    heading: &'static str,
    left: bool,
    /// Left out where the line is too short; the lowest number first. Zero: never.
    spare: u8,
}

#[derive(Debug, Clone)]
enum Row {
    Cells(Vec<Line<'static>>),
    /// A line across all columns.
    Note(Line<'static>),
    /// Words across all columns, wrapped, behind a mark.
    Paragraph(Line<'static>, String),
}

impl Panel {
    pub(crate) fn new(title: &'static str, table: &'static str) -> Panel {
        let first = Column { heading: title, left: true, spare: 0 };
        Panel { columns: vec![first], rows: Vec::new(), table, legend: None, is_answer: false }
    }

    /// A column of numbers.
    pub(crate) fn column(mut self, heading: &'static str) -> Panel {
        self.columns.push(Column { heading, left: false, spare: 0 });
        self
    }

    /// A column of words.
    pub(crate) fn text(mut self, heading: &'static str) -> Panel {
        self.columns.push(Column { heading, left: true, spare: 0 });
        self
    }

    /// The last column is left out where lines are too short; those with a lower number before it.
    pub(crate) fn spare(mut self, order: u8) -> Panel {
        if let Some(column) = self.columns.last_mut() {
            column.spare = order;
        }
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<Line<'static>>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(Row::Cells(cells));
    }

    pub(crate) fn note(&mut self, line: Line<'static>) {
        self.rows.push(Row::Note(line));
    }

    /// Words in as many lines as they need, at most [`MAX_WRAPPED`].
    pub(crate) fn paragraph(&mut self, mark: Line<'static>, text: String) {
        self.rows.push(Row::Paragraph(mark, text));
    }

    pub(crate) fn legend(&mut self, line: Line<'static>) {
        self.legend = Some(line);
    }

    /// It says what is wrong: it gets its lines before others do.
    pub(crate) fn answer(mut self) -> Panel {
        self.is_answer = true;
        self
    }

    pub(crate) fn is_answer(&self) -> bool {
        self.is_answer
    }

    /// Nothing where there is nothing to show.
    pub(crate) fn if_any(self) -> Option<Panel> {
        (!self.rows.is_empty()).then_some(self)
    }

    /// How many lines of so many characters it takes to show all of it.
    pub(crate) fn height(&self, width: usize) -> usize {
        let of_row = |row: &Row| match row {
            Row::Paragraph(mark, text) => wrapped(mark, text, width).len(),
            Row::Cells(_) | Row::Note(_) => 1,
        };
        1 + self.rows.iter().map(of_row).sum::<usize>() + usize::from(self.legend.is_some())
    }

    /// At most so many lines of at most so many characters.
    pub(crate) fn lines(&self, width: usize, height: usize, rest: Rest<'_>) -> Vec<Line<'static>> {
        let columns = self.fitting(width);
        let widths: Vec<usize> = columns.iter().map(|column| self.width(*column)).collect();
        let heading = columns.iter().map(|column| Line::from(self.columns[*column].heading));
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut lines = vec![self.in_columns(&columns, &widths, heading).style(bold)];
        // A legend is for those rows that are there.
        let legend = self.legend.clone().filter(|_| height > MIN_WITH_LEGEND || self.height(width) <= height);
        let room = height.saturating_sub(1 + usize::from(legend.is_some()));
        let rows: Vec<Vec<Line<'static>>> = self
            .rows
            .iter()
            .map(|row| match row {
                Row::Cells(cells) => {
                    let cells = columns.iter().filter_map(|column| cells.get(*column).cloned());
                    vec![self.in_columns(&columns, &widths, cells)]
                }
                Row::Note(line) => vec![line.clone()],
                Row::Paragraph(mark, text) => wrapped(mark, text, width),
            })
            .collect();
        let fits = rows.iter().map(Vec::len).sum::<usize>() <= room;
        let mut left = if fits { room } else { room.saturating_sub(1) };
        let total = rows.len();
        let mut shown = 0;
        for mut row in rows {
            // The first sentence is rather cut than left out.
            if shown == 0 {
                row.truncate(left);
            }
            if row.len() > left || row.is_empty() {
                break;
            }
            left -= row.len();
            lines.extend(row);
            shown += 1;
        }
        if shown < total {
            lines.push(Line::from(rest.line(total - shown, self.table, width)).style(DIM));
        }
        lines.extend(legend.map(|legend| legend.style(DIM)));
        lines.truncate(height);
        lines
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => cells.get(column).map(Line::width),
            Row::Note(_) | Row::Paragraph(..) => None,
        });
        cells.chain([self.columns[column].heading.len()]).max().unwrap_or(0)
    }

    fn fitting(&self, width: usize) -> Vec<usize> {
        let mut columns: Vec<usize> = (0..self.columns.len()).collect();
        let total = |columns: &[usize]| -> usize {
            columns.iter().map(|column| self.width(*column) + GAP).sum::<usize>().saturating_sub(GAP)
        };
        while total(&columns) > width
            && let Some(least) = columns
                .iter()
                .copied()
                .filter(|at| self.columns[*at].spare > 0)
                .min_by_key(|at| self.columns[*at].spare)
        {
            columns.retain(|column| *column != least);
        }
        columns
    }

    fn in_columns(
        &self,
        columns: &[usize],
        widths: &[usize],
        cells: impl Iterator<Item = Line<'static>>,
    ) -> Line<'static> {
        let mut spans = Vec::new();
        let last = columns.len().saturating_sub(1);
        for (at, cell) in cells.enumerate() {
            let left = self.columns[columns[at]].left;
            let room = " ".repeat(widths[at].saturating_sub(cell.width()));
            let gap = " ".repeat(if at > 0 { GAP } else { 0 });
            let (before, behind) = if left { (gap, room) } else { (gap + &room, String::new()) };
            spans.push(Span::raw(before));
            spans.extend(cell.spans);
            if at < last {
                spans.push(Span::raw(behind));
            }
        }
        Line::from(spans)
    }
}

/// Lines of a paragraph: what is longer is cut.
const MAX_WRAPPED: usize = 3;
/// Lines from which on a legend takes one of them.
const MIN_WITH_LEGEND: usize = 6;

/// The words behind their mark, the lines after the first below the words.
fn wrapped(mark: &Line<'static>, text: &str, width: usize) -> Vec<Line<'static>> {
    let indent = " ".repeat(mark.width());
    let mut lines = wrap(&indent, &indent, text, width, MAX_WRAPPED).into_iter();
    let first = lines.next().map(|first| {
        let words = first.get(indent.len()..).unwrap_or_default().to_string();
        Line::from(mark.spans.iter().cloned().chain([Span::raw(words)]).collect::<Vec<_>>())
    });
    first.into_iter().chain(lines.map(Line::from)).collect()
}

pub(super) const DIM: Style = Style::new().fg(Color::DarkGray);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const ODD: Style = Style::new().fg(Color::Yellow);

/// Text as it is.
pub(super) fn plain(text: impl Into<String>) -> Line<'static> {
    Line::from(text.into())
}

/// Something is wrong.
pub(super) fn bad(text: impl Into<String>) -> Line<'static> {
    Line::from(Span::styled(text.into(), BAD))
}

/// Worth a second look.
pub(super) fn odd(text: impl Into<String>) -> Line<'static> {
    Line::from(Span::styled(text.into(), ODD))
}

/// Wrong where it is not zero; zero is not worth a word.
pub(super) fn bad_count(n: u64) -> Line<'static> {
    if n > 0 { bad(gpuwhy_model::units::count(n)) } else { plain("") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: Rest<'_> = Rest::Recorded { explain: "sudo gpuwhy explain 'a b.db'" };

    fn panel() -> Panel {
        let mut panel =
            Panel::new("GPU busy", "gpu_time").column("now").column("launches/s").spare(1).text("note");
        for pid in 1..=5 {
            panel.row(vec![plain(format!("simwork {pid}")), plain("62%"), plain("12,000"), plain("x")]);
        }
        panel
    }

    fn texts(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn columns_are_aligned_under_their_headings() {
        let lines = texts(&panel().lines(80, 80, RECORDED));
        assert_eq!(lines[0], "GPU busy   now  launches/s  note");
        assert_eq!(lines[1], "simwork 1  62%      12,000  x");
        assert_eq!(lines.len(), panel().height(80));
    }

    #[test]
    fn words_are_wrapped_behind_their_mark_and_the_legend_stays() {
        let mut panel = panel();
        panel.legend(plain("x is a note"));
        panel.paragraph(plain("high  "), "simwork waits for a lock".into());
        let lines = texts(&panel.lines(20, 40, RECORDED));
        assert_eq!(lines[6..], ["high  simwork waits", "      for a lock", "x is a note"]);
        assert_eq!(lines.len(), panel.height(20));
        let lines = texts(&panel.lines(80, 7, RECORDED));
        assert_eq!(lines.len(), 7);
        assert_eq!(lines[5..], ["... 2 more in table gpu_time", "x is a note"]);
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_counted() {
        let lines = texts(&panel().lines(28, 4, RECORDED));
        assert_eq!(lines[0], "GPU busy   now  note");
        assert_eq!(lines[2], "simwork 2  62%  x");
        assert_eq!(lines[3], "... 3 more in table gpu_time");
        assert_eq!(panel().lines(80, 1, RECORDED).len(), 1);
        assert!(panel().lines(80, 0, RECORDED).is_empty());
    }

    #[test]
    fn what_is_left_out_is_named_where_it_can_be_read_and_only_there() {
        let answer = |width, rest| {
            let mut panel = Panel::new("steps", ANSWER);
            (0..5).for_each(|_| panel.row(vec![plain("x")]));
            texts(&panel.lines(width, 3, rest))[2].clone()
        };
        assert_eq!(answer(80, RECORDED), "... 4 more: sudo gpuwhy explain 'a b.db'");
        assert_eq!(answer(30, RECORDED), "... 4 more", "what is cut cannot be pasted");
        assert_eq!(answer(80, Rest::Nowhere), "... 4 more");
        assert_eq!(texts(&panel().lines(80, 4, Rest::Nowhere))[3], "... 3 more");
    }
}
