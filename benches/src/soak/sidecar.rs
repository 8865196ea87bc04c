//! rolegate beside Envoy, with a shadow policy, and a log of all decisions.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use testbed::client::get;
use testbed::{Failed, Options, Stack};

use super::Line;

/// What is running.
pub(super) struct Beside {
    pub(super) stack: Stack,
    /// The file of the shadow policy.
    pub(super) shadow: PathBuf,
}

/// How long the last comparisons and lines may take, which have the lowest priority.
const LAST: Duration = Duration::from_secs(60);

impl Beside {
    /// Starts it with the policy in `folder`.
    pub(super) async fn start(folder: &Path, policy: &str) -> Result<Self, Failed> {
        let shadow = folder.join("shadow.yaml");
        super::write(&shadow, policy, 0)?;
        // It runs until this process ends.
        let leaked = |path: PathBuf| &*path.display().to_string().leak();
        let arguments = vec![
            "--shadow",
            leaked(shadow.clone()),
            "--decision-log",
            "all",
            "--decision-log-file",
            leaked(folder.join("decisions.log")),
            "--decision-log-max-size",
            "64MiB",
            "--decision-log-keep",
            "1",
        ];
        let options = Options { arguments, ..Options::default() };
        let stack =
            Stack::start(&testbed::program()?, &folder.join("policy.yaml"), &options).await?;
        Ok(Self { stack, shadow })
    }

    pub(super) fn process(&self) -> u32 {
        self.stack.rolegates.first().map_or(0, |rolegate| rolegate.id())
    }

    /// Whether each request was decided, logged and compared, or counted as one that was not.
    pub(super) async fn counted(&self) -> Result<Vec<Line>, Failed> {
        let until = Instant::now() + LAST;
        loop {
            let lines = self.counted_now().await?;
            if lines.iter().all(|line| line.holds) || Instant::now() > until {
                return Ok(lines);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn counted_now(&self) -> Result<Vec<Line>, Failed> {
        let none = || Failed::new("soak", "there is no rolegate");
        let admin = self.stack.rolegates.first().ok_or_else(none)?.admin;
        let page = get(admin, "/metrics", &[]).await?.text();
        // The sum over all series of the metric that have these labels.
        let sum = |metric: &str, labels: &str| -> f64 {
            let series = page.lines().filter(|line| {
                line.strip_prefix(metric)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']) && rest.contains(labels))
            });
            series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
        };
        let decided = sum("rolegate_checks_total", "");
        let errors = sum("rolegate_check_errors_total", "")
            - sum("rolegate_check_errors_total", "cancelled");
        let written = sum("rolegate_decision_log_lines_total", "written");
        let lost = sum("rolegate_decision_log_lines_total", "dropped");
        let compared = sum("rolegate_shadow_checks_total", "");
        let dropped = sum("rolegate_shadow_dropped_total", "");
        let panics = sum("rolegate_shadow_checks_total", "\"error\"");
        let failed = sum("rolegate_policy_reloads_total", "failed")
            + sum("rolegate_shadow_policy_reloads_total", "failed");
        let all = "together as many as were decided";
        Ok(vec![
            Line::new("checks with a gRPC error", errors, "0", errors == 0.0),
            Line::new(
                "decisions, in the log and dropped",
                format!("{decided}, {written} and {lost}"),
                all,
                written + lost == decided,
            ),
            Line::new(
                "decisions, compared with the shadow policy and dropped",
                format!("{decided}, {compared} and {dropped}"),
                all,
                compared + dropped == decided,
            ),
            Line::new("comparisons that panicked", panics, "0", panics == 0.0),
            Line::new("reloads that failed, of both policies", failed, "0", failed == 0.0),
        ])
    }
}
