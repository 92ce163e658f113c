//! Where in the code: the lines whose kept calls took longest.

use super::panel::{Panel, plain};
use super::view::View;
use gpuwhy_model::units::{count, duration, printable};

const MAX_LINES: usize = 8;

pub(super) fn panel(view: &View<'_>) -> Option<Panel> {
    let mut panel = Panel::new("where in the code", "frames")
        .column("calls kept")
        .column("took")
        .text("operation")
        .text("process");
    for line in view.overview.code.lines().iter().take(MAX_LINES) {
        let op = view.op(line.op).map_or(String::new(), |op| op.name.clone());
        panel.row(vec![
            plain(printable(&line.line)),
            plain(count(line.calls)),
            plain(duration(line.ns)),
            plain(op),
            plain(view.who(line.pid)),
        ]);
    }
    panel.if_any()
}
