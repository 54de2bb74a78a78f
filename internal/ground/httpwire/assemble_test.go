package httpwire

import (
	"math/rand/v2"
	"testing"
)

// Messages put together at random from telling pieces reach combinations that
// neither the vectors nor bytes changed at random do.

var (
	somePieces = map[string][]string{
		"method":  {"GET", "GET", "POST", "HEAD", "OPTIONS", "CONNECT", "get", "BREW", "G@T", ""},
		"blank":   {" ", " ", " ", " ", " ", " ", "  ", "\t", ""},
		"target":  {"/", "/a/b?c=d", "/a", "//b/c", "*", "http://b/c?d", "https://b", "http://u@b/", "b:80", "/%zz", "/a#b", "/\xfc", "?", "", "/a b"},
		"version": {"HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1", "HTTP/1.", ""},
		"status":  {"200 OK", "200 OK", "204 No Content", "304 ", "100 Continue", "404", "500 a b", "099 x", "20 x", "2000 x", " 200 x"},
		"end":     {"\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", "\r\r\n", ""},
		"name": {"Host", "Host", "Host", "Content-Length", "content-length", "Transfer-Encoding", "TRANSFER-ENCODING", "Connection", "connection",
			"Expect", "Range", "If-Modified-Since", "Cookie", "Accept", "A", "", "A B", "Content-Length ", " Host", "Trailer"},
		"colon": {": ", ": ", ": ", ":", ":\t ", " :", "", ";"},
		"value": {"a", "a", "b:80", "0", "5", "5", "5, 5", "+5", "-1", "00005", "99999999999999999999", "chunked", "Chunked", "chunked, chunked", "gzip, chunked", "identity",
			"chunked,", ",", "close", "keep-alive", "Close, x", "keep-alive,close", "x, keep-alive", "100-continue", "", "\xff", "\x00", "a\tb", "a\rb", "a\x7f"},
	}
	lineOfRequest  = []string{"method", "blank", "target", "blank", "version", "end"}
	lineOfResponse = []string{"version", "blank", "status", "end"}
	lineOfField    = []string{"name", "colon", "value", "end"}
)

// assemble puts a head together. Pieces that are wrong stay rare, or no head
// would be right.
func assemble(rnd *rand.Rand, first []string) (b []byte) {
	line := func(kinds []string) {
		for _, kind := range kinds {
			pieces := somePieces[kind]
			i := rnd.IntN(len(pieces))
			if kind != "name" && kind != "value" && rnd.IntN(4) > 0 {
				i = 0
			}
			b = append(b, pieces[i]...)
		}
	}
	line(first)
	if rnd.IntN(4) > 0 {
		b = append(b, "Host: a\r\n"...)
	}
	for range rnd.IntN(4) {
		line(lineOfField)
	}
	line([]string{"end"})
	return b
}

func TestAssembledMessages(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9112, 9110))
	var request Request
	var response Response
	requests, responses := 0, 0
	for range 5000 {
		b := assemble(rnd, lineOfRequest)
		tryRequest(t, b)
		if n, _ := ParseRequest(b, &request, nil); n > 0 {
			requests++
		}
		b = assemble(rnd, lineOfResponse)
		tryResponse(t, b)
		if n, _ := ParseResponse(b, &response, nil); n > 0 {
			responses++
		}
	}
	if requests < 500 || responses < 500 {
		t.Fatalf("only %d requests and %d responses were right", requests, responses)
	}
	t.Logf("%d requests and %d responses were right", requests, responses)
}
