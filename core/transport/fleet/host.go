package fleet

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

// Salts keep what is drawn from one seed for different purposes apart.
const (
	saltPair = iota + 1
	saltBoot
	saltDemo
	saltMachine
)

// mix draws a number from seed, n and salt (SplitMix64's finaliser).
func mix(seed, n, salt uint64) uint64 {
	x := seed ^ n*0x9e3779b97f4a7c15 ^ salt*0xd1342543de82ef95
	for range 2 {
		x ^= x >> 30
		x *= 0xbf58476d1ce4e5b9
		x ^= x >> 27
		x *= 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

// host is the server's side of one simulated host. Parts that few hosts need are made when they are
// first used, so that an idle host costs little.
type host struct {
	fleet   *Fleet
	n       int
	name    string
	profile atomic.Pointer[Profile]
	fs      memFS

	keyOnce sync.Once
	signer  ssh.Signer

	mu       sync.Mutex
	down     bool
	boots    uint64
	booted   time.Time
	startups int                    // connections that are not authenticated yet
	strikes  map[netip.Addr]*strike // sources that left without authenticating
	procs    map[int]process        // running commands, for kill
	stopped  map[string]bool        // services that were started or stopped since the boot
	disabled map[string]bool        // services that a boot does not start
	packages map[string]bool        // that were installed or removed
	mounts   []mount
	nextPID  int

	reloaded atomic.Int64 // when systemd last read its units, in nanoseconds
	admin    sync.Mutex   // held while root changes accounts or mounts
}

type strike struct {
	count int
	until time.Time
}

// hostKey derives a private host key. generation 0 is the pinned one.
func hostKey(seed uint64, n int, generation byte) ed25519.PrivateKey {
	var in [17]byte
	binary.BigEndian.PutUint64(in[:8], seed)
	binary.BigEndian.PutUint64(in[8:16], uint64(n))
	in[16] = generation
	sum := sha256.Sum256(append([]byte("turnus fleet host key\x00"), in[:]...))
	return ed25519.NewKeyFromSeed(sum[:])
}

// key returns the signer that the host shows now.
func (h *host) key(changed bool) (ssh.Signer, error) {
	if changed {
		return ssh.NewSignerFromKey(hostKey(h.fleet.cfg.Seed, h.n, 1))
	}
	var err error
	h.keyOnce.Do(func() { h.signer, err = ssh.NewSignerFromKey(hostKey(h.fleet.cfg.Seed, h.n, 0)) })
	return h.signer, err
}

// pin is the line that an inventory holds for the host's key.
func pin(seed uint64, n int) string {
	pub, _ := hostKey(seed, n, 0).Public().(ed25519.PublicKey) // it is one by construction
	wire := ssh.Marshal(struct {
		Algo string
		Key  []byte
	}{ssh.KeyAlgoED25519, pub})
	return ssh.KeyAlgoED25519 + " " + base64.StdEncoding.EncodeToString(wire)
}

// customers are drawn by weight; each has sites in one to three regions.
var customers = [...]struct {
	name   string
	weight uint64
	sites  []string
}{
	{"acme", 40, []string{"fra", "zrh", "nyc"}},
	{"borealis", 25, []string{"ams", "sto"}},
	{"cobalt", 20, []string{"nyc", "sin"}},
	{"delta", 10, []string{"zrh"}},
	{"ember", 5, []string{"sin"}},
}

var roles = [...]struct {
	prefix, role, model string
	weight              uint64
}{
	{"edge", "router", "er-100", 50},
	{"fw", "firewall", "br-200", 30},
	{"app", "server", "vm-4", 15},
	{"ns", "dns", "vm-2", 5},
}

func regionOf(site string) string {
	switch site {
	case "nyc":
		return "us"
	case "sin":
		return "apac"
	}
	return "eu"
}

// makeHosts names the hosts. Neighbours (0 and 1, 2 and 3 …) are alike; two
// neighbouring firewalls are an HA group.
func (f *Fleet) makeHosts(ports []int) {
	f.hosts = make([]*host, f.cfg.Hosts)
	f.list = make([]core.Host, f.cfg.Hosts)
	now := time.Now()
	for n := range f.hosts {
		h := &host{fleet: f, n: n, booted: now.Add(-time.Duration(mix(f.cfg.Seed, uint64(n), saltBoot)%8640) * time.Minute)}
		ch := describe(f.cfg.Seed, n, f.cfg.Hosts)
		if f.cfg.perHost {
			ch.Address, ch.SSH.Port = "127.0.0.1", ports[n]
		} else {
			ch.Address, ch.SSH.Port = addressOf(n), ports[0]
		}
		if f.cfg.Name != nil {
			ch.Name = f.cfg.Name(n)
		}
		h.name = ch.Name
		h.fs.host = h
		p := OK()
		if f.cfg.Profile != nil {
			p = f.cfg.Profile(n)
		}
		h.profile.Store(&p)
		f.hosts[n], f.list[n], f.byName[h.name] = h, ch, h
	}
}

// describe is host n of total as an inventory has it, without address and port.
func describe(seed uint64, n, total int) core.Host {
	draw := mix(seed, uint64(n/2), saltPair)
	customer := customers[0]
	for pick, i := draw%100, 0; i < len(customers); i++ {
		if customer = customers[i]; pick < customer.weight {
			break
		}
		pick -= customer.weight
	}
	role := roles[0]
	for pick, i := draw>>8%100, 0; i < len(roles); i++ {
		if role = roles[i]; pick < role.weight {
			break
		}
		pick -= role.weight
	}
	site := customer.sites[draw>>16%uint64(len(customer.sites))]
	ring := "stable"
	if n%50 == 0 {
		ring = "canary"
	}
	h := core.Host{
		Name:     fmt.Sprintf("%s-%04d.%s", role.prefix, n+1, customer.name),
		Customer: customer.name,
		Site:     site,
		Groups:   []string{role.prefix, site},
		Labels: map[string]string{
			"role": role.role, "model": role.model, "region": regionOf(site), "ring": ring, "simulated": "true",
		},
		SSH: core.SSH{User: User, HostKeys: []string{pin(seed, n)}},
	}
	if h.Groups[0] > h.Groups[1] {
		h.Groups[0], h.Groups[1] = h.Groups[1], h.Groups[0]
	}
	if role.role == "firewall" && n|1 < total {
		h.HAGroup = fmt.Sprintf("fw-%04d.%s", n/2+1, customer.name)
	}
	return h
}

// bootID returns the content of /proc/sys/kernel/random/boot_id since the last boot.
func (h *host) bootID() string {
	h.mu.Lock()
	boots := h.boots
	h.mu.Unlock()
	a := mix(h.fleet.cfg.Seed, uint64(h.n)<<20|boots, saltBoot)
	b := mix(a, uint64(h.n), saltBoot)
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&0xffffffffffff)
}

func (h *host) uptime() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Since(h.booted)
}

// reboot takes the host down once the process that asks for it has ended, so that it can report
// how, or has continued for rebootDelay, and brings it back later, with a new boot id and an empty
// /tmp. A host that is down already is left alone.
func (h *host) reboot(pid int) {
	boot := cmp.Or(h.profile.Load().BootTime, defaultBoot)
	f := h.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.wg.Go(func() {
		for late := time.Now().Add(rebootDelay); h.process(pid) != nil && time.Now().Before(late); {
			if !wait(f.ctx, time.Millisecond) {
				return
			}
		}
		if f.ctx.Err() != nil || !h.setDown() {
			return
		}
		f.dropConns(h)
		if !wait(f.ctx, boot) {
			return
		}
		h.boot()
		h.mu.Lock()
		h.down, h.booted, h.stopped = false, time.Now(), nil
		h.boots++
		h.mu.Unlock()
	})
}

func (h *host) setDown() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return false
	}
	h.down = true
	return true
}

// admit decides about a new connection before anything is sent. Call opened exactly once for an
// admitted one.
func (h *host) admit(source netip.Addr, p *Profile) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down || p.MaxStartups > 0 && h.startups >= p.MaxStartups {
		return false
	}
	if s := h.strikes[source]; p.BanAfter > 0 && s != nil && s.count >= p.BanAfter {
		if time.Now().Before(s.until) {
			return false
		}
		delete(h.strikes, source)
	}
	h.startups++
	return true
}

// opened records how the beginning of an admitted connection ended.
func (h *host) opened(source netip.Addr, p *Profile, authenticated bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.startups--
	if authenticated || p.BanAfter == 0 {
		return
	}
	if h.strikes == nil {
		h.strikes = make(map[netip.Addr]*strike)
	}
	s := h.strikes[source]
	if s == nil {
		s = &strike{}
		h.strikes[source] = s
	}
	s.count++
	s.until = time.Now().Add(cmp.Or(p.BanFor, defaultBan))
}

// begin gives a command a process id, by which kill finds it.
func (h *host) begin(kill context.CancelCauseFunc, line string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.procs == nil {
		h.procs = make(map[int]process)
		h.nextPID = 1000 + h.n%7000
	}
	h.nextPID++
	h.procs[h.nextPID] = process{kill, line}
	return h.nextPID
}

// describe gives a background command, which began without one, the line that /proc shows.
func (h *host) describe(pid int, line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p, runs := h.procs[pid]; runs && p.line == "" {
		p.line = line
		h.procs[pid] = p
	}
}

// process is a running command.
type process struct {
	kill context.CancelCauseFunc
	line string
}

func (h *host) end(pid int) {
	h.mu.Lock()
	delete(h.procs, pid)
	h.mu.Unlock()
}

// process finds a running command; nil when there is none.
func (h *host) process(pid int) context.CancelCauseFunc {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.procs[pid].kill
}

// cmdline returns the entry of a running command in /proc.
func (h *host) cmdline(pid string) (string, bool) {
	n, err := strconv.Atoi(pid)
	h.mu.Lock()
	defer h.mu.Unlock()
	p, runs := h.procs[n]
	return p.line, runs && err == nil
}
