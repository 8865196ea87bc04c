//! The findings about Caddy.

use std::collections::BTreeSet;
use std::path::Path;

use document::{Files, Place, Problem};

use crate::caddyfile::{Reader, is_site};
use crate::directive::Directive;
use crate::finding::{Finding, Kind};
use crate::{Options, Texts};

/// The directives that lead to an application.
const PASSES: [&str; 2] = ["reverse_proxy", "php_fastcgi"];
/// Blocks with directives of a site.
const GROUPS: [&str; 4] = ["handle", "handle_path", "route", "handle_errors"];
/// Directives that change the path. Outside of `route`, Caddy runs some of them before
/// `forward_auth`.
const CHANGES: [&str; 4] = ["rewrite", "uri", "try_files", "handle_path"];
/// Directives that end a request in `handle_response`.
const ENDS: [&str; 5] = ["respond", "redir", "copy_response", "error", "abort"];

/// The findings, and the files that were read.
pub(crate) fn lint(
    files: &dyn Files,
    file: &Path,
    options: Options<'_>,
) -> Result<(Vec<Finding>, Texts), Vec<Problem>> {
    let mut reader = Reader::new(files);
    let directives = reader.read_main(file).map_err(|problem| vec![problem])?;
    if !has_check(&directives) {
        let problem = Problem::error(Place::start_of(file), "no `forward_auth` is in it");
        return Err(vec![
            problem.help("name the Caddyfile with the site, which may import others"),
        ]);
    }
    let mut lint = Lint { findings: reader.findings, identity_headers: BTreeSet::new() };
    lint.identity_headers.extend(options.identity_headers.iter().cloned());
    lint.find_identity_headers(&directives);
    for directive in &directives {
        lint.trusted_proxies(directive);
        if is_site(directive) {
            lint.group(directive, &Before::default());
        }
    }
    Ok((lint.findings, reader.texts))
}

fn has_check(directives: &[Directive]) -> bool {
    directives
        .iter()
        .any(|directive| directive.name == "forward_auth" || has_check(directive.inner()))
}

/// What the directives that run before another directive have done.
#[derive(Clone, Default)]
struct Before<'d> {
    /// The matcher of each `forward_auth`. An empty matcher stands for all requests.
    checks: Vec<&'d str>,
    /// Headers of the client that were removed from all requests, or replaced, in lower case.
    replaced: BTreeSet<String>,
    /// The first directive that changed the path after a check.
    changed: Option<&'d Directive>,
}

struct Lint {
    findings: Vec<Finding>,
    identity_headers: BTreeSet<String>,
}

/// The matcher of a directive: a path or a name; empty if there is none.
fn matcher(directive: &Directive) -> &str {
    let argument = directive.arg(0);
    if argument.starts_with(['/', '@']) { argument } else { "" }
}

impl Lint {
    /// Finds the headers of `copy_headers`, as the application gets them: of `Old>New`, the name
    /// behind the `>`.
    fn find_identity_headers(&mut self, directives: &[Directive]) {
        for directive in directives {
            if directive.name == "forward_auth" {
                for copied in directive.named("copy_headers") {
                    let names = copied.args.iter().cloned();
                    let lines = copied.inner().iter().map(Directive::head);
                    for name in names.chain(lines) {
                        let name = name.rsplit('>').next().unwrap_or_default().trim();
                        self.identity_headers.insert(name.to_ascii_lowercase());
                    }
                }
            }
            self.find_identity_headers(directive.inner());
        }
    }

    /// Reports `trusted_proxies` that trusts everybody: then a client chooses `X-Forwarded-Uri`.
    fn trusted_proxies(&mut self, directive: &Directive) {
        if directive.name == "trusted_proxies"
            && directive.args.iter().any(|range| range.ends_with("/0"))
        {
            self.findings.push(directive.finding(
                Kind::ForgedRequest,
                "the `X-Forwarded-…` headers of any client go on to rolegate, which decides about \
                 the request that they name",
                "name the addresses of the proxies in front of Caddy",
            ));
        }
        directive.inner().iter().for_each(|inner| self.trusted_proxies(inner));
    }

    /// Checks a site, or a block with directives of a site. In `route` the directives run as
    /// written. Elsewhere Caddy sorts them: first what changes the path, then `forward_auth`,
    /// `request_header`, the blocks and the proxies. Returns `before`, with what the directives
    /// of the block have added to it.
    fn group<'d>(&mut self, group: &'d Directive, before: &Before<'d>) -> Before<'d> {
        let mut before = before.clone();
        if group.name == "handle_path" && !before.checks.is_empty() {
            before.changed.get_or_insert(group);
        }
        if group.name == "handle_errors" {
            // It runs in place of the directive that failed, such as `forward_auth`.
            before = Before::default();
        }
        let mut ordered: Vec<&Directive> = group.inner().iter().collect();
        if group.name != "route" {
            ordered.sort_by_key(|directive| match &*directive.name {
                name if CHANGES.contains(&name) && name != "handle_path" => 0,
                "forward_auth" => 1,
                "request_header" => 2,
                name if GROUPS.contains(&name) => 3,
                _ => 4,
            });
        }
        for directive in ordered {
            let name = &*directive.name;
            if name == "forward_auth" {
                self.check(directive, &before);
                before.checks.push(matcher(directive));
            } else if name == "request_header" {
                self.request_header(directive, &mut before);
            } else if GROUPS.contains(&name) {
                let after = self.group(directive, &before);
                // Behind a `route`, unlike a `handle`, the next directive runs, too.
                if name == "route" && matcher(directive).is_empty() {
                    before = after;
                }
            } else if CHANGES.contains(&name) && !before.checks.is_empty() {
                before.changed.get_or_insert(directive);
            } else if PASSES.contains(&name) {
                self.pass(directive, &before);
            }
        }
        before
    }

    /// Adds the header of which no value of the client is left in any request, if the directive
    /// removes it (`-NAME`) or replaces it by a text (`NAME text`).
    fn request_header(&mut self, directive: &Directive, before: &mut Before<'_>) {
        // Behind `forward_auth` it would remove the header that rolegate has set.
        if !matcher(directive).is_empty() || !before.checks.is_empty() {
            return;
        }
        let name = match &*directive.args {
            [name, value] if !name.starts_with(['+', '?', '>']) && !value.contains('{') => name,
            [name] => match name.strip_prefix('-') {
                Some(name) => name,
                None => return,
            },
            _ => return,
        };
        before.replaced.insert(name.to_ascii_lowercase());
    }

    fn check(&mut self, check: &Directive, before: &Before<'_>) {
        for up in check.named("header_up") {
            let name = up.arg(0).trim_start_matches(['+', '-', '?', '>']).to_ascii_lowercase();
            if matches!(
                &*name,
                "x-forwarded-method" | "x-forwarded-host" | "x-forwarded-uri" | "x-forwarded-for"
            ) {
                self.findings.push(up.finding(
                    Kind::ForgedRequest,
                    format!(
                        "`{name}` is not what Caddy sets: rolegate decides about another request"
                    ),
                    "leave it out",
                ));
            }
        }
        for response in check.named("handle_response") {
            let ends = response.inner().iter().any(|inner| ENDS.contains(&&*inner.name));
            if !ends {
                self.findings.push(response.finding(
                    Kind::ServedDenial,
                    "after this block the request goes on to the application, although rolegate \
                     has denied it",
                    "end it by `copy_response`, `redir` or `respond` with an error",
                ));
            }
        }
        for name in self.identity_headers.difference(&before.replaced) {
            self.findings.push(check.finding(
                Kind::ClientHeader,
                format!(
                    "the application gets `{name}` as the client sent it where rolegate sets none, as \
                     for an anonymous caller"
                ),
                format!("route {{ request_header -{name}; forward_auth … }}, in this order"),
            ));
        }
    }

    fn pass(&mut self, pass: &Directive, before: &Before<'_>) {
        let requests = matcher(pass);
        if !before.checks.iter().any(|check| check.is_empty() || *check == requests) {
            let message = match before.checks.first() {
                Some(check) => format!(
                    "`{}` gets requests that `forward_auth {check}` does not match, without \
                     authorization",
                    pass.head()
                ),
                None => format!("`{}` leads to an application without authorization", pass.head()),
            };
            let fix = "forward_auth before it, in the same block or around it, without a matcher";
            self.findings.push(pass.finding(Kind::Unprotected, message, fix));
            return;
        }
        let rewrite = pass.named("rewrite").next();
        if let Some(changed) = before.changed.or(rewrite) {
            self.findings.push(changed.finding(
                Kind::ChangedPath,
                "the application gets another path than rolegate has decided about",
                "leave the path to the application, or change it before `forward_auth`",
            ));
        }
    }
}
