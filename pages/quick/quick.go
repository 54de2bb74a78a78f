// Package quick lets a CGI program answer the workload's request before the Go runtime starts.
//
// A process for each request spends nearly all its time on becoming a Go program, with threads, a heap and
// a collector, for one page that needs none of them. Imported by a CGI program and linked with
// -ldflags=-E=tidemark.dev/pages/quick.start, this package is where the process begins. It
// answers the standard dynamic GET of one file in seven system calls and ends the process. What is not
// plain (another method, a body, IPv6, an error page) it leaves alone, and the program starts as usual, as
// if nothing had happened. So does a program with C in it. Without the flag there is only the usual start.
//
// It is for linux/amd64; elsewhere the package is empty, and the flag an error of the linker.
package quick
