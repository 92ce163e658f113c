//! What was said of pushing while a trace runs: each thing once, in a sentence.

use gpuwhy_metrics::otlp::Signal;
use gpuwhy_metrics::push::DeliveryNow;
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct PushNews {
    trouble: bool,
    not_taken: BTreeSet<Signal>,
}

impl PushNews {
    /// What is new. `fate` says what becomes of what a server cannot take now.
    pub(crate) fn news(&mut self, now: &DeliveryNow, fate: &str) -> Vec<String> {
        let unreported = now.not_taken.iter().filter(|(signal, _)| self.not_taken.insert(**signal));
        let mut news: Vec<String> = unreported
            .map(|(signal, message)| format!("it takes no {} ({message}), so none are sent", signal.name()))
            .collect();
        if let Some(trouble) = now.trouble.as_ref().filter(|_| !self.trouble) {
            self.trouble = true;
            news.push(format!("{trouble}; what cannot be sent {fate}"));
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_told_once_and_trouble_after_what_is_not_taken() {
        let mut reported = PushNews::default();
        let mut now = DeliveryNow::default();
        assert!(reported.news(&now, "is counted").is_empty());
        now.not_taken.insert(Signal::Traces, "HTTP 404 from /v1/traces".into());
        let expected = ["it takes no traces (HTTP 404 from /v1/traces), so none are sent"];
        assert_eq!(reported.news(&now, "is counted"), expected);
        assert!(reported.news(&now, "is counted").is_empty());
        now.not_taken.insert(Signal::Logs, "HTTP 404 from /v1/logs".into());
        now.trouble = Some("connection refused".into());
        let expected = [
            "it takes no logs (HTTP 404 from /v1/logs), so none are sent",
            "connection refused; what cannot be sent is counted",
        ];
        assert_eq!(reported.news(&now, "is counted"), expected);
        now.trouble = Some("connection reset".into());
        assert!(reported.news(&now, "is counted").is_empty());
    }
}
