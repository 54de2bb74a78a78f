// Command tidemark-cgi is the standard dynamic GET of the web99 workload as a CGI program.
package main

func main() {}
