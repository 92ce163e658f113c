//! Launching by what it is for: the passes of a training step, as far as PyTorch's own frames tell.

use super::Part;
use gpuwhy_model::{Frame, FrameKind};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pass {
    Forward,
    Backward,
    Optimizer,
    Communication,
    Other,
}

impl Pass {
    pub(super) fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::Backward => "backward",
            Pass::Optimizer => "optimizer",
            Pass::Communication => "communication",
            Pass::Other => "other",
        }
    }
}

/// The shares that passes have in the launching of a thread; they sum to 1.
pub(super) fn passes<'a>(
    part: &Part,
    comm: &str,
    frames_of: impl Fn(i64) -> &'a [Frame],
) -> BTreeMap<Pass, f64> {
    if is_of_autograd(comm) {
        return [(Pass::Backward, 1.0)].into();
    }
    let mut sums: BTreeMap<Pass, u64> = BTreeMap::new();
    for (stack_id, ns) in &part.stacks {
        *sums.entry(pass_of(frames_of(*stack_id))).or_default() += ns;
    }
    let all: u64 = sums.values().sum();
    if all == 0 {
        return [(Pass::Other, 1.0)].into();
    }
    sums.into_iter().map(|(pass, ns)| (pass, ns as f64 / all as f64)).collect()
}

/// A thread that does nothing but run backward passes.
pub(super) fn is_of_autograd(comm: &str) -> bool {
    comm.starts_with("pt_autograd")
}

/// The innermost frame that tells: a layer that is computed again in a backward pass is a forward pass.
fn pass_of(frames: &[Frame]) -> Pass {
    let of_file = |frame: &Frame| {
        let file = frame.file.as_deref().unwrap_or_default();
        match file {
            _ if file.contains("/torch/optim/") => Some(Pass::Optimizer),
            _ if file.contains("/torch/autograd/") => Some(Pass::Backward),
            _ if file.ends_with("/torch/_tensor.py")
                && frame.function.as_deref().is_some_and(is_backward) =>
            {
                Some(Pass::Backward)
            }
            _ if file.contains("/torch/distributed/") => Some(Pass::Communication),
            _ if file.contains("/torch/nn/") => Some(Pass::Forward),
            _ => None,
        }
    };
    frames.iter().filter(|frame| frame.kind == FrameKind::Python).find_map(of_file).unwrap_or(Pass::Other)
}

fn is_backward(function: &str) -> bool {
    function.rsplit('.').next() == Some("backward")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(file: &str, function: &str) -> Frame {
        Frame {
            kind: FrameKind::Python,
            file: Some(file.into()),
            function: Some(function.into()),
            ..Frame::default()
        }
    }

    #[test]
    fn launching_is_divided_by_the_frames_of_torch() {
        let stacks = [
            vec![python("/v/torch/nn/modules/linear.py", "forward"), python("/job/train.py", "step")],
            vec![python("/v/torch/optim/adam.py", "step"), python("/job/train.py", "step")],
            vec![python("/v/torch/_tensor.py", "Tensor.backward"), python("/job/train.py", "step")],
            vec![python("/job/train.py", "step")],
        ];
        let part = Part { stacks: [(0, 40), (1, 30), (2, 20), (3, 10)].into(), ..Part::default() };
        let found = passes(&part, "python3", |id| &stacks[id as usize]);
        let shares: Vec<(&str, f64)> = found.iter().map(|(pass, share)| (pass.name(), *share)).collect();
        assert_eq!(shares, [("forward", 0.4), ("backward", 0.2), ("optimizer", 0.3), ("other", 0.1)]);
        assert_eq!(passes(&part, "pt_autograd_0", |_| &[]), [(Pass::Backward, 1.0)].into());
        assert_eq!(passes(&Part::default(), "python3", |_| &[]), [(Pass::Other, 1.0)].into());
    }
}
