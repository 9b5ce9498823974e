package redisconn

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

// Dial builds the client that a URL names. It connects at the first use.
//
//	redis://[user:password@]host[:6379][/db]          one server
//	rediss://…                                        one server over TLS
//	unix://[user:password@]/path/to.sock[?db=N]       one server on this machine
//	redis-sentinel://[user:password@]host[:26379][,host…]/MASTER[?db=N]   the master that the sentinels name
//	redis-cluster://[user:password@]host[:6379][,host…]                   a Cluster, from any of its nodes
//
// rediss-sentinel:// and rediss-cluster:// are over TLS, also to the sentinels. ?ca_file= names the
// CA; without it the system's CAs count. ?cert_file= and ?key_file= name a client's certificate,
// and ?server_name= the name in the server's. Files that are renewed are taken over with the next
// connection. Without TLS other machines are refused, also those that a Sentinel or a Cluster
// names, unless ?insecure=true. ?sentinel_user= and ?sentinel_password= are for the sentinels
// themselves. The client retries nothing. No error repeats the URL: it may hold a password.
func Dial(rawURL string) (goredis.UniversalClient, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	d, err := u.dialer()
	if err != nil {
		return nil, err
	}
	o := &goredis.UniversalOptions{
		Dialer: d.dial,
		// The client would report its name, and ask about servers that are moved: commands that a user
		// does not need for Turnus.
		DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Username: u.user, Password: u.password, DB: u.db,
		MaxRetries: -1, DialerRetries: 1, MaxRedirects: 5,
		DialTimeout: dialTimeout, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second, PoolTimeout: 4 * time.Second,
		Addrs: u.addrs,
	}
	if d.files != nil {
		o.TLSConfig = d.files.Client(d.serverName) // for what the client wants to know; the dialer makes the connections
	}
	switch u.kind {
	case "sentinel":
		o.MasterName, o.SentinelUsername, o.SentinelPassword = u.master, u.sentinelUser, u.sentinelPassword
		return goredis.NewFailoverClient(o.Failover()), nil
	case "cluster":
		c := goredis.NewClusterClient(o.Cluster())
		c.AddHook(relearn{c})
		return c, nil
	case "unix":
		s := o.Simple()
		s.Network = "unix"
		return goredis.NewClient(s), nil
	}
	return goredis.NewClient(o.Simple()), nil
}

// target is the content of a URL.
type target struct {
	kind                           string // "", unix, sentinel, cluster
	tls, insecure                  bool
	files                          securefile.TLSFiles
	serverName                     string
	addrs                          []string
	user, password, master         string
	sentinelUser, sentinelPassword string
	db                             int
}

// badURL never quotes more of a URL than the part that is wrong, and no password.
func badURL(format string, args ...any) error {
	return fmt.Errorf("redis url: "+format+": %w\nhint: --redis redis://USER:PASSWORD@HOST:PORT/0, or rediss:// with TLS", append(args, core.ErrInvalid)...)
}

// parseURL quotes nothing of a URL with an @ behind its hosts: there a / or ? of the password has
// cut it in two.
func parseURL(raw string) (target, error) {
	t, err := readURL(raw)
	_, rest, _ := strings.Cut(raw, "://")
	if _, behind := cutUser(rest); err != nil && strings.Contains(behind, "@") {
		err = badURL("cannot be read; special letters of a password are written as %%XX")
	}
	return t, err
}

func readURL(raw string) (target, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return target{}, badURL("no scheme, expected one such as redis://127.0.0.1:6379")
	}
	t, port, err := parseScheme(scheme)
	if err != nil {
		return t, err
	}
	// Several hosts are not valid in a URL of net/url: they are taken out first.
	userinfo, rest := cutUser(rest)
	hosts, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		hosts, tail = rest[:i], rest[i:]
	}
	u, err := url.Parse("x://" + userinfo + "h" + tail)
	if err != nil {
		if bad, ok := errors.AsType[*url.Error](err); ok { // its text repeats the URL
			err = bad.Err
		}
		if userinfo != "" {
			err = errors.New("cannot be read; special letters of a password are written as %XX")
		}
		return t, badURL("%v", err)
	}
	t.user = u.User.Username()
	t.password, _ = u.User.Password()
	q := u.Query()
	if err := t.setQuery(q); err != nil {
		return t, err
	}
	path := strings.Trim(u.Path, "/")
	if t.kind == "unix" {
		if hosts != "" || path == "" {
			return t, badURL("expected unix:///path/to.sock")
		}
		t.addrs = []string{u.Path}
		err := t.setDB(q.Get("db"))
		return t, err
	}
	for h := range strings.SplitSeq(hosts, ",") {
		addr, err := withPort(h, port)
		if err != nil {
			return t, err
		}
		t.addrs = append(t.addrs, addr)
	}
	err = t.setPath(path, q.Get("db"))
	return t, err
}

// parseScheme is the kind of target that a scheme names, and the port where a host has none.
func parseScheme(scheme string) (t target, port string, err error) {
	port = "6379"
	switch scheme {
	case "redis", "rediss":
	case "unix":
		t.kind = "unix"
	case "redis-sentinel", "rediss-sentinel":
		t.kind, port = "sentinel", "26379"
	case "redis-cluster", "rediss-cluster":
		t.kind = "cluster"
	default:
		return t, "", badURL("scheme %q, expected redis, rediss, unix, redis-sentinel or redis-cluster", scheme)
	}
	t.tls = strings.HasPrefix(scheme, "rediss")
	return t, port, nil
}

// setPath takes what stands behind the hosts: the name of a master, or a database; and ?db=.
func (t *target) setPath(path, db string) error {
	switch t.kind {
	case "sentinel":
		if path == "" {
			return badURL("no name of a master, expected redis-sentinel://host:26379/mymaster")
		}
		t.master = path
	case "cluster":
		if path != "" || db != "" {
			return badURL("a Cluster has one database, expected no /%s after the hosts", path)
		}
	default:
		if len(t.addrs) > 1 {
			return badURL("%d hosts, expected one; several are for redis-sentinel:// and redis-cluster://", len(t.addrs))
		}
		if path != "" {
			return t.setDB(path)
		}
	}
	return t.setDB(db)
}

// cutUser parts user:password@, with its @, from what follows.
func cutUser(rest string) (userinfo, hosts string) {
	end := len(rest)
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		end = i
	}
	if i := strings.LastIndexByte(rest[:end], '@'); i >= 0 {
		return rest[:i+1], rest[i+1:]
	}
	return "", rest
}

func withPort(h, port string) (string, error) {
	if h == "" {
		return "", badURL("a host is empty")
	}
	if _, p, err := net.SplitHostPort(h); err == nil {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return "", badURL("port %q, expected 1 to 65535", p)
		}
		return h, nil
	}
	return net.JoinHostPort(strings.Trim(h, "[]"), port), nil
}

func (t *target) setDB(s string) error {
	if s == "" {
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return badURL("database %q, expected a number", s)
	}
	t.db = n
	return nil
}
