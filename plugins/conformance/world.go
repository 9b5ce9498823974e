package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/core/transport/fleet"
)

// bigFile is the size of the host's file in the case of large files, and bigMemory how much more a
// plugin may hold meanwhile.
const (
	bigFile   = 256 << 20
	bigMemory = 128 << 20
)

// world is the simulated hosts of one case: real SSH servers on loopback, with the lab's answers
// before them, and the faults that the case asks for.
type world struct {
	lab   *Lab
	fleet *fleet.Fleet
	pool  *transport.Pool
	hosts []core.Host

	mu      sync.Mutex
	used    map[int]int   // how often an answer was given
	hang    bool          // whatever is asked for does not end
	entered chan struct{} // closed when something hangs
	drop    int           // so many operations, then the host is gone; negative: never
	down    bool
	big     bool // files are large
}

// newWorld starts n hosts.
func newWorld(ctx context.Context, lab *Lab, n int) (*world, error) {
	f, err := fleet.Start(ctx, fleet.Config{Hosts: n, Seed: 1})
	if err != nil {
		return nil, fmt.Errorf("simulated hosts: %w", err)
	}
	pool, err := transport.New(transport.Config{KnownHosts: []string{"/dev/null"}, Credential: transport.Always(&transport.Credential{Keys: transport.NewKeys(nil), Identities: []string{f.IdentityFile()}})})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("simulated hosts: %w", err), f.Close())
	}
	w := &world{lab: lab, fleet: f, pool: pool, hosts: f.Hosts(), used: map[int]int{}, entered: make(chan struct{}), drop: -1}
	for i := range w.hosts {
		for path, content := range lab.Files {
			put := transport.Put{Path: path, Size: int64(len(content))}
			if _, err := pool.Put(ctx, w.hosts[i], put, strings.NewReader(content)); err != nil {
				w.close()
				return nil, fmt.Errorf("file %s of the lab: %w", path, err)
			}
		}
	}
	return w, nil
}

// tree returns the files of the first host, beyond those of every host.
func (w *world) tree() (map[string]string, error) { return w.fleet.Tree(w.hosts[0].Name) }

// differs returns the first path in which two trees differ; "" for none.
func differs(a, b map[string]string) string {
	for _, path := range slices.Sorted(maps.Keys(a)) {
		if b[path] != a[path] {
			return path
		}
	}
	for _, path := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[path]; !ok {
			return path
		}
	}
	return ""
}

func (w *world) close() {
	_ = w.pool.Close()
	_ = w.fleet.Close()
}

// set changes the faults.
func (w *world) set(change func(*world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

// passes is called by every operation. cut is that the connection breaks in the midst of it.
func (w *world) passes(ctx context.Context, h core.Host, what string) (cut bool, err error) {
	w.mu.Lock()
	hang := w.hang
	if hang {
		select {
		case <-w.entered:
		default:
			close(w.entered)
		}
	}
	if w.down {
		w.mu.Unlock()
		return false, &transport.Error{Host: h.Name, Addr: h.Address, Op: "dial", Before: true, Err: core.ErrUnreachable}
	}
	if w.drop >= 0 {
		if w.drop == 0 {
			w.down, cut = true, true
		}
		w.drop--
	}
	w.mu.Unlock()
	if hang {
		<-ctx.Done()
		return false, &transport.Error{Host: h.Name, Addr: h.Address, Op: what, Err: context.Cause(ctx)}
	}
	return cut, nil
}

func broken(h core.Host, what string) error {
	return &transport.Error{Host: h.Name, Addr: h.Address, Op: what, Err: fmt.Errorf("%w: %w: connection lost", core.ErrUnreachable, core.ErrUnknown)}
}

// Run implements host.Reach.
func (w *world) Run(ctx context.Context, h core.Host, e transport.Exec) (transport.Exit, error) {
	cut, err := w.passes(ctx, h, "exec")
	if err != nil {
		return transport.Exit{}, err
	}
	if cut {
		if e.Stdout != nil {
			_, _ = io.WriteString(e.Stdout, "the beginning of ")
		}
		return transport.Exit{}, broken(h, "exec")
	}
	if a := w.answer(e.Command); a != nil {
		if e.Stdin != nil {
			_, _ = io.Copy(io.Discard, e.Stdin)
		}
		if e.Stdout != nil {
			_, _ = io.WriteString(e.Stdout, a.Stdout)
		}
		if e.Stderr != nil {
			_, _ = io.WriteString(e.Stderr, a.Stderr)
		}
		return transport.Exit{Code: a.Code}, nil
	}
	return w.pool.Run(ctx, h, e)
}

// answer finds the lab's answer to a command, in order; one that was given often enough is passed
// over.
func (w *world) answer(command string) *Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.lab.Answers {
		a := &w.lab.Answers[i]
		if a.Times > 0 && w.used[i] >= a.Times || !glob(a.On, command) {
			continue
		}
		w.used[i]++
		return a
	}
	return nil
}

// glob matches a pattern in which * is any text.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return strings.HasSuffix(text, last)
}

// Put implements host.Reach.
func (w *world) Put(ctx context.Context, h core.Host, put transport.Put, data io.Reader) (transport.Written, error) {
	cut, err := w.passes(ctx, h, "put")
	if err == nil && cut {
		err = broken(h, "put")
	}
	if err != nil {
		return transport.Written{}, err
	}
	return w.pool.Put(ctx, h, put, data)
}

// Get implements host.Reach.
func (w *world) Get(ctx context.Context, h core.Host, path string, as core.Become, maxSize int64, out io.Writer) (transport.FileInfo, error) {
	cut, err := w.passes(ctx, h, "get")
	if err == nil && cut {
		err = broken(h, "get")
	}
	if err != nil {
		return transport.FileInfo{}, err
	}
	w.mu.Lock()
	big := w.big
	w.mu.Unlock()
	if !big {
		return w.pool.Get(ctx, h, path, as, maxSize, out)
	}
	if maxSize > 0 && maxSize < bigFile {
		return transport.FileInfo{}, fmt.Errorf("%w: %s has %d bytes, expected at most %d", core.ErrInvalid, path, bigFile, maxSize)
	}
	n, err := io.Copy(out, io.LimitReader(endless{}, bigFile))
	if err != nil {
		return transport.FileInfo{}, err
	}
	return transport.FileInfo{Size: n, Mode: 0o644, SHA256: bigSum}, nil
}

// bigSum is the hash of bigFile bytes of a letter x.
const bigSum = "8531f9720e3f5ce15fde831a4c677c501b3ef320d4f156c1248299cd9955392d"

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// Dial implements host.Reach.
func (w *world) Dial(ctx context.Context, h core.Host, address string) (net.Conn, error) {
	cut, err := w.passes(ctx, h, "dial")
	if err == nil && cut {
		err = broken(h, "dial")
	}
	if err != nil {
		return nil, err
	}
	return w.pool.Dial(ctx, h, address)
}

// Ready implements host.Reach.
func (w *world) Ready(ctx context.Context, h core.Host) error { return w.pool.Ready(ctx, h) }

// Probe implements host.Reach.
func (w *world) Probe(ctx context.Context, h core.Host) error {
	cut, err := w.passes(ctx, h, "probe")
	if err == nil && cut {
		err = broken(h, "probe")
	}
	if err != nil {
		return err
	}
	return w.pool.Probe(ctx, h)
}
