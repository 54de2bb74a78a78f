package cgi

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"

	"tidemark.dev/page"
)

// environment is RFC 3875, section 4.1, for a request; ok is false if a value holds a NUL.
func environment(o *Options, software string, rq *page.Request) (env []string, ok bool) {
	env = make([]string, 0, 32+len(o.Env))
	set := func(name, value string) { env = append(env, name+"="+value) }
	set("GATEWAY_INTERFACE", "CGI/1.1")
	set("REQUEST_METHOD", string(rq.Method))
	set("SCRIPT_NAME", string(rq.Script))
	set("SCRIPT_FILENAME", o.Program)
	if info, cut := bytes.CutPrefix(rq.Path, rq.Script); cut && len(info) > 0 {
		set("PATH_INFO", string(info))
	}
	set("QUERY_STRING", string(rq.Query))
	set("SERVER_SOFTWARE", software)
	set("SERVER_PROTOCOL", rq.Proto)
	name, port := server(rq)
	set("SERVER_NAME", name)
	set("SERVER_PORT", port)
	remote := ""
	if rq.Remote.IsValid() {
		remote = rq.Remote.Unmap().String()
	}
	set("REMOTE_ADDR", remote)
	if rq.RemotePort != 0 {
		set("REMOTE_PORT", strconv.Itoa(int(rq.RemotePort)))
	}
	if rq.Secure {
		set("HTTPS", "on")
	}
	if len(rq.Body) > 0 {
		set("CONTENT_LENGTH", strconv.Itoa(len(rq.Body)))
	}
	if len(rq.ContentType) > 0 {
		set("CONTENT_TYPE", string(rq.ContentType))
	}
	first := len(env)
	rq.EachField(func(n, v []byte) bool {
		name, pass := variable(n)
		if !pass {
			return true
		}
		for i := first; i < len(env); i++ {
			if strings.HasPrefix(env[i], name+"=") {
				sep := ", "
				if name == "HTTP_COOKIE" {
					sep = "; "
				}
				env[i] += sep + string(v)
				return true
			}
		}
		set(name, string(v))
		return true
	})
	for _, e := range o.Env {
		env = addVariable(env, e)
	}
	env = addVariable(env, defaultPath)
	for _, e := range env {
		if strings.IndexByte(e, 0) >= 0 {
			return nil, false
		}
	}
	return env, true
}

// addVariable adds e unless env has a variable of that name: which of two a program sees depends on the
// language it is written in.
func addVariable(env []string, e string) []string {
	name, _, _ := strings.Cut(e, "=")
	for _, have := range env {
		if strings.HasPrefix(have, name) && len(have) > len(name) && have[len(name)] == '=' {
			return env
		}
	}
	return append(env, e)
}

// variable is the HTTP_ variable of a header field; pass is false for fields that a program does not
// get: those with a variable of their own, credentials, what concerns the connection only, Proxy (its
// variable would steer HTTP clients in the program, CVE-2016-5385), and names with an underscore, which
// would pass for the same name with a hyphen.
func variable(name []byte) (v string, pass bool) {
	b := append(make([]byte, 0, 64), "HTTP_"...)
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-':
			c = '_'
		default:
			return "", false
		}
		b = append(b, c)
	}
	switch v = string(b); v {
	case "HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH", "HTTP_AUTHORIZATION", "HTTP_PROXY_AUTHORIZATION", "HTTP_PROXY",
		"HTTP_CONNECTION", "HTTP_KEEP_ALIVE", "HTTP_TRANSFER_ENCODING", "HTTP_TE", "HTTP_TRAILER", "HTTP_UPGRADE", "HTTP_EXPECT":
		return "", false
	}
	return v, len(name) > 0
}

// server is the name and port the client used, as far as they are to be trusted.
func server(rq *page.Request) (name, port string) {
	port = "80"
	if rq.Secure {
		port = "443"
	}
	if rq.Local.IsValid() {
		name = rq.Local.Addr().Unmap().String()
		port = strconv.Itoa(int(rq.Local.Port()))
	}
	host := string(rq.Host)
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if _, err := netip.ParseAddr(inner); ok && err == nil {
			return host, port
		}
		return name, port
	}
	if host == "" || strings.Trim(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") != "" {
		return name, port
	}
	return host, port
}
