package cli

import (
	"tidemark.dev/internal/drive/target"
	"tidemark.dev/internal/ground/fault"
)

// insideKey marks the process that runs inside a namespace of its own.
const insideKey = "TIDEMARK_INSIDE_NAMESPACE"

// isolate begins this very command again in a network namespace with the given congestion control. inside tells the
// process that is there to go on.
func (t *tool) isolate(congestion string) (inside bool, err error) {
	if t.Getenv(insideKey) != "" {
		return true, target.EnterNamespace(congestion)
	}
	env := append(t.Environment(), insideKey+"=1")
	return false, fault.Hint(target.Namespace(t.Self, t.Args, env), "--congestion needs root")
}
