//! What an hour of a GPU costs, from a text file that operators edit.

use std::fmt;

/// `CLUSTER GPU DOLLARS` a line; `*` is any; `#` begins a comment. The closest line counts: cluster and GPU, then the cluster,
/// then the GPU, then `* *`. A GPU is told by a part of its name, in any case: `h200` is "NVIDIA H200".
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rates {
    rates: Vec<Rate>,
}

#[derive(Debug, Clone, PartialEq)]
struct Rate {
    cluster: Option<String>,
    /// In lower case.
    gpu: Option<String>,
    dollars_an_hour: f64,
}

/// What is wrong with a line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateError {
    /// From 1.
    pub line: usize,
    pub what: String,
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {} of the rates: {}; write CLUSTER GPU DOLLARS, such as `prod h200 4.20` or `* * 3`",
            self.line, self.what
        )
    }
}

impl std::error::Error for RateError {}

impl Rates {
    /// All that is wrong is told, not only the first.
    pub fn parse(text: &str) -> Result<Rates, Vec<RateError>> {
        let (mut rates, mut errors): (Vec<Rate>, Vec<RateError>) = (Vec::new(), Vec::new());
        for (at, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            match rate(&words, &rates) {
                Ok(rate) => rates.push(rate),
                Err(what) => errors.push(RateError { line: at + 1, what }),
            }
        }
        if errors.is_empty() { Ok(Rates { rates }) } else { Err(errors) }
    }

    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    /// Dollars an hour; nothing where no line fits.
    pub fn of(&self, cluster: &str, gpu: Option<&str>) -> Option<f64> {
        let gpu = gpu.map(str::to_lowercase);
        let fits = |rate: &&Rate| {
            rate.cluster.as_ref().is_none_or(|wanted| wanted == cluster)
                && rate.gpu.as_ref().is_none_or(|wanted| gpu.as_ref().is_some_and(|gpu| gpu.contains(wanted)))
        };
        let closeness = |rate: &&Rate| (rate.cluster.is_some(), rate.gpu.as_ref().map_or(0, String::len));
        self.rates.iter().filter(fits).max_by_key(closeness).map(|rate| rate.dollars_an_hour)
    }
}

fn rate(words: &[&str], known: &[Rate]) -> Result<Rate, String> {
    let [cluster, gpu, dollars] = words else {
        return Err(format!("there are {} words, not three", words.len()));
    };
    let any = |word: &str| (word != "*").then(|| word.to_string());
    let price = dollars.trim_start_matches('$');
    let dollars_an_hour: f64 = price.parse().map_err(|_| format!("`{dollars}` is no price"))?;
    if !(dollars_an_hour.is_finite() && dollars_an_hour >= 0.0) {
        return Err(format!("`{dollars}` is no price"));
    }
    let rate = Rate { cluster: any(cluster), gpu: any(gpu).map(|gpu| gpu.to_lowercase()), dollars_an_hour };
    if known.iter().any(|known| known.cluster == rate.cluster && known.gpu == rate.gpu) {
        return Err(format!("`{cluster} {gpu}` has a price already"));
    }
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_line_counts() {
        let text = "# dollars for an hour of one GPU\n* * 3\n* h200 4.5 # list price\nprod * 2.75\nprod h200 $4.20\n\n";
        let rates = Rates::parse(text).unwrap();
        assert_eq!(rates.of("prod", Some("NVIDIA H200")), Some(4.2));
        assert_eq!(rates.of("prod", Some("NVIDIA L4")), Some(2.75));
        assert_eq!(rates.of("lab", Some("NVIDIA H200 141GB")), Some(4.5));
        assert_eq!(rates.of("lab", None), Some(3.0));
        assert_eq!(Rates::parse("prod * 2").unwrap().of("lab", None), None);
    }

    #[test]
    fn every_wrong_line_is_told_with_its_number() {
        let errors = Rates::parse("* * 3\nprod h200\n* l4 cheap\n* * 4\n* a100 -1\n* t4 NaN").unwrap_err();
        assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [2, 3, 4, 5, 6]);
        assert_eq!(
            errors[1].to_string(),
            "line 3 of the rates: `cheap` is no price; write CLUSTER GPU DOLLARS, such as `prod h200 4.20` or `* * 3`"
        );
    }

    #[test]
    fn an_empty_file_is_no_error() {
        assert!(Rates::parse("# nothing yet\n").unwrap().is_empty());
    }
}
