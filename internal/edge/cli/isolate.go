package cli

import (
	"os/exec"

	"tidemark.dev/internal/drive/target"
	"tidemark.dev/internal/ground/fault"
)

// insideKey marks the process that runs inside a namespace of its own.
const insideKey = "TIDEMARK_INSIDE_NAMESPACE"

// isolate runs this very command again in a network namespace with the given congestion control. inside tells the
// process that is already there to go on; otherwise err is the whole outcome.
func (t *tool) isolate(congestion string) (inside bool, err error) {
	if t.Getenv(insideKey) != "" {
		return true, target.EnterNamespace(congestion)
	}
	cmd := exec.Command(t.Self, t.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.Stdin, t.Stdout, t.Stderr
	cmd.Env = append(cmd.Environ(), insideKey+"=1")
	code, err := target.Namespace(cmd)
	if err != nil {
		return false, fault.Hint(err, "--congestion needs root")
	}
	if code != exitOK {
		return false, exit{max(code, exitUsage)}
	}
	return false, nil
}
