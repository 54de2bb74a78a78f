// Package cgi is the inside of a CGI program: it carries one request to one page and ends.
package cgi

import (
	"errors"
	"io"

	"tidemark.dev/page"
)

// Run serves the one request described by env (as os.Environ gives it) and stdin, and writes the CGI
// response to stdout. p must be open.
func Run(env []string, stdin io.Reader, stdout io.Writer, p page.Page) error {
	return errors.ErrUnsupported
}
