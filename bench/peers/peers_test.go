package peers

import (
	"os"
	"strings"
	"testing"
)

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"nginx version: nginx/1.22.1\n":                                                    "1.22.1",
		"lighttpd/1.4.69 (ssl) - a light and fast webserver\nBuild-Date: 1":                "1.4.69",
		"Server version: Apache/2.4.71 (Debian)\nServer built: 2026-1.2":                   "2.4.71",
		"HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org":                "2.6.12-1+deb12u4",
		"go\tgo1.26.8\npath\tx\nmod\tgithub.com/caddyserver/caddy/v2\tv2.11.9\th1:bhZt=\n": "v2.11.9",
		"no number\n": "",
	} {
		if got := versionIn(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Every configuration can be filled in and says where to listen and what to serve.
func TestConfigurations(t *testing.T) {
	for name, k := range kinds() {
		v := values{Place: Place{Root: "/srv/root", Dirs: 20, CPU: 1}, Dir: "/srv/dir", Config: "/srv/config", Port: 18080, Origin: 18081, Backend: "epoll"}
		for _, a := range k.args {
			if text, err := v.fill(a); err != nil || strings.Contains(text, "{{") {
				t.Errorf("%s: argument %q: %q, %v", name, a, text, err)
			}
		}
		if k.config == "" {
			continue
		}
		source, err := os.ReadFile(k.config)
		if err != nil {
			t.Fatal(err)
		}
		text, err := v.fill(string(source))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := []string{"18080", "/srv/root"}
		if k.origin != "" {
			want[1] = "18081"
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: the configuration does not say %s", name, w)
			}
		}
	}
}
