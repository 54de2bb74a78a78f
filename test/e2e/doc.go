// Package e2e runs the built program as a user would: against the embedded server, against nginx, and against servers
// and machines that are bad on purpose. It needs Linux, about five minutes, and nothing from the network:
//
//	go test -count=1 -tags e2e ./test/e2e
//
// Without the tag the package is empty. What needs nginx, Chromium or root says so and is skipped without them.
package e2e
