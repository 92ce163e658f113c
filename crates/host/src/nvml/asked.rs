//! Questions to a GPU, and which of them it refuses.

use gpuwhy_nvml::Error;

/// How long a refusal is believed. Not for ever: dividing a GPU or starting its fabric changes what it answers.
pub(super) const BELIEVED_NS: u64 = 60_000_000_000;

/// What one GPU refused to tell, so that it is not asked every second.
#[derive(Debug, Default)]
pub(super) struct Asked {
    refused: Vec<&'static str>,
    since_ns: u64,
    lost: bool,
}

impl Asked {
    /// To be called before the questions of a reading.
    pub(super) fn begin(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.since_ns) >= BELIEVED_NS {
            self.refused.clear();
            self.since_ns = now_ns;
        }
    }

    /// The answer, unless the GPU does not give one, did not give one lately, or is gone.
    pub(super) fn ask<T>(
        &mut self,
        question: &'static str,
        answer: impl FnOnce() -> Result<T, Error>,
    ) -> Option<T> {
        if self.lost || self.refused.contains(&question) {
            return None;
        }
        match answer() {
            Ok(answer) => return Some(answer),
            Err(Error::GpuLost) => self.lost = true,
            Err(error) if is_refusal(&error) => self.refused.push(question),
            Err(_) => {}
        }
        None
    }

    /// Whether the GPU fell off the bus. It does not come back while the library is open.
    pub(super) fn lost(&self) -> bool {
        self.lost
    }
}

/// Whether asking again at once can only be refused again.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::NotSupported
            | Error::NoPermission
            | Error::InvalidArg
            | Error::FunctionNotFound
            | Error::FailedToLoadSymbol(_)
            // Codes the wrapper does not know, such as that of what a newer driver no longer has.
            | Error::UnexpectedVariant(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_question_is_asked_once_a_minute() {
        let (mut asked, mut calls) = (Asked::default(), 0);
        for second in 0..120 {
            asked.begin(second * 1_000_000_000 + BELIEVED_NS);
            let answer: Option<u32> = asked.ask("fans", || {
                calls += 1;
                Err(Error::NotSupported)
            });
            assert_eq!(answer, None);
        }
        assert_eq!(calls, 2);
    }

    #[test]
    fn a_failure_that_may_pass_is_asked_again() {
        let mut asked = Asked::default();
        assert_eq!(asked.ask("power", || Err::<u32, _>(Error::Unknown)), None);
        assert_eq!(asked.ask("power", || Ok(5)), Some(5));
    }

    #[test]
    fn a_lost_gpu_is_asked_nothing_more() {
        let mut asked = Asked::default();
        assert_eq!(asked.ask("power", || Err::<u32, _>(Error::GpuLost)), None);
        assert!(asked.lost());
        assert_eq!(asked.ask("clock", || Ok(5)), None);
    }
}
