package memory_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/queuetest"
)

func openStates(t queuetest.TB, dir string, ttl time.Duration) *memory.States {
	t.Helper()
	m := memory.New(memory.Options{SessionTTL: ttl})
	t.Cleanup(m.Shutdown)
	q, err := memory.NewStates(m, dir)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return q
}

func TestConformanceOfStates(t *testing.T) {
	t.Parallel()
	root, n := t.TempDir(), 0
	queuetest.Run(t, queuetest.Subject{
		Open: func(t queuetest.TB, ttl time.Duration) queue.Queue {
			n++
			return openStates(t, filepath.Join(root, strconv.Itoa(n)), ttl)
		},
		Around: synctest.Test,
	})
}

// site is a service that is started again and again over one folder.
type site struct {
	*testing.T
	dir     string
	q       *memory.States
	session string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, dir: filepath.Join(t.TempDir(), "states")}
	s.restart()
	return s
}

// restart makes a kill and a new start: another queue, empty, and filled again from elsewhere.
func (s *site) restart(finished ...queue.FinishedJobs) {
	s.Helper()
	s.q = openStates(s.T, s.dir, time.Hour)
	s.fill(finished...)
}

func (s *site) fill(finished ...queue.FinishedJobs) {
	s.Helper()
	r := queue.Run{ID: "r/1", Targets: []queue.Target{{Host: "a"}, {Host: "b"}, {Host: "c"}}, FinishedJobs: finished}
	if _, err := queue.SubmitOne(s.Context(), s.q, r); err != nil {
		s.Fatal(err)
	}
	var err error
	if s.session, err = s.q.Open(s.Context(), "n"); err != nil {
		s.Fatal(err)
	}
}

func (s *site) job(index int) core.JobID { return core.JobID{Run: "r/1", Index: index} }

func (s *site) status() queue.Status {
	s.Helper()
	st, err := s.q.Status(s.Context(), "r/1")
	if err != nil {
		s.Fatal(err)
	}
	return st
}

// turn gives the leases by index.
func (s *site) turn(want int, acks ...queue.Ack) map[int]queue.Lease {
	s.Helper()
	res, err := s.q.Turn(s.Context(), queue.Turn{Session: s.session, Want: want, Acks: acks})
	if err != nil {
		s.Fatal(err)
	}
	leases := map[int]queue.Lease{}
	for _, l := range res.Leases {
		leases[l.Job.Index] = l
	}
	return leases
}

func (s *site) states(want ...string) map[int]queue.Lease {
	s.Helper()
	leases := s.turn(len(want))
	for i, state := range want {
		if got := string(leases[i].State); got != state {
			s.Errorf("job %d begins with state %q, expected %q", i, got, state)
		}
	}
	return leases
}

func (s *site) save(l queue.Lease, seq uint64, state string) {
	s.Helper()
	if err := s.q.Save(s.Context(), queue.Save{Session: s.session, Job: l.Job, Token: l.Token, Seq: seq, State: []byte(state)}); err != nil {
		s.Fatal(err)
	}
}

func ack(l queue.Lease, kind queue.AckKind, state string) queue.Ack {
	a := queue.Ack{Job: l.Job, Token: l.Token, Kind: kind, Outcome: core.Changed, State: []byte(state), After: time.Hour}
	if kind == queue.AckDone {
		a.State = nil
	}
	return a
}

func (s *site) files() (n int) {
	s.Helper()
	list, err := filepath.Glob(filepath.Join(s.dir, "*", "*"))
	if err != nil {
		s.Fatal(err)
	}
	return len(list)
}

func TestStatesOutliveTheProcess(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	leases := s.states("", "", "")
	s.save(leases[0], 1, "one")
	s.save(leases[0], 2, "two")
	s.turn(0, ack(leases[1], queue.AckSuspend, "parked"))
	s.restart()
	leases = s.states("two", "parked", "")
	s.turn(0, ack(leases[0], queue.AckReturn, ""))
	s.restart() // nothing came of it: once more
	leases = s.states("two", "parked", "")
	s.turn(0, ack(leases[0], queue.AckRetry, "three"), ack(leases[1], queue.AckDone, ""), ack(leases[2], queue.AckSuspend, ""))
	s.restart(queue.FinishedJobs{Index: 1, Count: 1, Outcome: core.Changed})
	leases = s.turn(3)
	if string(leases[0].State) != "three" || len(leases) != 2 || len(leases[2].State) > 0 {
		t.Errorf("leases %+v", leases)
	}
	s.turn(0, ack(leases[0], queue.AckDone, ""), ack(leases[2], queue.AckDone, ""))
	if n := s.files(); n != 0 {
		t.Errorf("%d files are left of a run that has ended", n)
	}
}

// A session that is lost before its jobs save anything takes no state with it.
func TestAFoundStateOutlivesALostSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &site{T: t, dir: dir}
		s.restart()
		l := s.turn(1)[0]
		s.save(l, 1, "one")
		s.save(l, 2, "two")
		s.restart()
		lost := s.turn(1)[0]
		<-time.After(2 * time.Hour) // fake time
		var err error
		if s.session, err = s.q.Open(t.Context(), "n2"); err != nil {
			t.Fatal(err)
		}
		if again := s.turn(1)[0]; again.Token == lost.Token || again.Attempt < 2 || string(lost.State) != "two" || string(again.State) != "two" {
			t.Errorf("leased as %+v, then as %+v", lost, again)
		}
	})
}

func TestStatesAreOfTheLeaseThatHoldsTheJob(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	l := s.turn(1)[0]
	s.save(l, 2, "two")
	s.save(l, 1, "one") // comes late
	stale := ack(l, queue.AckSuspend, "stale")
	stale.Token += 7
	s.turn(0, stale)
	other := queue.Save{Session: s.session, Job: l.Job, Token: l.Token + 7, Seq: 3, State: []byte("stale")}
	if err := s.q.Save(t.Context(), other); !errors.Is(err, core.ErrConflict) {
		t.Errorf("Save with another token: %v", err)
	}
	s.restart()
	s.states("two")
}

func TestCancelForgets(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	leases := s.states("", "", "")
	s.turn(0, ack(leases[0], queue.AckSuspend, "parked"))
	if err := s.q.Cancel(context.Background(), "r/1", "enough"); err != nil {
		t.Fatal(err)
	}
	s.save(leases[1], 1, "reverting") // what is leased may end what it began
	if n := s.files(); n != 1 {
		t.Errorf("%d files, expected that of the job that still runs", n)
	}
	s.turn(0, ack(leases[1], queue.AckDone, ""))
	if n := s.files(); n != 0 {
		t.Errorf("%d files are left of a run that was cancelled", n)
	}
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	l := s.turn(1)[0]
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := s.q.Save(t.Context(), queue.Save{Session: s.session, Job: l.Job, Token: l.Token, Seq: 1, State: []byte("one")})
	if !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("Save where nothing can be kept: %v", err)
	}
	if _, err := memory.NewStates(memory.New(memory.Options{}), s.dir); err == nil {
		t.Error("a file is taken for the folder")
	}
}

func TestOldAndHalfWrittenStatesAreRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	leases := s.states("", "", "")
	s.save(leases[0], 1, "one")
	s.save(leases[1], 1, "old")
	folder := filepath.Join(s.dir, "r%2F1")
	long := time.Now().Add(-2 * board.MaxKeep)
	if err := errors.Join(os.Chtimes(filepath.Join(folder, "1"), long, long), os.WriteFile(filepath.Join(folder, "2.part"), []byte("hal"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s.restart()
	s.states("one", "", "")
	if n := s.files(); n != 1 {
		t.Errorf("%d files, expected 1", n)
	}
}

// BenchmarkSave measures a checkpoint where the queue is in memory: a file that is on disk.
func BenchmarkSave(b *testing.B) {
	q, err := memory.NewStates(memory.New(memory.Options{SessionTTL: time.Hour}), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	if _, err := queue.SubmitOne(ctx, q, queue.Run{ID: "r", Targets: []queue.Target{{Host: "h"}}}); err != nil {
		b.Fatal(err)
	}
	s, err := q.Open(ctx, "node")
	if err != nil {
		b.Fatal(err)
	}
	res, err := q.Turn(ctx, queue.Turn{Session: s, Want: 1})
	if err != nil || len(res.Leases) != 1 {
		b.Fatal(res, err)
	}
	save := queue.Save{Session: s, Job: res.Leases[0].Job, Token: res.Leases[0].Token, State: make([]byte, 1<<10)}
	for b.Loop() {
		save.Seq++
		if err := q.Save(ctx, save); err != nil {
			b.Fatal(err)
		}
	}
}
