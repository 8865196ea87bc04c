//! The examples in the help of each command.

pub(super) const SERVE_EXAMPLES: &str = "\
Examples:
  rolegate serve policies/people
  rolegate serve --policy /etc/rolegate --listen unix:/run/rolegate.sock
  ROLEGATE_POLICY=policy.yaml rolegate serve --config settings.yaml
  rolegate serve --policy https://files.example.com/bundle.tar.gz --bundle-public-key key.pem.pub";

pub(super) const SERVE_SOURCES: &str = "\
Each flag is also a variable (`--drain-timeout`: ROLEGATE_DRAIN_TIMEOUT) and an entry of the file
of `--config` (`drain-timeout: 5s`). A flag wins over the environment, and the environment over the
file. Commas separate several values. `--help` has all settings and examples.";

pub(super) const HEALTH_EXAMPLES: &str = "\
Examples:
  rolegate health                          asks /readyz at 127.0.0.1:9192
  rolegate health --live                   asks /healthz instead
  rolegate health --admin unix:/run/rolegate/admin.sock

In a pod: `readinessProbe: { exec: { command: [/rolegate, health] } }`.";

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  rolegate check                           ./policy.yaml
  rolegate check policies/people           or `--policy policies/people`, as for every command
  rolegate check --strict policy.yaml      for CI: warnings fail too
  rolegate check --output json policies/people";

pub(super) const TEST_EXAMPLES: &str = "\
Examples:
  rolegate test                            runs ./cases.yaml
  rolegate test policies/people            runs policies/people/cases.yaml
  rolegate test --strict policies/people   for CI: warnings fail too
  rolegate test more-cases.yaml            with the policy.yaml in the same folder
  rolegate test --policy new.yaml policies/people/cases.yaml";

pub(super) const EXPLAIN_USAGE: &str = "\
rolegate explain [OPTIONS] <METHOD> <PATH|URL> [POLICY]
       rolegate explain [OPTIONS] --decision <FILE> [POLICY]";

pub(super) const EXPLAIN_EXAMPLES: &str = "\
Examples:
  rolegate explain GET /people             under ./policy.yaml, without credentials
  rolegate explain --basic alice:wonderland GET /people policies/people
  rolegate explain --policy policies/people --user bob POST /people
  rolegate explain --policy policies/jwt --issuer https://id.example.com --user id:carol --group id:staff POST /people
  rolegate explain --policy policies/api --bearer - GET https://api.example.com/v1/products < token
  rolegate explain --policy policies/search --user leo --body @query.json POST https://search.example.com/logs-*/_search
  grep -m 1 1f2c83c5 decisions.log | rolegate explain --policy policies/people --decision -      by its x-request-id
  rolegate explain --fix --user alice POST /people policies/people      which change of the policy would allow it
  rolegate explain --policy policies/people --decision decisions.log      what is missing for its denials, grouped

`--decision` takes one or more lines that `rolegate serve` has logged. With one line the exit code
is 0 if this policy allows its request, else 1. With more lines it is 0. Credentials are not
verified again. The line of a request to a search cluster does not have the body: give it by
`--body` if you have it.";

pub(super) const DECIDE_EXAMPLES: &str = "\
Examples:
  echo '{\"path\":\"/people\",\"user\":\"alice\"}' | rolegate decide policies/people
  rolegate decide policies/people < requests.jsonl | jq -c 'select(.allowed | not)'
  jq -c '.[].request' requests.json | rolegate decide --policy policies/people > decisions.jsonl

A request has the members of a request in `cases.yaml`: `path`, and optionally `method`, `host`,
`headers`, `client`, `certificate`, `body`, `time`, and either `user` (with `groups`, `roles` and
`issuer`) or `claims`, which are taken as verified, or the credentials `basic`, `bearer` or
`api_key`. A decision has `allowed`, `status`, `rule` or `reason`, `user`, and the `headers` to set
and the `remove_headers`. A line that is not valid has `error` in their place.
docs/decide.md has more.";

pub(super) const WHO_CAN_EXAMPLES: &str = "\
Examples:
  rolegate who-can POST /people            under ./policy.yaml
  rolegate who-can POST /people policies/people
  rolegate who-can --policy policies/search --body @bulk.ndjson POST https://search.example.com/_bulk
  rolegate who-can --policy policies/api --output json GET https://api.example.com/v1/products
  rolegate who-can --client 192.0.2.7 --time 2026-01-31T08:00:00Z GET /people

After `where` is a condition under which the callers may make the request, and after `unless` one
under which they may not. Conditions use the values that you give by the flags and in the query of
the URL. Any other value may be anything.

User and group names include the prefix of their identity source.";

pub(super) const WHAT_CAN_EXAMPLES: &str = "\
Examples:
  rolegate what-can --policy policies/people --role admin
  rolegate what-can --user bob policies/people
  rolegate what-can --policy policies/jwt --issuer https://id.example.com --user id:carol --group id:staff
  rolegate what-can --policy policies/search --host search.example.com --user leo
  rolegate what-can --policy policies/people                     without credentials

It lists the rules of all roles of the caller, of the roles that these extend, and of the built-in
roles `anyone` (every caller) and `authenticated` (every caller with valid credentials). A rule
that denies wins over those that allow. After `where` is the condition under which a rule counts: an
`allow` rule where it is true, a `deny` rule unless it is false. User and group names include the prefix of their identity
source.";

pub(super) const DIFF_EXAMPLES: &str = "\
Examples:
  rolegate diff old new                    two files, or two folders with a `policy.yaml` each
  rolegate diff old                        the new one is ./policy.yaml
  rolegate diff --output markdown old new  for the comment of a pull request
  rolegate diff --output json old new
  rolegate diff --public-key signing.pem.pub published.tar.gz bundle.tar.gz

It compares the meaning of the policies, not their texts. Another order is no difference, and
neither is another name of a role that the same callers have.";

pub(super) const REPLAY_EXAMPLES: &str = "\
Examples:
  rolegate replay decisions.log new
  rolegate replay --output json --policy new - < decisions.log
  kubectl logs -l app.kubernetes.io/name=rolegate --tail=-1 | rolegate replay --policy new -

The last example reads the logs of all pods of the shared service. `kubectl logs POD -c rolegate`
prints the log of a sidecar. Write the log with `rolegate serve --decision-log all`: with the
default, `denied`, it has no allowed requests, and `replay` warns of that. Passwords and tokens are
not verified again. Lines with invalid credentials, and lines whose values were cut or masked, are
named and not evaluated. So are requests that a search cluster denied, or would deny under this
policy: `replay` shows no change of the cluster's role files. In JSON, `groups` has the changes
(`of_others` counts the requests of callers beyond the first 100 of each), `otherwise` counts the
same answers by another rule or for another reason, and `not_evaluated` has the lines that say too
little, with the reason. docs/policy-changes.md has all keys.";

pub(super) const SUGGEST_EXAMPLES: &str = "\
Examples:
  rolegate suggest decisions.log > policy.yaml
  rolegate suggest decisions.log /etc/rolegate      also lists the rules that decided no request
  rolegate suggest --output json - < decisions.log

Write the log with `rolegate serve --decision-log all`. The suggested policy has roles and grants.
Add the `identity` of your own policy, with `roles_from_token: false` for each issuer.";

pub(super) const ACCESS_REVIEW_EXAMPLES: &str = "\
Examples:
  rolegate access-review --policy /etc/rolegate decisions.log
  rolegate access-review --output csv decisions.log decisions.log.1 > review.csv
  zcat decisions-2026-*.gz | rolegate access-review --since 2026-09-01 --output markdown - > review.md

What nobody used comes first. Write the log with `rolegate serve --decision-log all`: without
allowed requests everything would look unused, so that is an error. A line uses the rule that
allowed it, and each grant that gives the caller a role with that rule: if there are several, all
count as used. `deny` rules are not reviewed, and neither are a search cluster's role files.
docs/policy-changes.md has more.";

pub(super) const IMPORT_EXAMPLES: &str = "\
Examples:
  rolegate import envoy-rbac envoy.yaml > policy.yaml
  rolegate import istio policies.yaml authentication.yaml > policy.yaml";

pub(super) const LINT_ENVOY_EXAMPLES: &str = "\
Examples:
  rolegate lint-envoy deploy/envoy/envoy.yaml
  rolegate lint-envoy --strict --accept client-address envoy.yaml      for CI: notes fail too
  curl -s 'localhost:9901/config_dump?include_eds' | rolegate lint-envoy -      of a running Envoy

Each finding is `unsafe`, `broken` (every check fails), `slow` or a `note`, and has a name in
brackets, which `docs/reference/envoy-findings.md` explains.";

pub(super) const LINT_PROXY_EXAMPLES: &str = "\
Examples:
  rolegate lint-proxy /etc/nginx/nginx.conf
  rolegate lint-proxy --identity-header x-user --identity-header x-roles Caddyfile
  nginx -T | rolegate lint-proxy --proxy nginx -      of a running nginx, with its includes

Each finding is `unsafe`, `broken` or a `note`, and has a name in brackets, which
`docs/reference/proxy-findings.md` explains.";

pub(super) const IMPORT_ENVOY_EXAMPLES: &str = "\
Examples:
  rolegate import envoy-rbac envoy.yaml > policy.yaml
  rolegate import envoy-rbac --listener public --output policy/policy.yaml bootstrap.json
  rolegate import envoy-rbac --partial envoy.yaml      allows less where something cannot be expressed, and names it

The policy gives the same answers, or is stricter with a note (FILE:LINE:COLUMN) for each thing
that cannot be expressed. There are two exceptions, each with a note. The policy compares canonical
paths, as Envoy does with `normalize_path` and `merge_slashes`: for an Envoy without these two it
also allows other spellings of an allowed path. If the groups claim of a token is a string and not
a list, each word in it counts as a group. Without a note, each imported policy denies ambiguous
paths (400), tokens without `exp` (401) and credentials that it cannot verify (401), also where
everyone is allowed: see docs/import.md.";

pub(super) const IMPORT_ISTIO_EXAMPLES: &str = "\
Examples:
  rolegate import istio policies.yaml authentication.yaml > policy.yaml
  rolegate import istio --namespace shop --label app=reports *.yaml > policy.yaml
  rolegate import istio --root-namespace infra --namespace shop *.yaml > policy.yaml
  kubectl get authorizationpolicies,requestauthentications -n shop -o yaml | rolegate import istio --partial -

The policy gives the same answers, or is stricter with a note (FILE:LINE:COLUMN) for each thing
that cannot be expressed. There are two exceptions. The policy compares canonical paths, but
Istio's default `pathNormalization` (`BASE`) does not merge slashes: so the policy also allows
other spellings of an allowed path, such as `/a//b`. If the groups claim of a token is a string and
not a list, each word in it counts as a group, with a note. Without a note, each imported policy
denies ambiguous paths (400), tokens without `exp` (401) and credentials that it cannot verify
(401), also where everyone is allowed: see docs/import.md.";

pub(super) const BUNDLE_EXAMPLES: &str = "\
Examples:
  rolegate bundle new-key signing.pem                        once: signing.pem and signing.pem.pub
  rolegate bundle build policies/people -o bundle.tar.gz
  rolegate bundle sign --key signing.pem bundle.tar.gz
  rolegate bundle inspect --public-key signing.pem.pub bundle.tar.gz
  rolegate serve --policy https://files.example.com/bundle.tar.gz --bundle-public-key signing.pem.pub

Keys are those of `openssl genpkey -algorithm ed25519`. `check`, `test`, `explain`, `who-can`,
`what-can`, `diff`, `replay` and `suggest` also take the file of a bundle. `serve` takes its URL.";

pub(super) const HASH_EXAMPLES: &str = "\
Examples:
  rolegate hash-password                   prompts twice, and does not show what is typed
  pass show people/alice | rolegate hash-password
  rolegate hash-password --algorithm bcrypt --cost 12 < password";

pub(super) const PASSWD_EXAMPLES: &str = "\
Examples:
  rolegate passwd users.htpasswd alice     prompts twice, and does not show what is typed
  pass show people/alice | rolegate passwd users.htpasswd alice";

pub(super) const NEW_API_KEY_EXAMPLES: &str = "\
Examples:
  rolegate new-api-key --user ci --group deploy --expires 2027-01-31 --file keys.yaml
  rolegate new-api-key --user ci --file keys.yaml | pass insert -m ci/api-key";

pub(super) const SCHEMA_EXAMPLES: &str = "\
Examples:
  rolegate schema > policy.schema.json           of policy.yaml
  rolegate schema include > include.schema.json  of the files that it includes, which need no `version`
  rolegate schema cases > cases.schema.json
  rolegate schema settings > settings.schema.json

An editor with the YAML language server takes a first line `# yaml-language-server:
$schema=policy.schema.json`.";

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  rolegate completions bash > ~/.local/share/bash-completion/completions/rolegate
  rolegate completions fish > ~/.config/fish/completions/rolegate.fish";
