package suite

import (
	"context"
	"fmt"
	"os"
	"strings"

	"tidemark.dev/bench/peers"
	"tidemark.dev/internal/drive/probe"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// Kinds are the lists of dynamic requests. All but the last two ask for the files of
// Mix in its order.
func Kinds() []string { return []string{"get", "cad", "post", "cgi", "reset", "fetch"} }

// pages writes a list of whole requests, as light -r reads it.
func (s *Suite) pages(w *workload.Workload, kind string) error {
	var list strings.Builder
	n := entries
	if kind == "reset" || kind == "fetch" {
		n = 1
	}
	fmt.Fprintln(&list, n)
	var i int32
	for op := range draws(w, Dirs, n) {
		i++
		request, least := request(w, kind, &op, i), op.File.Size()
		if n == 1 {
			least = 1
		}
		fmt.Fprintf(&list, "%d %d\n%s", -least, len(request), request)
	}
	return os.WriteFile(s.list(kind), []byte(list.String()), 0o644)
}

// request is the nth dynamic request of a list, for the file of op; users and ads take turns.
func request(w *workload.Workload, kind string, op *workload.Op, n int32) string {
	const fields = " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	cookie := "Cookie: " + string(web99.AppendCookie(nil, web99.Cookie{
		User: n%int32(w.Users.Min) + web99.UserOffset, LastAd: n * 7 % int32(w.Ads.Count),
	})) + "\r\n"
	switch kind {
	case "cad":
		return "GET " + w.Routes.CAD + "?" + op.File.String() + fields + cookie + "\r\n"
	case "post":
		body := web99.AppendPost(nil, &web99.Post{URLRoot: []byte("/file_set/"), Dir: op.File.Dir, Class: op.File.Class, Num: op.File.Num, Client: n})
		return "POST " + w.Routes.Post + fields + cookie +
			fmt.Sprintf("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	case "cgi":
		return "GET " + w.Routes.CGI + "?" + op.File.String() + fields + "\r\n"
	case "reset":
		r := probe.ResetFor(w, w.Users.Min)
		return "GET " + w.Routes.Command + "?" + string(web99.AppendReset(nil, &r)) + fields + "\r\n"
	case "fetch":
		return "GET " + w.Routes.Command + "?" + string(web99.AppendFetch(nil)) + fields + "\r\n"
	}
	return "GET " + w.Routes.Get + "?" + op.File.String() + fields + "\r\n"
}

// tables makes the tables that pages read, and empties the post log.
func (s *Suite) tables(ctx context.Context, p *peers.Peer) error {
	w, err := workload.Preset("web99")
	if err != nil {
		return err
	}
	_, _, err = probe.New(p.Address, p.Address.String(), w.Routes, w.Pacing.Timeout).Reset(ctx, probe.ResetFor(w, w.Users.Min))
	return err
}
