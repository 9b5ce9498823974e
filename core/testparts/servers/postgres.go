package servers

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnus/turnus/core/testparts"
)

// Postgres is one PostgreSQL server.
type Postgres struct {
	Dir       string // with the socket
	Secure    bool
	CA        string // of a secure one
	Client    Pair
	port      string
	cmd       *exec.Cmd
	exited    chan struct{}
	out       *bytes.Buffer
	once      sync.Once
	databases atomic.Int64
}

// StartPostgres makes an empty server with these settings ("max_connections=200") and runs it until
// the test ends. In a benchmark all other settings are PostgreSQL's defaults.
func StartPostgres(tb testing.TB, settings ...string) *Postgres {
	tb.Helper()
	return startPostgres(tb, TLSEverywhere(), settings)
}

// StartPostgresTLS is StartPostgres of a server that is asked over TLS.
func StartPostgresTLS(tb testing.TB, settings ...string) *Postgres {
	tb.Helper()
	return startPostgres(tb, true, settings)
}

// StartPostgresInTheClear is StartPostgres of a server without TLS, also with TLSEnv set. It is for
// a test that reads the connections.
func StartPostgresInTheClear(tb testing.TB) *Postgres {
	tb.Helper()
	return startPostgres(tb, false, nil)
}

func startPostgres(tb testing.TB, secure bool, settings []string) *Postgres {
	tb.Helper()
	bin := postgresPrograms(tb)
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // tb.TempDir may be too long for a socket
	must(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	attributes := asUser(tb, dir)
	data := filepath.Join(dir, "data")
	initialData.write(tb, bin, data, attributes)
	s := &Postgres{Dir: dir, Secure: secure, exited: make(chan struct{}), out: &bytes.Buffer{}}
	args := []string{"-D", data, "-k", dir, "-c", "max_connections=100", "-c", "logging_collector=off"}
	if _, measured := tb.(*testing.B); !measured { // tests kill only the process, never the machine
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=16MB", "-c", "autovacuum=off")
	}
	if secure {
		args = append(args, s.guard(tb, data, attributes)...)
	} else {
		args = append(args, "-c", "listen_addresses=")
	}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), args...) //nolint:noctx,gosec // ended by Stop; the test's own program
	s.cmd.SysProcAttr, s.cmd.Dir = attributes, dir
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		tb.Fatalf("start postgres: %v", err)
	}
	go func() { _ = s.cmd.Wait(); close(s.exited) }()
	tb.Cleanup(s.Stop)
	s.ready(tb)
	if secure {
		s.Exec(tb, s.admin("postgres"), "CREATE ROLE "+PostgresUser+" LOGIN")
	}
	return s
}

// PostgresUser is the user of a secure server, by a certificate of that name.
const PostgresUser = "turnus"

// guard has the server listen on a port, for TLS with a client's certificate only, and returns the
// arguments.
func (s *Postgres) guard(tb testing.TB, data string, attributes *syscall.SysProcAttr) []string {
	tb.Helper()
	a := CommonCA(tb)
	s.CA, s.Client = a.CA(tb, s.Dir), a.Sign(tb, s.Dir, PostgresUser)
	server := a.Sign(tb, s.Dir, "server", LocalNames()...)
	if who := attributes.Credential; who != nil {
		must(tb, os.Chown(server.Cert, int(who.Uid), int(who.Gid)))
		must(tb, os.Chown(server.Key, int(who.Uid), int(who.Gid)))
	}
	rules := "local all postgres trust\nhostssl all " + PostgresUser + " 127.0.0.1/32 cert\n"
	must(tb, os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(rules), 0o600))
	s.port = strconv.Itoa(testparts.FreePort(tb))
	return []string{
		"-c", "listen_addresses=127.0.0.1", "-c", "port=" + s.port, "-c", "ssl=on", "-c", "ssl_cert_file=" + server.Cert, "-c", "ssl_key_file=" + server.Key,
		"-c", "ssl_ca_file=" + s.CA,
	}
}

// postgresPrograms finds the folder of PostgreSQL's programs. Debian keeps them out of PATH.
func postgresPrograms(tb testing.TB) string {
	tb.Helper()
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(found) > 0 {
		slices.Sort(found)
		return filepath.Dir(found[len(found)-1])
	}
	path, err := filepath.EvalSymlinks(testparts.Need(tb, "postgres", "postgresql"))
	must(tb, err)
	return filepath.Dir(path)
}

// asUser makes the server run as somebody else where the test runs as root, which PostgreSQL
// refuses.
func asUser(tb testing.TB, dir string) *syscall.SysProcAttr {
	tb.Helper()
	attributes := dieWithParent(syscall.SIGQUIT)
	if os.Getuid() != 0 {
		return attributes
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	must(tb, err)
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	must(tb, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	must(tb, err)
	must(tb, os.Chown(dir, int(uid), int(gid)))
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes
}

func (s *Postgres) ready(tb testing.TB) {
	tb.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := pgx.Connect(context.Background(), s.admin("postgres"))
		if err == nil {
			_ = c.Close(context.Background())
			return
		}
		select {
		case <-s.exited:
			tb.Fatalf("postgres ended: %s", s.out)
		case <-deadline:
			tb.Fatalf("postgres does not answer after a minute: %v", err)
		case <-tick.C:
		}
	}
}

// admin is the URL of the superuser, over the socket.
func (s *Postgres) admin(database string) string {
	return "postgres:///" + database + "?host=" + s.Dir + "&port=" + s.socketPort() + "&user=postgres"
}

func (s *Postgres) socketPort() string {
	if s.port != "" {
		return s.port
	}
	return "5432"
}

// URL is how a database is asked.
func (s *Postgres) URL(database string) string {
	if !s.Secure {
		return s.admin(database)
	}
	q := url.Values{"sslmode": {"verify-full"}, "sslrootcert": {s.CA}, "sslcert": {s.Client.Cert}, "sslkey": {s.Client.Key}}
	return "postgres://" + PostgresUser + "@" + net.JoinHostPort("127.0.0.1", s.port) + "/" + database + "?" + q.Encode()
}

// Database makes an empty database and returns its URL.
func (s *Postgres) Database(tb testing.TB) string {
	tb.Helper()
	return s.URL(s.create(tb, "template1"))
}

// Copies fills one database and returns how to make copies of it. A copy costs a tenth of what
// filling does where that means to make a program's tables.
func (s *Postgres) Copies(fill func(tb testing.TB, url string)) func(tb testing.TB) string {
	var once sync.Once
	var original string
	return func(tb testing.TB) string {
		tb.Helper()
		once.Do(func() {
			original = s.create(tb, "template1")
			fill(tb, s.URL(original))
		})
		return s.URL(s.create(tb, original))
	}
}

// create makes a database like another one, and returns its name.
func (s *Postgres) create(tb testing.TB, template string) string {
	tb.Helper()
	name := "test" + strconv.FormatInt(s.databases.Add(1), 10)
	owner := ""
	if s.Secure {
		owner = " OWNER " + PostgresUser
	}
	s.Exec(tb, s.admin("postgres"), "CREATE DATABASE "+name+owner+" TEMPLATE "+template+" STRATEGY file_copy")
	return name
}

// Exec runs SQL as the owner of the database, behind the back of what is tested.
func (s *Postgres) Exec(tb testing.TB, url, sql string) {
	tb.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	must(tb, err)
	defer func() { _ = c.Close(ctx) }()
	_, err = c.Exec(ctx, sql)
	must(tb, err)
}

// Disconnect ends the connections of everybody but itself.
func (s *Postgres) Disconnect(tb testing.TB) error {
	tb.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, s.admin("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	_, err = c.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
	return err
}

// Stop ends the server immediately, as a crash would, and waits for it.
func (s *Postgres) Stop() {
	s.once.Do(func() {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT)
		<-s.exited
	})
}
