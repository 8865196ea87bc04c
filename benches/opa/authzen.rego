# Questions of AuthZEN as OPA's HTTP API answers them, to compare it with rolegate: see
# results/runs/2026-11-29-authzen.md. `authzen.yaml` beside this says the same.

package authzen

import rego.v1

roles := {
	"alice": ["reader"],
	"bob": ["reader"],
	"carol": ["reader", "writer"],
}

may(evaluation) if {
	"reader" in roles[evaluation.subject.id]
	evaluation.resource.type == "record"
	evaluation.action.name == "view"
}

may(evaluation) if {
	"writer" in roles[evaluation.subject.id]
	evaluation.resource.type == "record"
	evaluation.action.name == "edit"
}

may(evaluation) if {
	"writer" in roles[evaluation.subject.id]
	evaluation.resource.type == "record"
	evaluation.action.name == "delete"
	evaluation.subject.properties.department == "Sales"
}

default decision := false

decision if may(input)

# A batch of questions: what `/access/v1/evaluations` answers.
decisions := [{"decision": answer} |
	some evaluation in input.evaluations
	answer := answered(evaluation)
]

answered(evaluation) := true if may(evaluation)

answered(evaluation) := false if not may(evaluation)
