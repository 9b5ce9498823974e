package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

// crowd is a reach that holds the first read of each of n hosts: of the deadly one until all of
// them were read, of the others until their call ends, so that none continues before the death. It
// counts changes.
type crowd struct {
	fleet
	n int

	mu      sync.Mutex
	looked  map[string]bool
	all     chan struct{}
	changes map[string]int
}

func newCrowd(n int, deadly string) *crowd {
	c := &crowd{n: n, looked: map[string]bool{}, all: make(chan struct{}), changes: map[string]int{}}
	c.run = func(ctx context.Context, h core.Host, e transport.Exec) (transport.Exit, error) {
		var hold <-chan struct{}
		c.mu.Lock()
		if e.Command == "change" {
			c.changes[h.Name]++
		} else if !c.looked[h.Name] {
			c.looked[h.Name], hold = true, ctx.Done()
			if h.Name == deadly {
				hold = c.all
			}
			if len(c.looked) == n {
				close(c.all)
			}
		}
		c.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-ctx.Done():
				return transport.Exit{}, ctx.Err()
			}
		}
		_, err := io.WriteString(e.Stdout, h.Name)
		return transport.Exit{}, err
	}
	return c
}

// play runs the job type on all hosts at the same time.
func (c *crowd) play(t *testing.T, b *bench, p labParams) (outs []Outcome, errs []error) {
	t.Helper()
	outs, errs = make([]Outcome, c.n), make([]error, c.n)
	ctx, cancel := context.WithTimeout(t.Context(), 2*deadline)
	defer cancel()
	var wg sync.WaitGroup
	for i := range c.n {
		wg.Go(func() {
			one := call("poison", p)
			one.Job.Index, one.Host.Name = i, fmt.Sprint("h", i)
			outs[i], errs[i] = b.Run(ctx, one)
		})
	}
	wg.Wait()
	return outs, errs
}

// One host of forty kills the process: the others are called again, each alone until it is known
// whose fault it was, and end well, once. Red with blame answering false.
func TestFaultW11OneHostKillsTheProcessOfForty(t *testing.T) {
	t.Parallel()
	c := newCrowd(40, "h17")
	b := open(t, c)
	for round := range 2 {
		outs, errs := c.play(t, b, labParams{Text: "h17"})
		for i := range outs {
			if i == 17 {
				if !errors.Is(errs[i], core.ErrPluginFailed) || c.changes["h17"] != 0 {
					t.Errorf("the deadly host: %+v, %v, changed %d times", outs[i], errs[i], c.changes["h17"])
				}
			} else if errs[i] != nil || outs[i].Failed || c.changes[fmt.Sprint("h", i)] != round+1 {
				t.Errorf("round %d, h%d: %+v, %v, changed %d times", round, i, outs[i], errs[i], c.changes[fmt.Sprint("h", i)])
			}
		}
		until(t, "a death in company, and then one alone each time", func() bool { return b.pool().stats().Deaths == round+2 })
		if s := b.pool().stats(); s.Blocked {
			t.Errorf("round %d: %+v, expected no plugin blocked for one host", round, s)
		}
	}
}

// A neighbour that may have changed its host is called again only when its type may be.
func TestFaultW11ANeighbourThatChangedItsHost(t *testing.T) {
	t.Parallel()
	for onLost, want := range map[string]int{"hold": 1, "retry": 2} {
		t.Run(onLost, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(8, "h3")
			b := open(t, c, func(_ *Config, m *Manifest, _ *[]string) {
				for i := range m.Types {
					m.Types[i].OnLost = onLost
				}
			})
			outs, errs := c.play(t, b, labParams{Op: "first", Text: "h3"})
			for i := range outs {
				lost := i == 3 || onLost == "hold"
				if errors.Is(errs[i], core.ErrPluginFailed) != lost || lost && outs[i].Effects != EffectsUnknown {
					t.Errorf("h%d: %+v, %v", i, outs[i], errs[i])
				}
				if n := c.changes[fmt.Sprint("h", i)]; n != want {
					t.Errorf("h%d was changed %d times, expected %d", i, n, want)
				}
			}
		})
	}
}

// A change before a checkpoint is in its state: the call continues from there.
func TestFaultW11ACallGoesOnFromItsCheckpoint(t *testing.T) {
	t.Parallel()
	s := &services{leases: map[string]*lease{}}
	c := call("poison", labParams{})
	l := s.grant(&c)
	l.ops = 1
	if l.change(t.Context(), "a command") != nil || !l.tried().unsaved || !l.tried().touched {
		t.Errorf("after a change: %+v", l.tried())
	}
	l.ops = 2 // the checkpoint, and something else
	if l.checkpointed(State{Version: 1}); !l.tried().unsaved {
		t.Error("what ran beside the checkpoint counts as saved")
	}
	l.ops = 1
	if l.checkpointed(State{Version: 2}); l.tried().unsaved || l.tried().saved.Version != 2 {
		t.Errorf("after a checkpoint: %+v", l.tried())
	}
}
