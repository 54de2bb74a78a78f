// Command driver measures our own load driver beside wrk and h2load, all against the
// C limit: see bench/README.md. From the root of the tree: go run ./bench/driver --quick
package main

import (
	"strconv"

	"tidemark.dev/bench/suite"
	"tidemark.dev/internal/edge/proc"
)

func main() {
	p, release := proc.Real()
	code := suite.Main(p, "driver", scenarios(), goals())
	release()
	p.Exit(code)
}

func scenarios() (list []suite.Scenario) {
	const server = "C io_uring"
	for _, n := range []int{64, 1000} {
		sc := suite.Scenario{
			Name: "raw-" + strconv.Itoa(n), Title: "Unpaced web99 static mix, " + strconv.Itoa(n) + " connections", List: suite.Mix,
			Reference: suite.Lane{Server: server, Client: suite.Wrk(n)},
		}
		for _, c := range []suite.Client{suite.Burst(n, 16, false), suite.Burst(n, 1, false), suite.Light(n), suite.H2load(n)} {
			sc.Lanes = append(sc.Lanes, suite.Lane{Server: server, Client: c})
		}
		list = append(list, sc)
	}
	return list
}

func goals() []suite.Goal {
	return []suite.Goal{
		{Measure: "requests/s vs wrk, 64 connections, 1 body in 16 verified", Scenario: "raw-64", Lane: suite.Burst(64, 16, false).Name, Rate: true, Must: 1.2, Aim: 1.4},
		{Measure: "requests/s vs wrk, 1,000 connections, 1 body in 16 verified", Scenario: "raw-1000", Lane: suite.Burst(1000, 16, false).Name, Rate: true, Must: 1.4, Aim: 1.6},
	}
}
