package service

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// The pages are at the names of the service only: another site that has its name lead here gets
// nothing.
func TestPagesRefuseOtherNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags          Flags
		known, refused []string
	}{
		{
			Flags{listen: "127.0.0.1:8470"},
			[]string{"127.0.0.1:8470", "localhost:8470", "localhost", "[::1]:8470", "127.0.0.1", "10.1.2.3:8470"},
			[]string{"evil.example.net", "evil.example.net:8470", "localhost.evil.example.net", "127.0.0.1.evil.example.net:8470", ""},
		},
		{
			Flags{listen: "turnus.example.net:8470", oidc: oidcFlags{server: "runs.example.net:443"}},
			[]string{"turnus.example.net:8470", "Turnus.Example.net", "runs.example.net", "localhost"}, []string{"evil.example.net", "example.net"},
		},
		{Flags{listen: "127.0.0.1:8470", insecure: true}, []string{"anything.example.net"}, nil},   // a proxy checks names
		{Flags{listen: "0.0.0.0:443", tlsCert: "cert.pem"}, []string{"anything.example.net"}, nil}, // browsers check names
	} {
		pages := c.flags.ownHosts(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		status := func(host string) int {
			r := httptest.NewRequest(http.MethodGet, "/login", nil)
			r.Host = host
			w := httptest.NewRecorder()
			pages.ServeHTTP(w, r)
			return w.Code
		}
		for _, host := range c.known {
			if got := status(host); got != http.StatusOK {
				t.Errorf("%s, listening on %s: %d", host, c.flags.listen, got)
			}
		}
		for _, host := range c.refused {
			if got := status(host); got != http.StatusMisdirectedRequest {
				t.Errorf("%q, listening on %s: %d", host, c.flags.listen, got)
			}
		}
	}
}
