# The policy `policies/people` for OPA-Envoy, to compare it with rolegate: see "Comparing with OPA-Envoy" in
# benches/README.md. The benchmark `peers` runs a few requests through it.
#
# Rego has no password hashes, so the passwords of the example are compared by their SHA-256, which is faster and weaker
# than the hashes that rolegate verifies once.

package envoy.authz

import rego.v1

passwords := {
	"alice": "a71a7c7011f53a1bab3642ec2ce12593f05230ace8de1e3e7645f69efac1443d",
	"bob": "df6b07176a9b17cc4c9afc257bd404732e7d09b76436c7890f7b7be14e579794",
}

roles := {
	"alice": ["guest"],
	"bob": ["admin", "guest"],
}

rules := {
	"guest": [{"method": "GET", "path": "/people"}],
	"admin": [{"method": "POST", "path": "/people"}],
}

request := input.attributes.request.http

path := split(request.path, "?")[0]

# The name and the password of the caller (RFC 7617).
credentials := {"name": substring(pair, 0, colon), "password": substring(pair, colon + 1, -1)} if {
	[scheme, encoded] := split(request.headers.authorization, " ")
	lower(scheme) == "basic"
	pair := base64.decode(encoded)
	colon := indexof(pair, ":")
	colon >= 0
}

user := credentials.name if crypto.sha256(credentials.password) == passwords[credentials.name]

default allowed := false

allowed if {
	some role in roles[user]
	some rule in rules[role]
	rule.method == request.method
	rule.path == path
}

default status := 401

status := 403 if user

# What the plugin answers: `plugins.envoy_ext_authz_grpc.path=envoy/authz/answer`.
answer := {"allowed": true, "headers": {"x-user": user, "x-roles": concat(",", roles[user])}} if allowed

answer := {"allowed": false, "http_status": status} if not allowed
