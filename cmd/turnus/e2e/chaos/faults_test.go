//go:build linux

package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// begin makes a fault, and returns what ends it. Each is one of kinds.
func (c *cluster) begin(p planned) (end func()) {
	c.t.Helper()
	nothing := func() {}
	worker, server := fmt.Sprintf("worker-%d", p.target), fmt.Sprintf("server-%d", p.target)
	switch p.name {
	case "kill worker":
		c.workerAt(p.target).kill()
	case "stop worker", "stop worker briefly":
		return c.stop(c.workerAt(p.target).pid())
	case "cut worker from Redis":
		return c.line(worker+" redis", held, held, 0)
	case "cut requests of worker to Redis":
		return c.line(worker+" redis", held, open, 0)
	case "cut replies of Redis to worker":
		return c.line(worker+" redis", open, held, 0)
	case "drop replies of Redis to worker":
		return c.line(worker+" redis", open, lossy, 0)
	case "stop worker and drop replies":
		// It continues past its lease, and Redis seems silent: only its own clock can show it.
		wake := c.stop(c.workerAt(p.target).pid())
		mend := c.line(worker+" redis", open, lossy, 0)
		return func() { wake(); pass(4 * time.Second); mend() }
	case "cut worker from hosts":
		return c.hostLines(worker, held, held)
	case "cut replies of hosts to worker":
		return c.hostLines(worker, open, held)
	case "kill plugin", "stop plugin":
		pids := children(c.workerAt(p.target).pid())
		if p.name == "stop plugin" {
			return c.stop(pids...)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	case "kill two servers at a fire":
		return c.killAtTrigger(p)
	case "kill server":
		c.serverAt(p.target).kill()
	case "stop server":
		return c.stop(c.serverAt(p.target).pid())
	case "cut server from Redis":
		return c.line(server+" redis", held, held, 0)
	case "cut replies of Redis to server":
		return c.line(server+" redis", open, held, 0)
	case "drop replies of Redis to server":
		return c.line(server+" redis", open, lossy, 0)
	case "cut client from server":
		return c.line("client "+server, held, held, 0)
	case "drop replies of server to client":
		return c.line("client "+server, open, lossy, 0)
	case "cut server from ledger":
		return c.line(server+" ledger", held, held, 0)
	case "drop replies of ledger to server":
		return c.line(server+" ledger", open, lossy, 0)
	case "slow ledger":
		return c.slowLedger()
	case "kill ledger":
		// The postmaster ends all others when one dies, and starts again from its log.
		pids := c.postgres()
		_ = syscall.Kill(pids[len(pids)-1], syscall.SIGKILL)
	case "stop ledger":
		return c.stop(c.postgres()...)
	case "read-only ledger":
		return c.readOnlyLedger()
	case "fill disk of ledger", "fill disk of Redis":
		return c.fill()
	default:
		return c.beginOfRedis(p)
	}
	return nothing
}

// beginOfRedis is begin of what befalls Redis itself.
func (c *cluster) beginOfRedis(p planned) (end func()) {
	c.t.Helper()
	switch p.name {
	case "kill Redis":
		c.redisNow().kill()
		return func() {}
	case "stop Redis":
		return c.stop(c.redisNow().pid())
	case "cut all from Redis":
		var ends []func()
		for i := range c.shape.servers {
			ends = append(ends, c.line(fmt.Sprintf("server-%d redis", i), held, held, 0))
		}
		for i := range c.shape.workers {
			ends = append(ends, c.line(fmt.Sprintf("worker-%d redis", i), held, held, 0))
		}
		return func() {
			for _, end := range ends {
				end()
			}
		}
	case "FLUSHALL":
		admin := c.admin()
		defer func() { _ = admin.Close() }()
		if err := admin.FlushAll(context.Background()).Err(); err != nil {
			c.t.Logf("FLUSHALL: %v", err) // another fault has Redis
		}
		return func() {}
	case "roll Redis back":
		old := c.onDisk("old")
		c.copyTree(c.onDisk(c.redisDir), old)
		return func() {
			c.tending.Lock()
			defer c.tending.Unlock()
			c.redisNow().kill()
			_ = os.RemoveAll(c.onDisk(c.redisDir))
			if err := os.Rename(old, c.onDisk(c.redisDir)); err != nil {
				c.t.Fatal(err)
			}
			c.startRedis()
		}
	case "promote a late replica":
		return c.promote()
	case "leap forward":
		c.shift(300)
		return func() { c.shift(0) }
	case "leap back":
		c.shift(-300)
		return func() { c.shift(0) }
	}
	c.t.Fatalf("nobody makes the fault %q", p.name)
	return nil
}

func (c *cluster) workerAt(i int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workers[i]
}

func (c *cluster) serverAt(i int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[i]
}

func (c *cluster) redisNow() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.redis
}

// stop stops processes until the fault ends.
func (c *cluster) stop(pids ...int) (end func()) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	return func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

// line changes a proxy until the fault ends.
func (c *cluster) line(name string, up, down way, delay time.Duration) (end func()) {
	p := c.proxies[name]
	p.set(up, down, delay)
	return func() { p.set(open, open, 0) }
}

// hostLines changes the proxies between a worker and all hosts until the fault ends.
func (c *cluster) hostLines(worker string, up, down way) (end func()) {
	var ends []func()
	for _, h := range c.hosts {
		ends = append(ends, c.line(worker+" "+h.name, up, down, 0))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// slowLedger has each reply of PostgreSQL, or each writer of SQLite, wait.
func (c *cluster) slowLedger() (end func()) {
	if c.pg != nil {
		var ends []func()
		for i := range c.shape.servers {
			ends = append(ends, c.line(fmt.Sprintf("server-%d ledger", i), open, open, 150*time.Millisecond))
		}
		return func() {
			for _, end := range ends {
				end()
			}
		}
	}
	// The server is the only writer: a stop of a third of each second is what a slow disk costs it.
	p, quit, done := c.serverAt(0), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			end := c.stop(p.pid())
			pass(700 * time.Millisecond)
			end()
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(quit); <-done }
}

// readOnlyLedger has each write to the ledger fail immediately, while reads continue.
func (c *cluster) readOnlyLedger() (end func()) {
	c.t.Helper()
	if c.pg != nil {
		c.sql("ALTER SYSTEM SET default_transaction_read_only = on")
		return func() {
			c.sql("SET default_transaction_read_only = off", "ALTER SYSTEM RESET default_transaction_read_only")
		}
	}
	// No file system becomes read-only under a file that is open for writing. A limit of no bytes
	// refuses the same writes of the process to files, and SQLite reports the same error of them.
	p := c.serverAt(0)
	var before unix.Rlimit
	if err := unix.Prlimit(p.pid(), unix.RLIMIT_FSIZE, nil, &before); err != nil {
		c.t.Logf("limit what the server writes: %v", err) // another fault has ended it
		return func() {}
	}
	limit := func(most uint64) {
		if err := unix.Prlimit(p.pid(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: before.Max}, nil); err != nil && p.running() {
			c.t.Errorf("limit what the server writes: %v", err)
		}
	}
	limit(0)
	return func() { limit(before.Cur) }
}

// sql has PostgreSQL carry out statements, and read its settings again.
func (c *cluster) sql(statements ...string) {
	c.t.Helper()
	ctx := context.Background()
	db, err := pgx.Connect(ctx, c.pg.URL("postgres"))
	if err != nil {
		c.t.Errorf("ask PostgreSQL: %v", err)
		return
	}
	defer func() { _ = db.Close(ctx) }()
	for _, s := range append(statements, "SELECT pg_reload_conf()") {
		if _, err := db.Exec(ctx, s); err != nil {
			c.t.Errorf("%s: %v", s, err)
		}
	}
}

// fill leaves no byte of the small disk free until the fault ends.
func (c *cluster) fill() (end func()) {
	c.t.Helper()
	name := c.onDisk("fill")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	for size := 1 << 20; size > 0; { // smaller and smaller pieces, until none fits
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	_ = f.Close()
	return func() {
		if err := os.Remove(name); err != nil {
			c.t.Errorf("empty the small disk: %v", err)
		}
	}
}

// copyTree copies files that may grow meanwhile.
func (c *cluster) copyTree(from, to string) {
	c.t.Helper()
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		out, err := os.Create(target)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		if bad := out.Close(); err == nil {
			err = bad
		}
		return err
	})
	if err != nil {
		c.t.Fatalf("copy %s: %v", strconv.Quote(from), err)
	}
}
