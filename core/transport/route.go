package transport

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// maxHops bounds a chain of jump hosts, the host itself included.
const maxHops = 8

// endpoint is one SSH server with everything that is needed to reach, prove and
// enter it.
type endpoint struct {
	host           core.Host // after ssh_config
	cred           *Credential
	name           string
	addr           string // host:port as dialled
	user           string
	trustName      string   // what known_hosts and certificates call it
	trustPort      int      // 22 where an alias replaces the name, as OpenSSH has it
	knownHosts     []string // files; nil means the pool's
	identityFiles  []string
	onlyIdentities bool
	certFiles      []string
	timeout        time.Duration
	keepAlive      time.Duration
	id             string // all of the above by which two connections differ; a credential is itself alone
}

// route is the way to a host: jump hosts, outermost first, then the host itself.
type route []*endpoint

func (r route) last() *endpoint { return r[len(r)-1] }

// key names the connection at the end of the route: host, user, credentials,
// trust, and the path there. Connections are shared only where all are equal.
func (r route) key() string {
	if len(r) == 1 {
		return r[0].id
	}
	return strings.Join(core.Map(r, func(e *endpoint) string { return e.id }), "\x01")
}

// resolve lays out the whole way to a host before anything is dialled. The
// first of several jump hosts may have jump hosts of its own; the later ones
// are reached through the one before, as ssh -J does it.
func (p *Pool) resolve(h core.Host) (route, error) { return p.expand(h, nil) }

func (p *Pool) expand(h core.Host, trail []*endpoint) (route, error) {
	e, err := p.endpoint(h)
	if err != nil {
		return nil, err
	}
	if trail, err = follow(trail, e); err != nil {
		return nil, err
	}
	jumps := e.host.SSH.ProxyJump
	if len(jumps) == 0 {
		return route{e}, nil
	}
	first, err := p.jumpHost(jumps[0], h)
	if err != nil {
		return nil, e.invalid(err)
	}
	r, err := p.expand(first, trail)
	if err != nil {
		return nil, err
	}
	for _, name := range jumps[1:] {
		jh, err := p.jumpHost(name, h)
		if err != nil {
			return nil, e.invalid(err)
		}
		hop, err := p.endpoint(jh)
		if err != nil {
			return nil, err
		}
		if _, err = follow(slices.Concat(trail, r), hop); err != nil {
			return nil, err
		}
		r = append(r, hop)
	}
	return append(r, e), nil
}

// follow adds e to the trail of servers on the way, and refuses one that is
// there already: its connection would need itself.
func follow(trail []*endpoint, e *endpoint) ([]*endpoint, error) {
	at := slices.IndexFunc(trail, func(t *endpoint) bool { return t.name == e.name && t.addr == e.addr })
	names := func() string {
		return strings.Join(core.Map(append(trail[max(at, 0):len(trail):len(trail)], e), func(t *endpoint) string { return t.name }), " → ")
	}
	if at >= 0 {
		return nil, e.invalid(fmt.Errorf("proxy_jump goes in a circle: %s; one of them must be reachable without the other", names()))
	}
	if len(trail) >= maxHops {
		return nil, e.invalid(fmt.Errorf("proxy_jump chain is longer than %d hosts: %s", maxHops, names()))
	}
	return append(slices.Clip(trail), e), nil
}

func (e *endpoint) invalid(err error) *Error {
	return e.fail("resolve", "", true, mark(err, core.ErrInvalid))
}

// jumpHost reads HOST or [ssh://][USER@]HOST[:PORT], where HOST may be a host
// of the inventory. Any other logs in as the host behind it does.
func (p *Pool) jumpHost(spec string, behind core.Host) (core.Host, error) {
	if h, ok := p.cfg.Lookup(spec); ok {
		return h, nil
	}
	rest := strings.TrimPrefix(spec, "ssh://")
	var user string
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, rest = rest[:i], rest[i+1:]
	}
	name, port := rest, 0
	if n, service, err := net.SplitHostPort(rest); err == nil {
		name = n
		if port, err = strconv.Atoi(service); err != nil || port < 1 || port > 65535 {
			return core.Host{}, fmt.Errorf("proxy_jump %q: port %q: expected a number from 1 to 65535", spec, service)
		}
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if name == "" || strings.ContainsAny(name, " \t\r\n/@") {
		return core.Host{}, fmt.Errorf("proxy_jump %q: expected a host of the inventory, or [user@]host[:port]", spec)
	}
	h, ok := p.cfg.Lookup(name)
	if !ok {
		h = core.Host{Name: name, Customer: behind.Customer, Groups: behind.Groups, SSH: core.SSH{Credential: behind.SSH.Credential}}
	}
	h.SSH.User = cmp.Or(user, h.SSH.User)
	h.SSH.Port = cmp.Or(port, h.SSH.Port)
	return h, nil
}

// endpoint merges the inventory, ssh_config and the pool's defaults, in
// this order. Credentials are the pool's alone.
func (p *Pool) endpoint(h core.Host) (*endpoint, error) {
	e := &endpoint{name: h.Name}
	if h.Target() == "" || strings.ContainsAny(h.Target(), "\x00\x01 \t\r\n") {
		return nil, e.invalid(fmt.Errorf("address %q: expected a DNS name or an IP address", h.Target()))
	}
	var err error
	if e.cred, err = p.cfg.Credential(h); err != nil {
		return nil, e.refusedHere(err)
	}
	e.identityFiles, e.certFiles = e.cred.Identities, slices.Clip(e.cred.Certificates)
	if err := p.ssh.apply(&h, e); err != nil {
		return nil, e.invalid(err)
	}
	s := h.SSH
	if s.Port < 0 || s.Port > 65535 {
		return nil, e.invalid(fmt.Errorf("port %d: expected 1 to 65535", s.Port))
	}
	if len(s.ProxyJump) == 1 && (s.ProxyJump[0] == "none" || s.ProxyJump[0] == "") {
		h.SSH.ProxyJump = nil
	}
	port := cmp.Or(s.Port, 22)
	if h.SSH.FirstContact != core.FirstContactPin {
		h.SSH.FirstContact, h.SSH.Verified = "", false // all its keys are verified ones
	}
	e.host = h
	e.addr = net.JoinHostPort(strings.Trim(h.Target(), "[]"), strconv.Itoa(port))
	e.user = cmp.Or(s.User, p.cfg.User)
	e.trustName, e.trustPort = strings.Trim(h.Target(), "[]"), port
	if s.HostKeyAlias != "" {
		e.trustName, e.trustPort = s.HostKeyAlias, 22
	}
	e.timeout = cmp.Or(s.ConnectTimeout, e.timeout, p.cfg.ConnectTimeout)
	e.keepAlive = cmp.Or(e.keepAlive, p.cfg.KeepAlive)
	e.id = e.identity()
	return e, nil
}

func (e *endpoint) identity() string {
	var b strings.Builder
	s := e.host.SSH
	for _, part := range []string{e.name, e.addr, e.user, e.trustName, fmt.Sprintf("%p", e.cred)} {
		b.WriteString(part)
		b.WriteByte(0)
	}
	for _, list := range [][]string{s.HostKeys, e.knownHosts, e.identityFiles, e.certFiles, s.Principals, s.SourceAddrs, {s.ForceCommand, s.FirstContact, strconv.FormatBool(s.Verified)}} {
		for _, part := range list {
			b.WriteString(part)
			b.WriteByte(0)
		}
		b.WriteByte(2)
	}
	return b.String()
}

// trustAddr is the name under which known_hosts holds e's key.
func (e *endpoint) trustAddr() string {
	return net.JoinHostPort(e.trustName, strconv.Itoa(e.trustPort))
}
