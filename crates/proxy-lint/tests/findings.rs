//! What is reported, each for a good configuration in which one thing is replaced; and what is
//! accepted and cannot be read.
#![expect(clippy::panic, reason = "a failed set-up is a failed test")]

use std::collections::BTreeSet;
use std::path::Path;

use document::{FindingKind as _, MapFiles};
use proxy_lint::{Finding, Kind, Options, Proxy, lint};

const NGINX: &str = include_str!("good.conf");
const CADDY: &str = include_str!("good.Caddyfile");

/// Edits of the configuration of nginx, and the first lines of the findings.
const OF_NGINX: &[(&str, &str, &[&str])] = &[
    (
        "            auth_request /rolegate;\n",
        "",
        &[
            "16:13: unsafe[unprotected]: `proxy_pass http://app` leads to an application without authorization",
        ],
    ),
    (
        "auth_request /rolegate;",
        "auth_request off;",
        &[
            "13:13: unsafe[unprotected]: `proxy_pass http://app` leads to an application without authorization",
        ],
    ),
    (
        "location = /healthz { return 200; }",
        "location /open { proxy_pass http://app; }",
        &["21:26: unsafe[unprotected]"],
    ),
    (
        "location = /healthz { return 200; }",
        "location ~ \\.php$ { if ($arg_a) { fastcgi_pass unix:/run/php.sock; } }",
        &["21:43: unsafe[unprotected]"],
    ),
    // Another server for the same application.
    (
        "    server {\n        listen 443",
        "    server { location / { proxy_pass http://app; } }\n    server {\n        listen 443",
        &["9:27: unsafe[unprotected]"],
    ),
    (
        "auth_request /rolegate;",
        "auth_request /rolegate; satisfy any; allow 10.0.0.0/8;",
        &["13:37: unsafe[satisfy-any]: `allow` or `auth_basic` is enough"],
    ),
    (
        "proxy_set_header X-User $user;",
        "",
        &["17:13: unsafe[client-header]: the application gets `x-user`"],
    ),
    (
        "proxy_set_header X-User $user;",
        "proxy_set_header X-User $http_x_user;",
        &["17:13: unsafe[client-header]: `x-user` is `$http_x_user`, which `auth_request_set`"],
    ),
    (
        "proxy_set_header X-User $user;",
        "proxy_set_header X-User $user; proxy_set_header X-User \"a $http_x_user\";",
        &["17:13: unsafe[client-header]: `x-user` is `a $http_x_user`"],
    ),
    ("proxy_set_header X-User $user;", "proxy_set_header X-User ${user};", &[]),
    ("proxy_set_header X-User $user;", "proxy_set_header X-User \"\";", &[]),
    (
        "auth_request_set $user $upstream_http_x_user;",
        "set $user $http_x_user;",
        &["17:13: unsafe[client-header]: `x-user` is `$user`, which `auth_request_set`"],
    ),
    (
        "auth_request_set $user $upstream_http_x_user;",
        "auth_request_set $user $http_x_user;",
        &["17:13: unsafe[client-header]: `x-user` is `$user`"],
    ),
    (
        "auth_request_set $user $upstream_http_x_user;",
        "auth_request_set $user $upstream_http_x_user; auth_request_set $roles $upstream_http_x_roles;",
        &["17:13: unsafe[client-header]: the application gets `x-roles` as the client sent it"],
    ),
    (
        "proxy_set_header Host $host;",
        "proxy_set_header Connection upgrade; proxy_set_header Upgrade $http_upgrade;",
        &["16:50: unsafe[any-upgrade]: by `Upgrade: h2c` a client can start HTTP/2"],
    ),
    (
        "proxy_set_header Host $host;",
        "proxy_set_header Upgrade $any;",
        &["16:13: unsafe[any-upgrade]"],
    ),
    ("proxy_set_header Host $host;", "proxy_set_header Upgrade WebSocket;", &[]),
    ("proxy_set_header Host $host;", "proxy_set_header Upgrade ${websocket};", &[]),
    (
        "proxy_pass http://app;",
        "proxy_pass http://app/;",
        &["17:13: unsafe[changed-path]: nginx decodes the path and replaces its beginning"],
    ),
    ("proxy_pass http://app;", "proxy_pass http://app$request_uri;", &[]),
    ("proxy_pass http://app;", "proxy_pass http://app$uri;", &["17:13: unsafe[changed-path]"]),
    (
        "proxy_pass http://app;",
        "rewrite ^/a/(.*)$ /$1 break; proxy_pass http://app;",
        &["17:13: unsafe[changed-path]"],
    ),
    ("proxy_pass http://app;", "rewrite ^/a$ /b permanent; proxy_pass http://app;", &[]),
    ("listen 443 ssl;", "rewrite ^/a/(.*)$ /$1 last;", &["10:9: unsafe[changed-path]"]),
    ("listen 443 ssl;", "merge_slashes off;", &[]),
    (
        "location = /healthz { return 200; }",
        "merge_slashes off; location /open { proxy_pass http://app; }",
        &["21:9: unsafe[unmerged-slashes]: `//admin`", "21:45: unsafe[unprotected]"],
    ),
    (
        "location = /healthz { return 200; }",
        "merge_slashes off; location = /open { proxy_pass http://app; }",
        &["21:47: unsafe[unprotected]"],
    ),
    (
        "location @login { return 302 https://login.example.com/; }",
        "merge_slashes off; location @login { proxy_pass http://app; }",
        &["18:13: unsafe[served-denial]", "24:46: unsafe[unprotected]"],
    ),
    (
        "listen 443 ssl;",
        "underscores_in_headers on;",
        &["10:9: unsafe[underscore-headers]: headers such as `x_user` pass"],
    ),
    (
        "error_page 401 = @login;",
        "error_page 401 403 =200 /index.html;",
        &["18:13: unsafe[served-denial]: a denied request is answered by `/index.html`"],
    ),
    (
        "location @login { return 302 https://login.example.com/; }",
        "location @login { root /srv; }",
        &["18:13: unsafe[served-denial]: a denied request is answered by `@login`"],
    ),
    ("error_page 401 = @login;", "error_page 401 /login.html;", &[]),
    ("internal;", "", &["26:9: unsafe[public-check]: clients can call this location"]),
    (
        "proxy_pass http://rolegate;",
        "return 200;",
        &["26:9: unsafe[unchecked-answer]: this location does not ask rolegate"],
    ),
    (
        "location = /rolegate",
        "location = /other",
        &[
            "13:13: unsafe[missing-check]: the server has no location `/rolegate`: whichever location matches",
            "22:28: unsafe[missing-check]",
            "28:13: unsafe[unprotected]",
        ],
    ),
    (
        "proxy_pass_request_body off;",
        "",
        &["26:9: broken[sent-body]: the length of the body is sent to rolegate"],
    ),
    ("proxy_set_header Content-Length \"\";", "", &["26:9: broken[sent-body]"]),
    (
        "internal;",
        "internal; proxy_pass_request_headers off;",
        &["27:23: broken[missing-credentials]: rolegate gets no credentials"],
    ),
    ("internal;", "internal; proxy_pass_request_headers on;", &[]),
    (
        "proxy_set_header X-Original-URI $request_uri;",
        "",
        &[
            "26:9: unsafe[forged-request]: `X-Original-URI` is not overwritten: the client chooses it",
        ],
    ),
    (
        "proxy_set_header X-Original-URI $request_uri;",
        "proxy_set_header X-Original-URI $uri;",
        &[
            "26:9: unsafe[forged-request]: `X-Original-URI` is `$uri`, which may be another request's",
        ],
    ),
    (
        "proxy_set_header X-Original-Host $host;",
        "proxy_set_header X-Original-Host $http_host;",
        &[
            "26:9: unsafe[forged-request]: `X-Original-Host` is `$http_host`, which may be another request's",
        ],
    ),
    (
        "proxy_set_header X-Real-IP $remote_addr;",
        "proxy_set_header X-Real-IP $http_x_real_ip;",
        &["26:9: unsafe[forged-request]: `X-Real-IP`"],
    ),
    (
        "listen 443 ssl;",
        "set_real_ip_from 0.0.0.0/0; real_ip_header X-Forwarded-For;",
        &["10:9: unsafe[forged-request]: any client chooses its address"],
    ),
    (
        "auth_request /rolegate;",
        "auth_request /rolegate; set_real_ip_from 192.0.2.0/24; set_real_ip_from ::/0;",
        &["13:68: unsafe[forged-request]: any client chooses its address"],
    ),
    (
        "internal;",
        "internal; proxy_cache decisions; proxy_cache_key \"$request_method $http_host$request_uri\";",
        &[
            "27:23: unsafe[cached-decision]: the decision about one request is taken for another: the key of the cache lacks $http_authorization, $host",
        ],
    ),
    (
        "events {}",
        "include modules/a.conf;",
        &["2:1: note[unseen-include]: `modules/a.conf` is not there"],
    ),
    // Braces in texts and comments of Lua.
    ("events {}", "init_by_lua_block { a(\"}\\\"}\", '}\\'}') }", &[]),
    ("events {}", "init_by_lua_block { a(1 - 2) -- } isn't\n --[=} isn't\n }", &[]),
    ("events {}", "init_by_lua_block { a([[}\"]], [=[]]}]=], b[c]) --[==[\n]=]}]==] }", &[]),
    (
        "auth_request /rolegate;",
        "# accept: unprotected because the application authorizes\n            auth_request off;",
        &[],
    ),
    ("events {}", "# accept: unprotected because\n", &["2:1: note[acceptance]"]),
];

/// The same for Caddy.
const OF_CADDY: &[(&str, &str, &[&str])] = &[
    (
        "\timport rolegate 127.0.0.1:9191\n",
        "\thandle /a {\n\t\timport rolegate x:1\n\t}\n",
        &[
            "27:2: unsafe[unprotected]: `reverse_proxy 127.0.0.1:8080` leads to an application without authorization",
        ],
    ),
    (
        "forward_auth {args[0]}",
        "forward_auth /admin/* {args[0]}",
        &[
            "25:2: unsafe[unprotected]: `reverse_proxy 127.0.0.1:8080` gets requests that `forward_auth /admin/*` does not match",
        ],
    ),
    (
        "\treverse_proxy 127.0.0.1:8080",
        "\treverse_proxy 127.0.0.1:8080\n\thandle_errors {\n\t\treverse_proxy 127.0.0.1:8080\n\t}",
        &["27:3: unsafe[unprotected]"],
    ),
    (
        "\t\trequest_header -X-User\n",
        "",
        &[
            "11:3: unsafe[client-header]: the application gets `x-user` as the client sent it where rolegate sets none",
        ],
    ),
    ("request_header -X-User", "request_header X-User nobody", &[]),
    // The client's value is kept, or comes back by a placeholder.
    ("request_header -X-User", "request_header +X-User nobody", &["12:3: unsafe[client-header]"]),
    (
        "request_header -X-User",
        "request_header X-User {http.request.header.X-Name}",
        &["12:3: unsafe[client-header]"],
    ),
    // Behind `forward_auth` it would remove what rolegate has set.
    (
        "\troute {\n\t\trequest_header -X-User\n",
        "\thandle {\n\t\trequest_header -X-User\n",
        &[
            "12:3: unsafe[client-header]",
            "12:3: unsafe[client-header]",
            "25:2: unsafe[unprotected]",
        ],
    ),
    (
        "\treverse_proxy 127.0.0.1:8080",
        "\thandle_path /api/* {\n\t\treverse_proxy 127.0.0.1:8080\n\t}",
        &["25:2: unsafe[changed-path]: the application gets another path than rolegate"],
    ),
    (
        "\treverse_proxy 127.0.0.1:8080",
        "\troute {\n\t\turi strip_prefix /api\n\t\treverse_proxy 127.0.0.1:8080\n\t}",
        &["26:3: unsafe[changed-path]"],
    ),
    // Caddy changes the path before it asks rolegate.
    (
        "\troute {\n\t\trequest_header -X-User",
        "\troute {\n\t\turi strip_prefix /api\n\t\trequest_header -X-User",
        &[],
    ),
    (
        "192.0.2.0/24",
        "0.0.0.0/0",
        &[
            "4:3: unsafe[forged-request]: the `X-Forwarded-…` headers of any client go on to rolegate",
        ],
    ),
    (
        "uri /",
        "uri /\n\t\t\ttrusted_proxies ::/0",
        &["14:4: unsafe[forged-request]: the `X-Forwarded-…` headers of any client"],
    ),
    (
        "uri /",
        "uri /\n\t\t\theader_up X-Forwarded-Uri {http.request.uri.path}",
        &["14:4: unsafe[forged-request]: `x-forwarded-uri` is not what Caddy sets"],
    ),
    (
        "uri /",
        "uri /\n\t\t\t@denied status 401 403\n\t\t\thandle_response @denied {\n\t\t\t\theader X-Denied 1\n\t\t\t}",
        &["15:4: unsafe[served-denial]: after this block the request goes on to the application"],
    ),
    (
        "uri /",
        "uri /\n\t\t\t@denied status 401\n\t\t\thandle_response @denied {\n\t\t\t\tredir https://login.example.com\n\t\t\t}",
        &[],
    ),
    (
        "handle /healthz {",
        "import sites/*\n\timport more.caddy\n\thandle /healthz {",
        &["23:2: note[unseen-include]: `more.caddy` is not there"],
    ),
    (
        "handle /healthz {",
        "import sites/*/Caddyfile\n\thandle /healthz {",
        &["22:2: note[unseen-include]: `sites/*/Caddyfile` is not there"],
    ),
];

fn found(proxy: Proxy, text: &str) -> Vec<Finding> {
    let options = Options { proxy, identity_headers: &["x-user".to_owned()], accepted: &[] };
    let maps = "map $http_upgrade $any { default $http_upgrade; }\n\
                map $http_upgrade $websocket { default ''; websocket websocket; }\n";
    let files = MapFiles::new("conf/main", text).and("conf/more/a.conf", maps);
    lint(&files, Path::new("conf/main"), options)
        .unwrap_or_else(|problems| panic!("{problems:?}\n{text}"))
}

/// The beginning of each finding, of the length that is expected of it.
fn compare(proxy: Proxy, good: &str, cases: &[(&str, &str, &[&str])]) -> BTreeSet<Kind> {
    assert_eq!(found(proxy, good), []);
    let (mut kinds, mut differences) = (BTreeSet::new(), Vec::new());
    for (old, new, expected) in cases {
        assert_eq!(good.matches(old).count(), 1, "{old}");
        let findings = found(proxy, &good.replace(old, new));
        kinds.extend(findings.iter().map(|finding| finding.kind));
        let texts: Vec<String> = findings
            .iter()
            .map(|finding| finding.to_string().replacen("conf/main:", "", 1))
            .collect();
        let same = texts.len() == expected.len()
            && texts.iter().zip(*expected).all(|(text, expected)| text.starts_with(expected));
        if !same {
            differences.push(format!("{old} -> {new}:\n{}", texts.join("\n")));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    kinds
}

#[test]
fn each_finding_is_reported_where_its_cause_is() {
    let mut kinds = compare(Proxy::Nginx, NGINX, OF_NGINX);
    kinds.extend(compare(Proxy::Caddy, CADDY, OF_CADDY));
    let missing: Vec<&Kind> = Kind::ALL.iter().filter(|kind| !kinds.contains(kind)).collect();
    assert!(missing.is_empty(), "no case has {missing:?}");
}

/// A server in `conf.d` has no `http` around it.
#[test]
fn included_files_are_checked_at_their_own_places() {
    let main = "http { include conf.d/*.conf; }\n";
    let site = "server { location / { proxy_pass http://app; } location /a { auth_request /b; } \
                location = /b { return 200; } }\n";
    let options =
        Options { proxy: Proxy::Nginx, identity_headers: &[], accepted: &[Kind::PublicCheck] };
    let files = MapFiles::new("nginx.conf", main).and("conf.d/site.conf", site);
    for file in ["nginx.conf", "conf.d/site.conf"] {
        let findings = lint(&files, Path::new(file), options).unwrap();
        let places: Vec<String> = findings.iter().map(|finding| finding.at.to_string()).collect();
        assert_eq!(places, ["conf.d/site.conf:1:23", "conf.d/site.conf:1:81"], "{findings:?}");
    }
}

/// A configuration that is read in part must not look safe.
#[test]
fn what_cannot_be_read_is_an_error() {
    for (proxy, text, problem) in [
        (
            Proxy::Nginx,
            "http { server { location / { proxy_pass http://app; } } }",
            "no `auth_request`",
        ),
        (Proxy::Nginx, "http { auth_request /a;", "`}` is missing"),
        (Proxy::Nginx, "auth_request /a", "`;` is missing"),
        (Proxy::Nginx, "}", "a brace without a directive"),
        (Proxy::Nginx, "a \"b", "a quoted text has no end"),
        (Proxy::Nginx, "include main;", "includes itself"),
        (Proxy::Nginx, "content_by_lua_block { a", "a block of Lua has no end"),
        (Proxy::Nginx, "content_by_lua_block { a [=[ }]]", "a block of Lua has no end"),
        (Proxy::Caddy, "a.example {\n\treverse_proxy b\n}\n", "no `forward_auth`"),
        (Proxy::Caddy, "a.example {\n\tforward_auth b\n", "`}` is missing"),
        (Proxy::Caddy, "a.example \"b", "a quoted text has no end"),
        (Proxy::Caddy, "(a) {\n\timport a\n}\nb.example {\n\timport a\n}\n", "it imports itself"),
        (Proxy::Caddy, "b.example {\n\timport main\n}\n", "imports itself"),
    ] {
        let options = Options { proxy, identity_headers: &[], accepted: &[] };
        let files = MapFiles::new("main", text);
        let problems = lint(&files, Path::new("main"), options).unwrap_err();
        assert!(
            problems.iter().any(|found| found.message.contains(problem)),
            "{text}: {problems:?}"
        );
    }
    let deep = format!("{}auth_request /a;", "a {".repeat(100));
    let options = Options { proxy: Proxy::Nginx, identity_headers: &[], accepted: &[] };
    assert!(lint(&MapFiles::new("main", deep), Path::new("main"), options).is_err());
    assert!(lint(&MapFiles::default(), Path::new("main"), options).is_err());
}

/// One site alone may be written without braces.
#[test]
fn a_caddyfile_without_braces_is_one_site() {
    let text = "app.example.com\nroute {\n\trequest_header -X-User\n\tforward_auth a:1 {\n\t\turi /\n\t}\n}\nreverse_proxy b:2\n";
    assert_eq!(found(Proxy::Caddy, text), []);
    let without = text.replace("forward_auth a:1", "forward_auth /x a:1");
    assert_eq!(found(Proxy::Caddy, &without).len(), 1);
}
