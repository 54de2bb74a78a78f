// Command tidemark-cgi is the standard dynamic GET of the web99 workload as a CGI program. Any server
// that can run CGI programs can run it; it is a program of its own because the large tidemark binary
// takes far longer to start. On linux/amd64 it can answer before the Go runtime has started, see
// package quick.
//
// The document root is taken from TIDEMARK_ROOT or, without that, from DOCUMENT_ROOT.
package main

import (
	"os"

	"tidemark.dev/internal/serve/host/cgi"
	"tidemark.dev/page"
	"tidemark.dev/pages"
	_ "tidemark.dev/pages/quick" // the entry of the process, when it is linked so
)

func main() {
	if err := run(); err != nil {
		_, _ = os.Stderr.WriteString("tidemark-cgi: " + err.Error() + "\n")
		os.Exit(1)
	}
}

func run() error {
	root := os.Getenv("TIDEMARK_ROOT")
	if root == "" {
		root = os.Getenv("DOCUMENT_ROOT")
	}
	files, err := page.Root(root)
	if err != nil {
		return err
	}
	p := pages.NewSite(pages.Options{}).Get()
	if err := p.Open(&page.Context{Files: files, Dir: root, Software: os.Getenv("SERVER_SOFTWARE"), Pid: os.Getpid()}); err != nil {
		return err
	}
	// Closing is left to the end of the process.
	return cgi.Run(os.Environ(), os.Stdin, os.Stdout, p)
}
