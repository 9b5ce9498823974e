package scale

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDesiredConcurrency(t *testing.T) {
	t.Parallel()
	c, err := Config{Max: 10, Target: 5 * time.Minute}.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		d    Demand
		want int
	}{
		"nothing":                         {Demand{}, 0},
		"one job":                         {Demand{Due: 1, Runnable: 1, Took: time.Second}, 1},
		"short jobs share slots":          {Demand{Due: 3000, Runnable: 3000, Took: 10 * time.Second}, 97}, // 3000 × 10 / 310
		"jobs that take hours do not":     {Demand{Due: 100, Runnable: 100, Took: 10 * time.Hour}, 100},
		"those that run count":            {Demand{Leased: 50, Due: 50, Runnable: 100, Took: 10 * time.Hour}, 100},
		"no more than could run at once":  {Demand{Due: 3000, Runnable: 20, Took: time.Hour}, 20},
		"an unknown time is the target's": {Demand{Due: 10, Runnable: 10}, 5},
		"windows that open soon":          {Demand{Soon: 100, Took: 10 * time.Hour}, 100},
	} {
		if got := c.concurrency(tc.d); got != tc.want {
			t.Errorf("%s: %d slots, expected %d", name, got, tc.want)
		}
	}
}

func TestWish(t *testing.T) {
	t.Parallel()
	c := Config{Min: 2, Max: 5, Target: time.Second}
	for due, want := range map[int]int{0: 2, 10: 2, 20: 2, 21: 3, 1000: 5} {
		if got := c.wish(Demand{Due: due, Runnable: due, Took: 10000 * time.Hour}, 10); got != want {
			t.Errorf("%d jobs: %d workers, expected %d", due, got, want)
		}
	}
	if each := (Config{}).perWorker([]Worker{{Concurrency: 10}, {Concurrency: 30}, {Leaving: true}}); each != 20 {
		t.Errorf("concurrency %d per worker, expected the mean", each)
	}
	if each := (Config{}).perWorker(nil); each != defaultConcurrency {
		t.Errorf("concurrency %d per worker", each)
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{{Min: 3, Max: 2}, {Min: -1}, {Max: mostWorkers + 1}, {Max: 1, Concurrency: -1}, {Max: 1, Target: time.Millisecond}, {Max: 1, Calm: -1}} {
		if _, err := c.Defaults(); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// More is wanted immediately, less after a calm; a server that begins takes nothing away before
// that.
func TestConverges(t *testing.T) {
	t.Parallel()
	at := time.Unix(0, 0)
	var m memory
	step := func(after time.Duration, now, there, want int) {
		t.Helper()
		at = at.Add(after)
		if got := m.remember(at, now, 5*time.Minute, there); got != want {
			t.Errorf("at %v: %d, expected %d", at, got, want)
		}
	}
	step(0, 1, 4, 4) // another server wanted four
	step(4*time.Minute, 1, 4, 4)
	step(61*time.Second, 1, 4, 1)
	step(time.Second, 7, 1, 7)
	step(time.Minute, 3, 7, 7)
	step(time.Minute, 2, 7, 7)
	step(2*time.Minute, 5, 7, 7)
	step(time.Minute, 1, 7, 5) // seven is 5 min ago
	step(5*time.Minute, 1, 5, 1)
}

func TestWhoLeaves(t *testing.T) {
	t.Parallel()
	old, lately := time.Unix(0, 0), time.Unix(1000, 0)
	workers := []Worker{
		{Name: "fixed", Fixed: true}, {Name: "busy", Running: 9, Started: lately}, {Name: "old", Started: old}, {Name: "new", Started: lately}, {Name: "gone", Leaving: true},
	}
	for wanted, want := range map[int][]string{4: nil, 3: {"new"}, 2: {"new", "old"}, 1: {"new", "old", "busy"}, 0: {"new", "old", "busy"}} {
		if got := leave(workers, wanted); !slices.Equal(got, want) {
			t.Errorf("%d wanted: %v leave, expected %v", wanted, got, want)
		}
	}
}

// world is a pool on fake time whose hook starts and stops workers.
type world struct {
	mu      sync.Mutex
	demand  Demand
	workers map[string]*Worker
	calls   []Request
	at      []time.Time
	mine    bool
	broken  error // what the hook answers
	away    bool  // the queue
	forgot  []string
	next    int
}

func (w *world) parts() Parts {
	return Parts{
		Poll: func(context.Context) (Demand, []Worker, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.away {
				return Demand{}, nil, core.ErrUnavailable
			}
			var list []Worker
			for _, one := range w.workers {
				list = append(list, *one)
			}
			return w.demand, list, nil
		},
		Mine: func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.mine },
		Drain: func(_ context.Context, name string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.workers[name].Leaving, w.workers[name].Asked = true, true
			return nil
		},
		Forget: func(_ context.Context, name string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.forgot = append(w.forgot, name)
			if one := w.workers[name]; one != nil {
				one.Asked = false
			}
			return nil
		},
		Done: func(error) {},
		Call: func(_ context.Context, r Request) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls, w.at = append(w.calls, r), append(w.at, time.Now())
			if w.broken != nil {
				return w.broken
			}
			for n := r.Workers; n < r.Desired.Workers; n++ {
				name := string(rune('a' + w.next))
				w.next++
				w.workers[name] = &Worker{Name: name, Concurrency: 10, Started: time.Now()}
			}
			for _, name := range r.Drained {
				delete(w.workers, name)
			}
			return nil
		},
	}
}

// play runs a scaler on fake time.
func play(t *testing.T, change func(*world, *Config), story func(*world, *Scaler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{workers: map[string]*Worker{}, mine: true}
		cfg := Config{Pool: "p", Min: 1, Max: 5, Concurrency: 10, Target: time.Minute, Calm: 5 * time.Minute}
		if change != nil {
			change(w, &cfg)
		}
		s, err := New(cfg, w.parts())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		story(w, s)
		stop()
		<-done
	})
}

func (w *world) set(change func()) { w.mu.Lock(); defer w.mu.Unlock(); change() }

func (w *world) there() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.workers)
}

func TestFollowsABurst(t *testing.T) {
	t.Parallel()
	play(t, nil, func(w *world, s *Scaler) {
		<-time.After(3 * time.Second)
		if w.there() != 1 {
			t.Errorf("%d workers at the beginning, expected the fewest", w.there())
		}
		w.set(func() { w.demand = Demand{Due: 40, Runnable: 40, Took: 1000 * time.Hour} })
		<-time.After(15 * time.Second)
		if w.there() != 4 {
			t.Errorf("%d workers in the burst, expected 4", w.there())
		}
		w.set(func() {
			w.demand = Demand{}
			w.workers["a"].Running = 2 // it is still at work
			w.workers["b"].Running = 1
		})
		<-time.After(4 * time.Minute)
		if w.there() != 4 {
			t.Errorf("%d workers before the calm has ended", w.there())
		}
		<-time.After(2 * time.Minute)
		w.mu.Lock()
		if len(w.workers) != 2 || w.workers["a"] == nil || !w.workers["b"].Leaving {
			t.Errorf("%v: those with nothing to do go, and b when its job has ended", w.workers)
		}
		last := w.calls[len(w.calls)-1]
		if !slices.Equal(last.Leaving, []string{"b"}) || last.Desired.Workers != 1 || len(w.forgot) != 2 {
			t.Errorf("%+v, forgotten %v", last, w.forgot)
		}
		w.workers["b"].Running = 0
		w.mu.Unlock()
		<-time.After(30 * time.Second)
		if w.there() != 1 {
			t.Errorf("%d workers at the end", w.there())
		}
		if wish, ok := s.Desired(t.Context()); !ok || wish != (Wish{Concurrency: 10, Workers: 1}) {
			t.Errorf("%+v %v", wish, ok)
		}
	})
}

// A server that takes over names the workers that were drained before, also those that are away.
func TestNamesWorkersThatWereDrainedBefore(t *testing.T) {
	t.Parallel()
	play(t, func(w *world, _ *Config) {
		w.workers["gone"] = &Worker{Name: "gone", Leaving: true, Asked: true}
		w.workers["idle"] = &Worker{Name: "idle", Concurrency: 10, Leaving: true, Asked: true}
		w.workers["cordoned"] = &Worker{Name: "cordoned", Concurrency: 10, Leaving: true} // by a person
	}, func(w *world, _ *Scaler) {
		<-time.After(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		slices.Sort(w.forgot)
		if !slices.Equal(w.forgot, []string{"gone", "idle"}) || w.workers["cordoned"] == nil || w.workers["idle"] != nil {
			t.Errorf("forgotten %v, left %v", w.forgot, w.workers)
		}
	})
}

// A worker that a person uncordons takes jobs again: it is never named as drained.
func TestKeepsWorkersThatTakeJobsAgain(t *testing.T) {
	t.Parallel()
	play(t, func(w *world, c *Config) {
		c.Calm = 0
		w.workers["a"] = &Worker{Name: "a", Concurrency: 10, Running: 2}
		w.workers["b"] = &Worker{Name: "b", Concurrency: 10, Running: 1}
		w.next = 2
	}, func(w *world, _ *Scaler) {
		<-time.After(30 * time.Second)
		w.set(func() {
			if !w.workers["b"].Leaving {
				t.Error("b was not drained")
			}
			*w.workers["b"] = Worker{Name: "b", Concurrency: 10}
			w.demand = Demand{Due: 20, Runnable: 20, Took: 1000 * time.Hour}
		})
		<-time.After(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if b := w.workers["b"]; b == nil || b.Leaving || len(w.workers) != 2 {
			t.Errorf("%v, calls %+v", w.workers, w.calls)
		}
	})
}

// The cost of polls stays a small part of the time: the longer one takes, the more rarely they are
// made.
func TestLooksAreRareWhereTheyTakeLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			takes time.Duration
			want  int // looks in ten minutes
		}{{0, 300}, {50 * time.Millisecond, 300}, {3 * time.Second, 10}} {
			looks, parts := 0, (&world{mine: true}).parts()
			parts.Poll = func(context.Context) (Demand, []Worker, error) {
				looks++
				<-time.After(c.takes)
				return Demand{}, nil, nil
			}
			s, err := New(Config{Pool: "p", Max: 1}, parts)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute-time.Second)
			s.Run(ctx)
			stop()
			if looks != c.want {
				t.Errorf("%d looks that take %v, expected %d", looks, c.takes, c.want)
			}
		}
	})
}

// Without a hook nobody follows the pool: there is a look when somebody asks.
func TestLooksForWhoAsksWithoutAHook(t *testing.T) {
	t.Parallel()
	looks, parts := 0, (&world{mine: true}).parts()
	parts.Call = nil
	parts.Poll = func(context.Context) (Demand, []Worker, error) {
		looks++
		return Demand{Due: 30, Runnable: 30, Took: time.Hour}, nil, nil
	}
	s, err := New(Config{Pool: "p", Max: 5, Concurrency: 10}, parts)
	if err != nil {
		t.Fatal(err)
	}
	s.Run(t.Context())
	if looks != 0 {
		t.Errorf("%d looks that nobody asked for", looks)
	}
	if w, known := s.Desired(t.Context()); !known || w.Workers != 3 || looks != 1 {
		t.Errorf("%+v %v after %d looks", w, known, looks)
	}
}

// A hook that fails is called ever more rarely, and the pool stays as it is.
func TestFailingHookHarmsNothing(t *testing.T) {
	t.Parallel()
	play(t, func(w *world, _ *Config) {
		w.broken = errors.New("no")
		w.demand = Demand{Due: 40, Runnable: 40, Took: time.Hour}
	}, func(w *world, _ *Scaler) {
		<-time.After(time.Hour)
		w.mu.Lock()
		n := len(w.calls)
		for i := 1; i < len(w.at); i++ {
			if gap := w.at[i].Sub(w.at[i-1]); gap < 10*time.Second || i > 8 && gap < 5*time.Minute {
				t.Errorf("call %d came %v after the one before", i, gap)
			}
		}
		w.broken = nil
		w.mu.Unlock()
		if n < 10 || n > 20 {
			t.Errorf("%d calls within an hour", n)
		}
		<-time.After(6 * time.Minute)
		if w.there() != 4 {
			t.Errorf("%d workers once the hook works", w.there())
		}
	})
}

// Of two servers one calls, and the other takes over; while the queue is away nobody does.
func TestOneOfManyCalls(t *testing.T) {
	t.Parallel()
	play(t, func(w *world, _ *Config) { w.mine = false }, func(w *world, _ *Scaler) {
		count := func() int { w.mu.Lock(); defer w.mu.Unlock(); return len(w.calls) }
		<-time.After(time.Minute)
		if count() != 0 {
			t.Error("a server calls that is not to")
		}
		w.set(func() { w.mine, w.away = true, true })
		<-time.After(time.Minute)
		if count() != 0 {
			t.Error("a server calls that knows nothing")
		}
		w.set(func() { w.away = false })
		<-time.After(time.Minute)
		if count() != 1 || w.there() != 1 {
			t.Errorf("%d calls, %d workers", count(), w.there())
		}
	})
}

// A hook that did nothing is called again.
func TestRepeats(t *testing.T) {
	t.Parallel()
	play(t, func(w *world, c *Config) { c.Min = 2 }, func(w *world, _ *Scaler) {
		<-time.After(5 * time.Second)
		w.set(func() { delete(w.workers, "a") })
		<-time.After(70 * time.Second)
		if w.there() != 2 {
			t.Errorf("%d workers", w.there())
		}
	})
}

func TestHooks(t *testing.T) {
	t.Parallel()
	r := Request{Version: 1, Pool: "p", Desired: Wish{20, 2}, Drained: []string{}, Leaving: []string{}}
	file := filepath.Join(t.TempDir(), "request")
	call, err := Hook("cat >'"+file+"'; sleep 3 & echo said", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := call(t.Context(), r); err != nil { // what it left behind is not waited for
		t.Error(err)
	}
	text, err := os.ReadFile(file)
	var got Request
	if err != nil || json.Unmarshal(text, &got) != nil || got.Desired != r.Desired || !strings.Contains(string(text), `"slots":20`) { // the former name
		t.Errorf("%v: %s", err, text)
	}
	call, err = Hook("echo out of money >&2; exit 3", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := call(t.Context(), r); err == nil || !strings.Contains(err.Error(), "out of money") {
		t.Error(err)
	}
	call, err = Hook("sleep 100", nil)
	if err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := call(limited, r); !errors.Is(err, core.ErrTimeout) {
		t.Error(err)
	}
	var signature string
	status := http.StatusNoContent
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		signature = req.Header.Get("X-Turnus-Signature-256")
		_, _ = io.Copy(io.Discard, req.Body)
		w.WriteHeader(status)
	}))
	defer web.Close()
	call, err = Hook(web.URL, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := call(t.Context(), r); err != nil || !strings.HasPrefix(signature, "sha256=") {
		t.Error(err, signature)
	}
	status = http.StatusFound
	if err := call(t.Context(), r); err == nil {
		t.Error("a redirect is taken for an answer")
	}
	for target, secret := range map[string]string{" ": "", "http://": "", "true": "key"} {
		if _, err := Hook(target, []byte(secret)); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: %v", target, err)
		}
	}
}
