// Package hostkeys owns how host keys come to be trusted: scanning many hosts, remembering the keys
// seen until a person or DNS has proved their fingerprints, deciding which of them may be accepted,
// and editing known_hosts files.
//
// It must not know how hosts are dialled, nor how results are printed.
package hostkeys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

// concurrency is how many hosts are scanned at the same time.
const concurrency = 128

// Result is one scanned host.
type Result struct {
	Host  core.Host
	Shown []ssh.PublicKey // with certificates
	transport.HostKeys
	Err error // the host showed no key
}

// Proved reports whether a run would accept a key of the host.
func (r Result) Proved() bool {
	return slices.ContainsFunc(r.Keys, func(k transport.HostKey) bool {
		return k.State == transport.KeyKnown || k.State == transport.KeySigned
	})
}

// Has reports whether the host showed a key in this state.
func (r Result) Has(state transport.KeyState) bool {
	return slices.ContainsFunc(r.Keys, func(k transport.HostKey) bool { return k.State == state })
}

// target is a host to scan, with its jump hosts.
type target struct {
	host  core.Host
	jumps []core.Host
	err   error
}

// targets returns the hosts and the jump hosts on their way, each once, those with fewer jump hosts
// first.
func targets(pool *transport.Pool, hosts []core.Host) []target {
	seen := map[string]bool{}
	var list []target
	var add func(h core.Host)
	add = func(h core.Host) {
		if seen[h.Name] {
			return
		}
		seen[h.Name] = true
		jumps, err := pool.Jumps(h)
		for _, j := range jumps {
			add(j)
		}
		list = append(list, target{h, jumps, err})
	}
	for _, h := range hosts {
		add(h)
	}
	slices.SortStableFunc(list, func(a, b target) int { return cmp.Compare(len(a.jumps), len(b.jumps)) })
	return list
}

// Targets returns the hosts and the jump hosts on their way, each once, jump hosts first.
func Targets(pool *transport.Pool, hosts []core.Host) []core.Host {
	return core.Map(targets(pool, hosts), func(t target) core.Host { return t.host })
}

// scanner is one scan of many hosts.
type scanner struct {
	pool *transport.Pool

	mu     sync.Mutex
	broken map[string]error // jump hosts that cannot be used, by name
}

// Scan collects the keys of Targets, in that order. It logs in to jump hosts only, and only if
// their keys are trusted. seen is called when a host has been scanned, by several goroutines.
func Scan(ctx context.Context, pool *transport.Pool, hosts []core.Host, seen func()) []Result {
	s := &scanner{pool: pool, broken: map[string]error{}}
	list := targets(pool, hosts)
	results := make([]Result, len(list))
	for begin := 0; begin < len(list); {
		end := begin + 1
		for end < len(list) && len(list[end].jumps) == len(list[begin].jumps) {
			end++
		}
		s.level(ctx, list[begin:end], results[begin:end], seen)
		begin = end
	}
	return results
}

// level scans hosts that are behind as many jump hosts, some at the same time.
func (s *scanner) level(ctx context.Context, list []target, results []Result, seen func()) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(concurrency, len(list)) {
		wg.Go(func() {
			for i := range next {
				r := s.one(ctx, list[i])
				if !r.Proved() {
					s.breaks(r.Host.Name, notTrusted(r))
				}
				results[i] = r
				seen()
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	wg.Wait()
}

func (s *scanner) one(ctx context.Context, t target) Result {
	r := Result{Host: t.host, Err: cmp.Or(t.err, context.Cause(ctx))}
	for _, j := range t.jumps {
		r.Err = cmp.Or(r.Err, s.behind(j.Name))
	}
	if r.Err != nil {
		return r
	}
	shown, err := s.pool.ScanKeys(ctx, t.host)
	r.Shown = shown
	if e, ok := errors.AsType[*transport.Error](err); ok && e.Host != t.host.Name {
		s.breaks(e.Host, err)
		err = s.behind(e.Host)
	}
	if err == nil {
		r.HostKeys, err = s.pool.Compare(t.host, shown)
	}
	r.Err = err
	return r
}

// breaks notes why a host cannot be a jump host. The first reason counts.
func (s *scanner) breaks(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken[name] == nil {
		s.broken[name] = err
	}
}

// behind returns why no host behind a jump host can be scanned; nil if they can.
func (s *scanner) behind(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.broken[name]; err != nil {
		return fmt.Errorf("not scanned: jump host %s: %w", name, err)
	}
	return nil
}

// notTrusted returns the reason why nobody logs in to a host.
func notTrusted(r Result) error {
	if r.Err != nil {
		return r.Err
	}
	return fmt.Errorf("its key is not trusted (%s): accept it first, then scan again", r.Keys[0].State)
}

// Duplicate is one key that hosts of several names in known_hosts showed.
type Duplicate struct {
	Key   ssh.PublicKey
	Hosts []string
}

// Duplicates returns the keys that more than one machine showed.
func Duplicates(list []Result) []Duplicate {
	byKey := map[string]*Duplicate{}
	names := map[string]map[string]bool{}
	var order []string
	for _, r := range list {
		for _, k := range r.Keys {
			id := string(k.Key.Marshal())
			if byKey[id] == nil {
				byKey[id], names[id] = &Duplicate{Key: k.Key}, map[string]bool{}
				order = append(order, id)
			}
			byKey[id].Hosts = append(byKey[id].Hosts, r.Host.Name)
			names[id][r.Name] = true
		}
	}
	var out []Duplicate
	for _, id := range order {
		if len(names[id]) > 1 { // two hosts with one address are one machine
			slices.Sort(byKey[id].Hosts)
			out = append(out, *byKey[id])
		}
	}
	slices.SortFunc(out, func(a, b Duplicate) int { return strings.Compare(a.Hosts[0]+a.Key.Type(), b.Hosts[0]+b.Key.Type()) })
	return out
}
