// Package scripts runs the real command line from scripts: testdata/*.txtar, one block per behaviour.
package scripts

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tidemark.dev/internal/edge/cli"
	"tidemark.dev/internal/edge/proc"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"tidemark": func() {
			p, release := proc.Real()
			code := cli.Main(p)
			release()
			os.Exit(code)
		},
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_CACHE_HOME", e.WorkDir+"/cache")
			e.Setenv("NO_COLOR", "1")
			return nil
		},
		RequireExplicitExec: true,
	})
}
