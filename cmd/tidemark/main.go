// Command tidemark finds how many simultaneous connections a web server carries at line speed.
package main

import (
	"os"

	"tidemark.dev/internal/edge/cli"
	"tidemark.dev/internal/edge/proc"
)

func main() {
	p, release := proc.Real()
	code := cli.Main(p)
	release()
	os.Exit(code)
}
