package service

import (
	"net"
	"net/http"
	"strings"

	"github.com/turnus/turnus/core"
)

// ownHosts refuses requests for pages by a name that is not this service's: another site could have
// its name lead here, and its page would be of this origin (DNS rebinding). An address is no name.
// Over TLS the browser has checked the name. Behind a proxy, with --insecure-listen, the proxy has.
func (f *Flags) ownHosts(next http.Handler) http.Handler {
	if f.secure() || f.insecure {
		return next
	}
	listens, _, _ := net.SplitHostPort(f.listen) // Check read it before
	known := []string{listens, hostname(f.oidc.server)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := hostname(r.Host)
		own := core.ThisMachine(name) || net.ParseIP(name) != nil
		for _, k := range known {
			own = own || k != "" && strings.EqualFold(name, k)
		}
		if !own {
			http.Error(w, "these pages are not served by this name: open http://"+f.listen+", or, behind a proxy that ends TLS, start the server with --insecure-listen", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostname returns the host of HOST[:PORT].
func hostname(at string) string {
	if host, _, err := net.SplitHostPort(at); err == nil {
		return host
	}
	return strings.Trim(at, "[]")
}
