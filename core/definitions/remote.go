package definitions

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/turnus/turnus/core"
)

// remote is where a repository lies. Its secret is kept apart: it is never an argument of a
// program, and never shown.
type remote struct {
	address string // what git is given
	header  string // HTTP header that authorizes; "" is none
	secrets []string
}

var scpLike = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^:]`)
})

// parseRemote reads a URL (https, ssh, file), user@host:path, or a path on this machine. Plain http
// and git are taken from loopback only: an attacker on the network could give the fleet other
// playbooks.
func parseRemote(text string) (remote, error) {
	fail := func(format string, args ...any) (remote, error) {
		return remote{}, fmt.Errorf("repository %s: %w: %s", redactURL(text), core.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case text == "":
		return fail("no address is given")
	case strings.HasPrefix(text, "-"):
		return fail("an address does not begin with a dash; a path is written with ./ before it")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fail("control characters in the address")
	case strings.Contains(text, "::"):
		return fail("remote helpers are not run; expected https://, ssh://, file://, user@host:path or a path")
	case scpLike().MatchString(text):
		return remote{address: text}, nil
	case !strings.Contains(text, "://"):
		abs, err := filepath.Abs(text)
		if err != nil {
			return fail("%v", err)
		}
		return remote{address: abs}, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return fail("not a URL") // the parser's own words may hold the password
	}
	switch u.Scheme {
	case "https", "ssh", "file":
	case "http":
		if !core.ThisMachine(u.Hostname()) {
			return fail("plain http is for loopback only, for anybody on the way could change what hosts run; expected https://")
		}
	default:
		return fail("the scheme %q is not taken; expected https, ssh or file", u.Scheme)
	}
	if u.Scheme != "file" && u.Hostname() == "" {
		return fail("no host is given")
	}
	if strings.HasPrefix(u.Hostname(), "-") {
		return fail("the host begins with a dash")
	}
	password, given := u.User.Password()
	if u.Scheme == "ssh" && given {
		return fail("a password in an ssh address is not used; give the server's user a key")
	}
	r := remote{}
	if u.User != nil && u.Scheme != "ssh" {
		pair := u.User.Username() + ":" + password // a token alone is a user name
		r.header = "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(pair))
		r.secrets = []string{r.header, strings.TrimPrefix(r.header, "Authorization: Basic "), password, url.QueryEscape(password), url.PathEscape(password)}
		if !given {
			r.secrets = append(r.secrets, u.User.Username())
		}
		u.User = nil
	}
	if u.RawQuery != "" {
		return fail("the address has a query, where secrets would show; give user:token@ before the host")
	}
	u.Fragment = ""
	r.address = u.String()
	return r, nil
}

// redactURL is an address without what may be secret in it.
func redactURL(text string) string {
	if i := strings.Index(text, "://"); i >= 0 {
		rest := text[i+3:]
		host := rest
		if end := strings.IndexAny(rest, "?#"); end >= 0 {
			host, rest = rest[:end], rest[:end]
		}
		if at := strings.LastIndex(host, "@"); at >= 0 {
			rest = rest[at+1:]
		}
		text = text[:i+3] + rest
	}
	return clean(text)
}

var userinfo = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s@]*@`) })

// redact takes secrets out of git's output.
func (r remote) redact(text string) string {
	for _, s := range r.secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return clean(userinfo().ReplaceAllString(text, "$1"))
}
