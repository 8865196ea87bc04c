//! The findings about nginx.

use std::collections::BTreeSet;
use std::path::Path;

use document::{Files, Place, Problem};

use crate::directive::Directive;
use crate::finding::{Finding, Kind};
use crate::nginx_file::Reader;
use crate::scope::Scope;
use crate::{Options, Texts};

/// The headers that describe the client's request to rolegate. Each is with the variable of nginx
/// that has the right value for it.
const REQUEST_HEADERS: [(&str, &str); 4] = [
    ("X-Original-Method", "$request_method"),
    // `$http_host` is another host in a request such as `GET http://a/` with `Host: b`.
    ("X-Original-Host", "$host"),
    ("X-Original-URI", "$request_uri"),
    ("X-Real-IP", "$remote_addr"),
];

/// The directives that lead to an application.
const PASSES: [&str; 6] =
    ["proxy_pass", "grpc_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "memcached_pass"];

/// The findings, and the files that were read.
pub(crate) fn lint(
    files: &dyn Files,
    file: &Path,
    options: Options<'_>,
) -> Result<(Vec<Finding>, Texts), Vec<Problem>> {
    let mut reader = Reader::new(files, file);
    let directives = reader.read(file, 0).map_err(|problem| vec![problem])?;
    let mut lint = Lint {
        findings: reader.findings,
        identity_headers: options.identity_headers.iter().cloned().collect(),
        upgrades: upgrades(&directives),
    };
    if !any(&directives, &|directive| is_check(directive)) {
        let problem = Problem::error(Place::start_of(file), "no `auth_request` is in it");
        return Err(vec![
            problem.help("name the file with the `server`, which may include others"),
        ]);
    }
    lint.find_identity_headers(&directives);
    lint.trusted_proxies(&directives);
    let root = Scope::new(&directives);
    // A file of `conf.d` has the servers without `http` around them.
    lint.servers(&root, &directives);
    for http in directives.iter().filter(|directive| directive.name == "http") {
        lint.servers(&root.inner(http), http.inner());
    }
    Ok((lint.findings, reader.texts))
}

/// Whether a directive is an `auth_request` other than `auth_request off`.
fn is_check(directive: &Directive) -> bool {
    directive.name == "auth_request" && directive.arg(0) != "off"
}

/// No value, `websocket`, and each variable that has only these values by its `map`.
fn upgrades(directives: &[Directive]) -> BTreeSet<String> {
    let constants = BTreeSet::from([String::new(), "websocket".to_owned()]);
    let outside = directives.iter().filter(|directive| directive.name == "map");
    let maps = outside.chain(directives.iter().flat_map(|http| http.named("map")));
    let maps = maps.filter(|map| {
        map.inner().iter().all(|line| constants.contains(&line.arg(0).to_ascii_lowercase()))
    });
    maps.map(|map| map.arg(1).to_ascii_lowercase()).chain(constants.iter().cloned()).collect()
}

/// Whether `auth_request_set` sets each variable in a value from rolegate's answer.
fn is_decided(value: &str, scope: &Scope<'_>) -> bool {
    let lines = scope.all("auth_request_set");
    variables(value).all(|name| {
        let line = lines
            .iter()
            .rev()
            .find(|line| variables(line.arg(0)).any(|set| set.eq_ignore_ascii_case(name)));
        line.is_some_and(|line| {
            variables(line.arg(1)).all(|source| source.starts_with("upstream_http_"))
        })
    })
}

/// The names of the variables in a value: `a` and `b` in `$a ${b}`.
fn variables(value: &str) -> impl Iterator<Item = &str> {
    value.split('$').skip(1).map(|text| {
        let text = text.strip_prefix('{').unwrap_or(text);
        let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        end.and_then(|end| text.get(..end)).unwrap_or(text)
    })
}

fn any(directives: &[Directive], condition: &dyn Fn(&Directive) -> bool) -> bool {
    directives.iter().any(|directive| condition(directive) || any(directive.inner(), condition))
}

struct Lint {
    findings: Vec<Finding>,
    /// The headers that tell the application who calls, in lower case.
    identity_headers: BTreeSet<String>,
    /// The values of the header `Upgrade` that lead to WebSocket only, variables among them.
    upgrades: BTreeSet<String>,
}

/// A server with its locations, whatever they are nested in.
struct Server<'d> {
    scope: Scope<'d>,
    locations: Vec<(&'d Directive, Scope<'d>)>,
}

impl Lint {
    /// Finds the headers of rolegate's answer that the configuration reads: `X-User` for
    /// `$upstream_http_x_user`.
    fn find_identity_headers(&mut self, directives: &[Directive]) {
        for directive in directives {
            if directive.name == "auth_request_set" {
                let variable = directive.arg(1).trim_matches(['$', '{', '}']);
                if let Some(header) = variable.strip_prefix("upstream_http_") {
                    let name = header.replace('_', "-").to_ascii_lowercase();
                    if !matches!(&*name, "www-authenticate" | "set-cookie" | "content-type") {
                        self.identity_headers.insert(name);
                    }
                }
            }
            self.find_identity_headers(directive.inner());
        }
    }

    /// Reports each `set_real_ip_from` that trusts everybody: then a client chooses its address.
    fn trusted_proxies(&mut self, directives: &[Directive]) {
        for directive in directives {
            if directive.name == "set_real_ip_from" && directive.arg(0).ends_with("/0") {
                self.findings.push(directive.finding(
                    Kind::ForgedRequest,
                    "any client chooses its address, by the header of `real_ip_header`",
                    "name the addresses of the proxies in front of nginx",
                ));
            }
            self.trusted_proxies(directive.inner());
        }
    }

    fn servers(&mut self, scope: &Scope<'_>, directives: &[Directive]) {
        for server in directives.iter().filter(|directive| directive.name == "server") {
            let scope = scope.inner(server);
            let mut locations = Vec::new();
            find_locations(server, &scope, &mut locations);
            self.server(server, &Server { scope, locations });
        }
    }

    fn server(&mut self, directive: &Directive, server: &Server<'_>) {
        let protects = any(directive.inner(), &is_check)
            || server.scope.get("auth_request").is_some_and(is_check);
        let checks = self.checks(server);
        // If each location has an `auth_request`, it does not matter which location a path reaches.
        // Slashes lead to no exact location (`=`), and a path to no named one (`@`).
        let mut is_open = false;
        for (location, scope) in &server.locations {
            if checks.iter().any(|check| std::ptr::eq(*check, *location)) {
                self.check(location, scope, server);
            } else if protects || PASSES.iter().any(|pass| location.named(pass).next().is_some()) {
                let is_unprotected = self.location(location, scope, server);
                is_open |= is_unprotected && !location.arg(0).starts_with(['=', '@']);
            }
        }
        if !protects {
            return;
        }
        for name in ["underscores_in_headers", "merge_slashes"] {
            let Some(setting) = server.scope.get(name) else { continue };
            match (name, setting.arg(0)) {
                ("underscores_in_headers", "on") => self.findings.push(setting.finding(
                    Kind::UnderscoreHeaders,
                    "headers such as `x_user` pass, which many applications take for `x-user`",
                    "underscores_in_headers off;",
                )),
                ("merge_slashes", "off") if is_open => self.findings.push(setting.finding(
                    Kind::UnmergedSlashes,
                    "`//admin` may reach a location without authorization, and there the page \
                     that `/admin` is",
                    "merge_slashes on; or open single paths only: location = /status { … }",
                )),
                (_, _) => {}
            }
        }
        self.rewrites(directive);
    }

    /// The locations of a server that an `auth_request` names: nginx asks rolegate through them.
    /// Reports each `auth_request` that names a location which the server does not have.
    fn checks<'d>(&mut self, server: &Server<'d>) -> Vec<&'d Directive> {
        let scopes = server.locations.iter().map(|(_, scope)| scope).chain([&server.scope]);
        let mut checks: Vec<&Directive> = Vec::new();
        for check in scopes.filter_map(|scope| scope.get("auth_request")) {
            if !is_check(check) {
                continue;
            }
            match server.find(check.arg(0)) {
                Some(location) => checks.push(location),
                None => self.findings.push(check.finding(
                    Kind::MissingCheck,
                    format!(
                        "the server has no location `{}`: whichever location matches this path \
                         answers, and its answer decides",
                        check.arg(0)
                    ),
                    format!(
                        "location = {} {{ internal; proxy_pass http://rolegate; … }}",
                        check.arg(0)
                    ),
                )),
            }
        }
        checks
    }

    /// Checks a location that an `auth_request` names.
    fn check(&mut self, location: &Directive, scope: &Scope<'_>, server: &Server<'_>) {
        if location.named("internal").next().is_none() {
            self.findings.push(location.finding(
                Kind::PublicCheck,
                "clients can call this location, and ask rolegate about others' requests",
                "internal;",
            ));
        }
        if location.named("proxy_pass").next().is_none()
            || location.named("return").next().is_some()
        {
            self.findings.push(location.finding(
                Kind::UncheckedAnswer,
                "this location does not ask rolegate: its own answer decides",
                "proxy_pass http://rolegate;",
            ));
            return;
        }
        for (name, variable) in REQUEST_HEADERS {
            let value = scope.header(name);
            if value == Some(variable) {
                continue;
            }
            let message = match value {
                None => format!("`{name}` is not overwritten: the client chooses it"),
                Some(value) => format!("`{name}` is `{value}`, which may be another request's"),
            };
            let fix = format!("proxy_set_header {name} {variable};");
            self.findings.push(location.finding(Kind::ForgedRequest, message, fix));
        }
        if let Some(headers) = scope.get("proxy_pass_request_headers")
            && headers.arg(0) == "off"
        {
            self.findings.push(headers.finding(
                Kind::MissingCredentials,
                "rolegate gets no credentials: each caller is anonymous",
                "proxy_pass_request_headers on;",
            ));
        }
        let off = scope.get("proxy_pass_request_body").is_some_and(|body| body.arg(0) == "off");
        if !off || scope.header("Content-Length") != Some("") {
            self.findings.push(location.finding(
                Kind::SentBody,
                "the length of the body is sent to rolegate, and the body is not: requests with \
                 one wait until a timeout",
                "proxy_pass_request_body off; proxy_set_header Content-Length \"\";",
            ));
        }
        if let Some(cache) = scope.get("proxy_cache").filter(|cache| cache.arg(0) != "off") {
            let key = scope.get("proxy_cache_key").map(Directive::head).unwrap_or_default();
            let needed = ["$http_authorization", "$request_method", "$request_uri", "$host"];
            let missing: Vec<&str> =
                needed.into_iter().filter(|variable| !key.contains(variable)).collect();
            if !missing.is_empty() {
                let message = format!(
                    "the decision about one request is taken for another: the key of the cache \
                     lacks {}",
                    missing.join(", ")
                );
                self.findings.push(cache.finding(
                    Kind::CachedDecision,
                    message,
                    "proxy_cache off;",
                ));
            }
        }
        self.served_denials(scope, server);
    }

    /// Checks a location that may lead to an application. Returns whether it does so without
    /// authorization.
    fn location(&mut self, location: &Directive, scope: &Scope<'_>, server: &Server<'_>) -> bool {
        let pass = PASSES.iter().find_map(|pass| location.named(pass).next());
        let Some(pass) = pass else { return false };
        match scope.get("auth_request") {
            Some(check) if is_check(check) => {}
            off => {
                let at = off.filter(|off| location.inner().iter().any(|d| std::ptr::eq(d, *off)));
                let message =
                    format!("`{}` leads to an application without authorization", pass.head());
                let fix = match at {
                    Some(_) => "remove this `auth_request off`; or write a rule for `anyone`",
                    None => "auth_request /rolegate;",
                };
                let finding = at.unwrap_or(pass).finding(Kind::Unprotected, message, fix);
                self.findings.push(finding);
                return true;
            }
        }
        if let Some(satisfy) = scope.get("satisfy").filter(|satisfy| satisfy.arg(0) == "any") {
            self.findings.push(satisfy.finding(
                Kind::SatisfyAny,
                "`allow` or `auth_basic` is enough: rolegate's denial does not count then",
                "satisfy all;",
            ));
        }
        self.changed_path(location, pass);
        if pass.name == "proxy_pass" || pass.name == "grpc_pass" {
            let setting =
                if pass.name == "grpc_pass" { "grpc_set_header" } else { "proxy_set_header" };
            let headers = scope.all(setting);
            for line in headers.iter().filter(|line| line.arg(0).eq_ignore_ascii_case("Upgrade")) {
                let value = line.arg(1).replace(['{', '}'], "").to_ascii_lowercase();
                if !self.upgrades.contains(&value) {
                    self.findings.push(line.finding(
                        Kind::AnyUpgrade,
                        "by `Upgrade: h2c` a client can start HTTP/2, whose further requests \
                         rolegate does not decide about",
                        "proxy_set_header Upgrade websocket;",
                    ));
                }
            }
            for name in &self.identity_headers {
                let variable = name.replace('-', "_");
                let lines = headers.iter().filter(|line| line.arg(0).eq_ignore_ascii_case(name));
                let values: Vec<&str> = lines.map(|line| line.arg(1)).collect();
                let message = match values.iter().find(|value| !is_decided(value, scope)) {
                    Some(value) => format!(
                        "`{name}` is `{value}`, which `auth_request_set` does not set from \
                         rolegate's answer"
                    ),
                    None if values.is_empty() => {
                        format!("the application gets `{name}` as the client sent it")
                    }
                    None => continue,
                };
                self.findings.push(pass.finding(
                    Kind::ClientHeader,
                    message,
                    format!("auth_request_set ${variable} $upstream_http_{variable}; {setting} {name} ${variable};"),
                ));
            }
        }
        self.served_denials(scope, server);
        false
    }

    /// `proxy_pass` with a path: nginx decodes the request's path, and replaces its beginning.
    fn changed_path(&mut self, location: &Directive, pass: &Directive) {
        let target = pass.arg(0);
        let after = target.split_once("://").map_or("", |(_, after)| after);
        let is_unix = after.starts_with("unix:");
        let has_path = match is_unix {
            true => after.matches(':').count() > 1,
            false => after.contains('/') || after.contains("uri") && after.contains('$'),
        };
        let is_as_sent = after.ends_with("$request_uri");
        if pass.name == "proxy_pass" && has_path && !is_as_sent {
            self.findings.push(pass.finding(
                Kind::ChangedPath,
                "nginx decodes the path and replaces its beginning: the application gets another \
                 path than rolegate",
                "leave out what is behind the host",
            ));
        }
        self.rewrites(location);
    }

    /// Reports each `rewrite` in a block or in an `if` in it, unless it redirects the client.
    fn rewrites(&mut self, block: &Directive) {
        for inner in block.inner() {
            match &*inner.name {
                "rewrite" if !matches!(inner.arg(2), "redirect" | "permanent") => {
                    self.findings.push(inner.finding(
                        Kind::ChangedPath,
                        "the application gets another path than rolegate, which decides about the \
                         request's own",
                        "leave the path to the application",
                    ));
                }
                "if" => self.rewrites(inner),
                _ => {}
            }
        }
    }

    /// Reports each `error_page` that turns a denial into an answer with another status.
    fn served_denials(&mut self, scope: &Scope<'_>, server: &Server<'_>) {
        for page in scope.all("error_page") {
            let is_of_denial = page
                .args
                .iter()
                .any(|arg| matches!(&**arg, "401" | "403" | "400" | "500" | "502" | "503" | "504"));
            let Some(status) = page.args.iter().find_map(|arg| arg.strip_prefix('=')) else {
                continue;
            };
            let target = page.args.last().map_or("", String::as_str);
            let redirects = server.find(target).is_some_and(|location| {
                location.named("return").any(|answer| !answer.arg(0).starts_with('2'))
            });
            if is_of_denial && !redirects && (status.is_empty() || status.starts_with('2')) {
                self.findings.push(page.finding(
                    Kind::ServedDenial,
                    format!("a denied request is answered by `{target}`, with its status"),
                    "leave out what begins with `=`; or let a location that only has `return 302 …` answer",
                ));
            }
        }
    }
}

impl<'d> Server<'d> {
    /// The location with this name or path.
    fn find(&self, path: &str) -> Option<&'d Directive> {
        let with = |modifier: bool| {
            self.locations.iter().map(|(location, _)| *location).find(|location| {
                let has_modifier = matches!(location.arg(0), "=" | "^~");
                location.name == "location"
                    && has_modifier == modifier
                    && location.arg(usize::from(has_modifier)) == path
            })
        };
        with(true).or_else(|| with(false))
    }
}

/// The locations in a block, and its `if` and `limit_except` blocks, in which other directives may
/// lead to an application.
fn find_locations<'d>(
    block: &'d Directive,
    scope: &Scope<'d>,
    found: &mut Vec<(&'d Directive, Scope<'d>)>,
) {
    for inner in block.inner() {
        if matches!(&*inner.name, "location" | "if" | "limit_except") {
            let inner_scope = scope.inner(inner);
            find_locations(inner, &inner_scope, found);
            found.push((inner, inner_scope));
        }
    }
}
