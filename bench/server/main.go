// Command server measures the embedded server beside the best of the others: see
// bench/README.md. From the root of the tree: go run ./bench/server --quick
package main

import (
	"strconv"

	"tidemark.dev/bench/suite"
	"tidemark.dev/internal/edge/proc"
)

func main() {
	p, release := proc.Real()
	code := suite.Main(p, "server", scenarios(), goals())
	release()
	p.Exit(code)
}

// versus compares servers with the reference under one client.
func versus(name, title, list string, c suite.Client, reference string, servers ...string) suite.Scenario {
	sc := suite.Scenario{Name: name, Title: title, List: list, Reference: suite.Lane{Server: reference, Client: c}}
	for _, s := range servers {
		sc.Lanes = append(sc.Lanes, suite.Lane{Server: s, Client: c})
	}
	return sc
}

// pages compares pages of our server with the static mix of the same server.
func pages(name, title string, c suite.Client, lists ...string) suite.Scenario {
	const server = "tidemark pages"
	sc := suite.Scenario{Name: name, Title: title, List: suite.Mix, Reference: suite.Lane{Server: server, Client: c}}
	for _, l := range lists {
		sc.Lanes = append(sc.Lanes, suite.Lane{Server: server, Client: c, List: l})
	}
	return sc
}

func scenarios() []suite.Scenario {
	const mix = "web99 static mix, 20 directories"
	list := []suite.Scenario{
		versus("mix-64", mix, suite.Mix, suite.Light(64), "nginx",
			"tidemark", "lighttpd", "h2o", "HAProxy", "Apache", "Caddy", "C epoll", "C io_uring"),
		versus("mix-1000", mix, suite.Mix, suite.Light(1000), "nginx", "tidemark", "lighttpd", "h2o", "C epoll", "C io_uring"),
		versus("mix-wrk", mix, suite.Mix, suite.Wrk(64), "nginx", "tidemark", "lighttpd", "h2o"),
		versus("mix-h2load", mix, suite.Mix, suite.H2load(64), "nginx", "tidemark", "lighttpd"),
		versus("lighttpd", mix+", against lighttpd", suite.Mix, suite.Light(64), "lighttpd", "tidemark"),
		versus("limit-epoll", mix+", against the C limit with epoll", suite.Mix, suite.Light(64), "C epoll", "tidemark epoll"),
		versus("engine-64", mix+", one engine against the other", suite.Mix, suite.Light(64), "tidemark epoll", "tidemark io_uring"),
		versus("engine-1000", mix+", one engine against the other", suite.Mix, suite.Light(1000), "tidemark epoll", "tidemark io_uring"),
		versus("limit-uring", mix+", against the C limit with io_uring", suite.Mix, suite.Light(64), "C io_uring", "tidemark io_uring"),
	}
	for _, n := range suite.Sizes() {
		size := strconv.Itoa(n)
		list = append(list, versus("size-"+size, "One file of "+size+" bytes", size, suite.Light(64), "nginx", "tidemark", "h2o"))
	}
	return append(list,
		pages("pages", "Pages beside the same files served static", suite.Light(64), "get", "cad", "post"),
		pages("commands", "What is rare, beside the static mix: a process for each request, new tables, the post log", suite.Light(1), "cgi", "reset", "fetch"),
		versus("pipeline", "One file of 1024 bytes, 16 requests in one send", "1024", suite.Light(64, "-p", "16"), "nginx", "tidemark", "lighttpd", "h2o"),
		versus("full", "web99 with all pages; nginx with the same pages behind FastCGI", suite.Mix, suite.Burst(64, 16, true), "nginx FastCGI", "tidemark pages"),
		versus("short", mix+", one request for each connection", suite.Mix, suite.Light(64, "-1"), "nginx", "tidemark", "lighttpd", "h2o", "C epoll"),
	)
}

func goals() []suite.Goal {
	list := []suite.Goal{
		{Measure: "web99 static mix, 64 connections, vs nginx", Scenario: "mix-64", Lane: "tidemark", Must: 0.65, Aim: 0.48},
		{Measure: "web99 static mix, 1,000 connections, vs nginx", Scenario: "mix-1000", Lane: "tidemark", Must: 0.68, Aim: 0.55},
		{Measure: "web99 static mix by wrk, vs nginx", Scenario: "mix-wrk", Lane: "tidemark", Must: 0.85, Aim: 0.75},
		{Measure: "web99 static mix, vs lighttpd", Scenario: "lighttpd", Lane: "tidemark", Must: 0.75, Aim: 0.58},
		{Measure: "vs the C limit with epoll", Scenario: "limit-epoll", Lane: "tidemark epoll", Must: 1.25, Aim: 1.05},
		{Measure: "vs the C limit with io_uring", Scenario: "limit-uring", Lane: "tidemark io_uring", Must: 1.25, Aim: 1.05},
		{Measure: "one request for each connection, vs nginx", Scenario: "short", Lane: "tidemark", Must: 1.03, Aim: 0.80},
		{Measure: "16 requests pipelined, 1 KB, vs nginx", Scenario: "pipeline", Lane: "tidemark", Must: 0.20, Aim: 0.10},
	}
	for _, n := range suite.Sizes() {
		size := strconv.Itoa(n)
		list = append(list, suite.Goal{
			Measure: "file of " + size + " bytes, vs the better of nginx and h2o", Scenario: "size-" + size, Lane: "tidemark", BetterOf: "h2o",
			Must: 1.03, Aim: 0.70,
		})
	}
	for _, g := range []struct {
		kind string
		goal float64
	}{{"get", 1.3}, {"cad", 1.3}, {"post", 2}} {
		list = append(list, suite.Goal{
			Measure: "page " + g.kind + " vs the same files served static", Scenario: "pages", Lane: "tidemark pages: " + g.kind, Must: g.goal, Aim: g.goal,
		})
	}
	return append(list, suite.Goal{
		Measure: "full web99 mix, vs nginx with FastCGI pages", Scenario: "full", Lane: "tidemark pages", Must: 0.50, Aim: 0.30,
	})
}
