//go:build linux

package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

// cluster is a whole Turnus: servers and workers over Redis and a ledger, with a proxy on each line
// between two of them.
type cluster struct {
	t     *testing.T
	shape shape
	built *built
	dir   string
	keys  keys
	hosts []*host

	guard     *servers.RedisGuard
	redisPort string
	disk      *process // holds the small disk, at diskDir in its mounts
	leap      string   // file with the shift of Redis' clock
	pg        *servers.Postgres
	ports     []int // of servers

	proxies map[string]*proxy // by client and server: "worker-0 redis"

	token string

	tending sync.Mutex // held while something that ended must not be started yet
	mu      sync.Mutex // guards what follows
	redis   *process
	servers []*process
	workers []*process
	logs    []string // of processes that are gone

	redisDir string // of the goroutine that makes faults, as redisPort once the cluster is there
	triggers []trigger
}

const diskDir = "/mnt"

// diskSize is for Redis' append-only file, which is not rewritten and grows by 4 MiB a minute.
func (s shape) diskSize() string { return fmt.Sprintf("%dm", 48+8*int(s.length.Minutes())) }

// newCluster starts all of it over the playbooks, windows and hosts of a project.
func newCluster(t *testing.T, s shape, p project) *cluster {
	t.Helper()
	able(t)
	b, err := build()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		t: t, shape: s, built: b, dir: t.TempDir(), proxies: map[string]*proxy{}, redisPort: strconv.Itoa(testparts.FreePort(t)), redisDir: "redis",
		servers: make([]*process, s.servers), workers: make([]*process, s.workers), keys: newKeys(t, s.workers),
	}
	c.leap = filepath.Join(c.dir, "leap")
	c.shift(0)
	hosts, inventory := newHosts(t, c.dir, p.hosts, c.keys, p.entry)
	c.hosts = hosts
	c.write("ops/inventory.yaml", "hosts:\n"+inventory)
	c.write("ops/windows.yaml", p.windows)
	for name, text := range p.playbooks {
		c.write("ops/playbooks/"+name+".yaml", text)
	}
	c.disk = start(t, nil, "unshare", "--mount", "/bin/sh", "-c", "mount -t tmpfs -o size="+s.diskSize()+" tmpfs "+diskDir+" && mkdir "+diskDir+"/redis "+diskDir+"/ledger && exec sleep infinity")
	until(t, "the small disk", func() bool { _, err := os.Stat(c.onDisk("ledger")); return err == nil })
	c.guard = servers.NewRedisGuard(t, c.dir, false)
	c.startRedis()
	admin := c.admin()
	defer func() { _ = admin.Close() }()
	until(t, "redis-server to answer", func() bool { return admin.Ping(context.Background()).Err() == nil })
	if s.ledger == "postgres" {
		c.pg = servers.StartPostgres(t, "max_connections=200")
		c.pg.Database(t)
	}
	for i := range s.servers {
		name := fmt.Sprintf("server-%d", i)
		c.ports = append(c.ports, testparts.FreePort(t))
		c.proxies[name+" redis"] = newProxy(t, "tcp", "127.0.0.1:"+c.redisPort)
		c.proxies["client "+name] = newProxy(t, "tcp", fmt.Sprintf("127.0.0.1:%d", c.ports[i]))
		if c.pg != nil {
			c.proxies[name+" ledger"] = newProxy(t, "unix", c.pgSocket())
		}
		c.startServer(i)
		p := c.servers[i]
		until(t, "a server to listen", func() bool { return strings.Contains(p.text(), "listening on ") || !p.running() })
		if i == 0 {
			c.token = c.firstToken()
		}
	}
	for i := range s.workers {
		c.proxies[fmt.Sprintf("worker-%d redis", i)] = newProxy(t, "tcp", "127.0.0.1:"+c.redisPort)
		c.wireToHosts(i)
		c.startWorker(i)
	}
	t.Cleanup(c.resume)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() { defer close(done); c.tend(quit) }()
	t.Cleanup(func() { close(quit); <-done })
	if *keep != "" {
		t.Cleanup(func() { c.keepLogs(filepath.Join(*keep, s.ledger)) })
	}
	return c
}

func (c *cluster) write(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// onDisk is a path of the small disk as this process sees it.
func (c *cluster) onDisk(name string) string {
	return filepath.Join("/proc", strconv.Itoa(c.disk.pid()), "root", diskDir, name)
}

// withDisk is a command line that sees the small disk.
func (c *cluster) withDisk(line ...string) []string {
	return append([]string{"nsenter", "--mount=/proc/" + strconv.Itoa(c.disk.pid()) + "/ns/mnt", "--"}, line...)
}

// shift sets Redis' wall clock off by so many seconds.
func (c *cluster) shift(seconds int64) {
	c.t.Helper()
	f, err := os.OpenFile(c.leap, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(binary.NativeEndian.AppendUint64(nil, uint64(seconds)))
		_ = f.Close()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// startRedis starts Redis where it was; it answers once it has read its file.
func (c *cluster) startRedis() {
	c.t.Helper()
	p := c.redisOn(c.redisPort, c.redisDir)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire("redis", c.redis)
	c.redis = p
}

// redisOn starts a Redis on a port, with a folder of the small disk.
func (c *cluster) redisOn(port, dir string) *process {
	c.t.Helper()
	line := append([]string{testparts.Need(c.t, "redis-server", "redis-server"), "--bind", "127.0.0.1"}, c.guard.Arguments(c.t, port)...)
	line = append(line, "--dir", diskDir+"/"+dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
		"--auto-aof-rewrite-percentage", "0", "--maxmemory-policy", "noeviction", "--loglevel", "warning", "--repl-diskless-sync-delay", "0")
	return start(c.t, []string{"LD_PRELOAD=" + c.built.leap, "CHAOS_LEAP=" + c.leap}, c.withDisk(line...)...)
}

// admin is a client of Redis that may do everything, past all proxies.
func (c *cluster) admin() *goredis.Client {
	return goredis.NewClient(c.guard.Options(c.t, "127.0.0.1:"+c.redisPort))
}

// trust has every queue lease immediately from Redis as it is now, as servers do that found nothing
// amiss: it takes the guard of R4 out.
func (c *cluster) trust(admin *goredis.Client) {
	c.t.Helper()
	ctx := context.Background()
	info, err := admin.Info(ctx, "replication").Result()
	_, id, _ := strings.Cut(info, "master_replid:")
	pools, failed := admin.Keys(ctx, "*:meta2").Result()
	if err = errors.Join(err, failed); err != nil || len(pools) == 0 || len(id) < 40 {
		c.t.Fatalf("pools %q of Redis %q: %v", pools, info, err)
	}
	for _, pool := range pools {
		if err := admin.HSet(ctx, pool, "trusted", id[:40]).Err(); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *cluster) env() []string {
	return []string{"HOME=" + c.dir, "TURNUS_STATE=" + filepath.Join(c.dir, "state"), "SSH_AUTH_SOCK="}
}

// startServer starts server i on its port.
func (c *cluster) startServer(i int) {
	c.t.Helper()
	name := fmt.Sprintf("server-%d", i)
	data := filepath.Join(c.dir, "data-"+strconv.Itoa(i))
	line := []string{
		c.built.turnus, "server", "--redis", c.guard.URL("", c.proxies[name+" redis"].addr, ""), "--plugins", c.built.plugins,
		"--project", filepath.Join(c.dir, "ops"), "--listen", fmt.Sprintf("127.0.0.1:%d", c.ports[i]), "--log-level", "info",
	}
	if c.pg == nil {
		data = diskDir + "/ledger"
		line = c.withDisk(append(line, "--data", data)...)
	} else {
		url := "postgres://postgres@" + c.proxies[name+" ledger"].addr + "/test1?sslmode=disable"
		line = append(line, "--data", data, "--ledger", url)
	}
	p := start(c.t, c.env(), line...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire(name, c.servers[i])
	c.servers[i] = p
}

// firstToken is the admin token that the first server made.
func (c *cluster) firstToken() string {
	c.t.Helper()
	file := filepath.Join(c.dir, "data-0", "admin.token")
	if c.pg == nil {
		file = c.onDisk("ledger/admin.token")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatalf("%v; %s", err, c.servers[0].text())
	}
	return strings.TrimSpace(string(text))
}

// tend starts again what has ended, as an init does, once a second.
func (c *cluster) tend(quit <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		c.tending.Lock()
		if !c.redisNow().running() {
			c.startRedis()
		}
		for i := range c.servers {
			if !c.serverAt(i).running() {
				c.startServer(i)
			}
		}
		for i := range c.workers {
			if !c.workerAt(i).running() {
				c.startWorker(i)
			}
		}
		c.tending.Unlock()
	}
}

// wireToHosts puts a proxy between a worker and each host. The worker finds them by names: each has
// its own /etc/hosts.
func (c *cluster) wireToHosts(worker int) {
	c.t.Helper()
	name, names := fmt.Sprintf("worker-%d", worker), "127.0.0.1 localhost\n"
	for i, h := range c.hosts {
		ip := fmt.Sprintf("127.77.%d.%d", worker+1, i+1)
		names += ip + " " + h.name + ".chaos\n"
		c.proxies[name+" "+h.name] = newProxyAt(c.t, fmt.Sprintf("%s:%d", ip, h.port), "tcp", fmt.Sprintf("127.0.0.1:%d", h.port))
	}
	c.write(name+".hosts", names)
}

func (c *cluster) startWorker(i int) {
	c.t.Helper()
	name := fmt.Sprintf("worker-%d", i)
	seesHosts := []string{"unshare", "--mount", "/bin/sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, filepath.Join(c.dir, name+".hosts")}
	p := start(c.t, c.env(), append(seesHosts, c.built.turnus, "worker", "--redis", c.guard.URL("", c.proxies[name+" redis"].addr, ""), "--secrets", c.login(i),
		"--plugins", c.built.plugins, "--cpu-limit", "0", "--memory-limit", "0", "-f", "8", "--name", name, "--log-level", "info")...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire(name, c.workers[i])
	c.workers[i] = p
}

// login is the file of a worker's credential: its key, for hosts on loopback.
func (c *cluster) login(i int) string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "login.yaml")
	text := fmt.Sprintf("credentials: {default: {identity_file: %s, addresses: [127.0.0.0/8]}}\n", c.keys.files[i])
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// retire keeps the log of a process that another takes the place of. The caller holds mu.
func (c *cluster) retire(name string, p *process) {
	if p != nil {
		c.logs = append(c.logs, logOf(name, p))
	}
}

func logOf(name string, p *process) string {
	return fmt.Sprintf("== %s, process %d\n%s", name, p.pid(), p.text())
}

// client asks server i, past the proxy where direct is set. The caller closes it.
func (c *cluster) client(i int, token string, direct bool) *client.Client {
	c.t.Helper()
	url := "http://" + c.proxies[fmt.Sprintf("client server-%d", i)].addr
	if direct {
		url = fmt.Sprintf("http://127.0.0.1:%d", c.ports[i])
	}
	made, err := client.New(client.Config{Server: url, Token: token, Patience: time.Millisecond})
	if err != nil {
		c.t.Fatal(err)
	}
	return made
}

// atLedger is a command line of turnus that opens the ledger itself.
func (c *cluster) atLedger(line ...string) []string {
	line = append([]string{c.built.turnus}, line...)
	if c.pg == nil {
		return c.withDisk(append(line, "--ledger", "sqlite:"+diskDir+"/ledger/ledger.db")...)
	}
	return append(line, "--ledger", c.pg.URL("test1"))
}

// secondPerson makes a token that counts as nobody else's.
func (c *cluster) secondPerson() string {
	c.t.Helper()
	line := c.atLedger("admin", "tokens", "create", "second", "--role", "approver", "--tenant", "*")
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), c.env()...)
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("%v: %v", line, err)
	}
	return strings.TrimSpace(string(out))
}

// doctor returns the findings of turnus admin doctor in ledger and queue; "" when both are sound.
func (c *cluster) doctor() string {
	c.t.Helper()
	p := start(c.t, c.env(), c.atLedger("admin", "doctor", "--redis", c.guard.URL("", "127.0.0.1:"+c.redisPort, ""))...)
	until(c.t, "turnus admin doctor to end", func() bool { return !p.running() })
	if p.cmd.ProcessState.ExitCode() == 0 && strings.Contains(p.text(), "sound: ledger and queue") {
		return ""
	}
	return p.text()
}

// children lists all descendants of a process.
func children(pid int) (list []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range tasks {
		text, _ := os.ReadFile(file)
		for f := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(f); err == nil {
				list = append(append(list, child), children(child)...)
			}
		}
	}
	return list
}

// pgSocket is PostgreSQL's own, whose name has a port.
func (c *cluster) pgSocket() string {
	c.t.Helper()
	found, _ := filepath.Glob(filepath.Join(c.pg.Dir, ".s.PGSQL.*[0-9]"))
	if len(found) != 1 {
		c.t.Fatalf("sockets of PostgreSQL: %v, expected one", found)
	}
	return found[0]
}

// postgres is the postmaster, and then its processes.
func (c *cluster) postgres() []int {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.pg.Dir, "data", "postmaster.pid"))
	if err != nil {
		c.t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		c.t.Fatal(err)
	}
	return append([]int{pid}, children(pid)...)
}

// resume continues every stopped process, so that it can be ended.
func (c *cluster) resume() {
	if c.pg != nil {
		for _, pid := range c.postgres() {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

// allLogs returns what each process wrote, and those before it.
func (c *cluster) allLogs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Clone(c.logs)
	for i, p := range c.servers {
		list = append(list, logOf(fmt.Sprintf("server-%d", i), p))
	}
	for i, p := range c.workers {
		list = append(list, logOf(fmt.Sprintf("worker-%d", i), p))
	}
	return append(list, logOf("redis", c.redis))
}

// crashes returns the logs of processes that broke down unasked.
func (c *cluster) crashes() (found []string) {
	for _, log := range c.allLogs() {
		if i := max(strings.Index(log, "\npanic: "), strings.Index(log, "\nfatal error: ")); i >= 0 {
			found = append(found, log[i:min(i+4000, len(log))])
		}
	}
	return found
}

// keepLogs copies what hosts and processes wrote to a folder.
func (c *cluster) keepLogs(dir string) {
	c.t.Helper()
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "processes.log"), []byte(strings.Join(c.allLogs(), "\n")), 0o600)
	}
	for _, h := range c.hosts {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, h.name+".log"), []byte(h.log(c.t)), 0o600)
		}
	}
	if err != nil {
		c.t.Errorf("keep the logs: %v", err)
	}
}
