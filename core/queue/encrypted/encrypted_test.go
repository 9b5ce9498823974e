package encrypted_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/board/boardtest"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/queuetest"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/testparts/servers"
)

func TestMain(m *testing.M) {
	// On Redis most tests wait for a session to expire: more of them at the same time than there are
	// cores.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if err := f.Value.Set("16"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

func newRing(t testing.TB, o keyring.Options) (*keyring.Ring, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ring.json")
	if _, err := keyring.New(path); err != nil {
		t.Fatal(err)
	}
	return ringAt(t, path, o), path
}

func ringAt(t testing.TB, path string, o keyring.Options) *keyring.Ring {
	t.Helper()
	r, err := keyring.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// inMemory opens queues in memory behind a ring.
func inMemory(ring *keyring.Ring) func(queuetest.TB, time.Duration) queue.Queue {
	return func(t queuetest.TB, ttl time.Duration) queue.Queue {
		m := memory.New(memory.Options{SessionTTL: ttl})
		t.Cleanup(m.Shutdown)
		return encrypted.New(m, ring, nil)
	}
}

func boardInMemory(ring *keyring.Ring) func(boardtest.TB) board.Store {
	return func(t boardtest.TB) board.Store {
		m := memory.New(memory.Options{})
		t.Cleanup(m.Shutdown)
		return encrypted.New(m, ring, nil)
	}
}

func TestConformanceInMemory(t *testing.T) {
	ring, _ := newRing(t, keyring.Options{})
	queuetest.Run(t, queuetest.Subject{Open: inMemory(ring), Around: synctest.Test})
	boardtest.Run(t, boardtest.Subject{Open: boardInMemory(ring), Around: synctest.Test})
}

func TestConformanceOverStatesOnDisk(t *testing.T) {
	ring, _ := newRing(t, keyring.Options{})
	root, n := t.TempDir(), 0
	queuetest.Run(t, queuetest.Subject{
		Open: func(t queuetest.TB, ttl time.Duration) queue.Queue {
			n++
			m := memory.New(memory.Options{SessionTTL: ttl})
			t.Cleanup(m.Shutdown)
			q, err := memory.NewStates(m, filepath.Join(root, strconv.Itoa(n)))
			if err != nil {
				t.Fatalf("New: %v", err)
			}
			return encrypted.New(q, ring, nil)
		},
		Around: synctest.Test,
	})
}

// TestSequences compares an encrypted queue with one that is not: what is encrypted changes no
// decision.
func TestSequences(t *testing.T) {
	ring, _ := newRing(t, keyring.Options{})
	queuetest.Sequences(t, queuetest.Subject{Open: inMemory(nil)}, queuetest.Subject{Open: inMemory(ring)})
	boardtest.Sequences(t, boardtest.Subject{Open: boardInMemory(nil)}, boardtest.Subject{Open: boardInMemory(ring)})
}

// bed is a queue on Redis, as processes with and without key rings see it.
type bed struct {
	*testing.T
	client goredis.UniversalClient
	raw    encrypted.Backend
	path   string
	ring   *keyring.Ring
}

func newBed(t *testing.T) *bed {
	t.Helper()
	client := servers.StartRedis(t).Client()
	t.Cleanup(func() { _ = client.Close() })
	raw, err := redis.New(client, redis.Options{Pool: "p"})
	if err != nil {
		t.Fatal(err)
	}
	ring, path := newRing(t, keyring.Options{})
	return &bed{T: t, client: client, raw: raw, ring: ring, path: path}
}

// node is one process, and the messages that it reported.
type node struct {
	*encrypted.Queue
	bed      *bed
	session  string
	reported []string
}

func (b *bed) node(ring *keyring.Ring) *node {
	b.Helper()
	n := &node{bed: b}
	n.Queue = encrypted.New(b.raw, ring, func(s string) { n.reported = append(n.reported, s) })
	var err error
	if n.session, err = n.Open(b.Context(), "n"); err != nil {
		b.Fatal(err)
	}
	return n
}

func (n *node) turn(want int, acks ...queue.Ack) queue.TurnResult {
	n.bed.Helper()
	res, err := n.Turn(n.bed.Context(), queue.Turn{Session: n.session, Want: want, Acks: acks})
	if err != nil {
		n.bed.Fatal(err)
	}
	return res
}

func (n *node) submit(run string, hosts int) queue.Run {
	n.bed.Helper()
	r := queue.Run{ID: run, Payload: []byte("payload of " + word)}
	for i := range hosts {
		r.Targets = append(r.Targets, queue.Target{Host: run + "-h" + strconv.Itoa(i), Data: []byte("data of " + word)})
	}
	if _, err := queue.SubmitOne(n.bed.Context(), n, r); err != nil {
		n.bed.Fatal(err)
	}
	return r
}

// word must not be found outside of processes with the key ring.
const word = "Xanthippe"

func done(l queue.Lease) queue.Ack {
	return queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: core.Changed, Detail: []byte("detail of " + word)}
}

// holds reports whether the word is anywhere in Redis.
func (b *bed) holds() bool {
	b.Helper()
	found := false
	if err := redisconn.Values(b.Context(), b.client, "*", func(_ string, v []byte) error {
		found = found || bytes.Contains(v, []byte(word))
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return found
}

// fill goes through everything that a queue keeps.
func (n *node) fill() {
	n.bed.Helper()
	ctx := n.bed.Context()
	n.submit("r", 4)
	leases := n.turn(4).Leases
	if len(leases) != 4 || leases[0].Err != nil || string(leases[0].Data) != "data of "+word {
		n.bed.Fatalf("leases: %+v", leases)
	}
	state := []byte("state of " + word)
	if err := n.Save(ctx, queue.Save{Session: n.session, Job: leases[0].Job, Token: leases[0].Token, Seq: 1, State: state}); err != nil {
		n.bed.Fatal(err)
	}
	n.turn(0, done(leases[1]),
		queue.Ack{Job: leases[2].Job, Token: leases[2].Token, Kind: queue.AckRetry, Outcome: core.Failed, After: time.Hour, State: state, Detail: state},
		queue.Ack{Job: leases[3].Job, Token: leases[3].Token, Kind: queue.AckSuspend, Event: "e", State: state})
	if _, err := n.Post(ctx, "windows", []byte("document of "+word), time.Hour); err != nil {
		n.bed.Fatal(err)
	}
	if err := n.Publish(ctx, "r", []byte("message of "+word)); err != nil {
		n.bed.Fatal(err)
	}
}

// With the negative control: without a key ring the word is there.
func TestNothingIsLegibleInRedis(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	n := b.node(b.ring)
	n.fill()
	if b.holds() {
		t.Error("it is in Redis in the clear")
	}
	ctx := t.Context()
	seen := n.Poll(ctx, 10, queue.Ask{Run: "r"})[0]
	list, err := seen.Records, seen.Err
	if err != nil || len(list) != 1 || string(list[0].Detail) != "detail of "+word {
		t.Errorf("records %+v, %v", list, err)
	}
	if p, err := n.Payload(ctx, "r"); err != nil || string(p) != "payload of "+word {
		t.Errorf("payload %q, %v", p, err)
	}
	if d, _, err := n.Posted(ctx, "windows", 0); err != nil || string(d) != "document of "+word {
		t.Errorf("document %q, %v", d, err)
	}
	if m, _, err := n.Follow(ctx, "r", "", 10, 0); err != nil || len(m) != 1 || string(m[0]) != "message of "+word {
		t.Errorf("messages %q, %v", m, err)
	}
	open := newBed(t)
	open.node(nil).fill()
	if !open.holds() {
		t.Error("the search detects nothing: it finds no words of a queue that has no key ring")
	}
}

func TestWithoutTheKeyNothingIsRead(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.node(b.ring).fill()
	other, _ := newRing(t, keyring.Options{})
	ctx := t.Context()
	for name, n := range map[string]*node{"no ring": b.node(nil), "another ring": b.node(other)} {
		for what, err := range map[string]error{
			"Payload": second(n.Payload(ctx, "r")),
			"Posted":  third(n.Posted(ctx, "windows", 0)),
			"Look":    n.Poll(ctx, 10, queue.Ask{Run: "r"})[0].Err,
		} {
			if !errors.Is(err, keyring.ErrNoKey) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		if m, next, err := n.Follow(ctx, "r", "", 10, 0); err != nil || len(m) != 0 || board.LostMessages("", next, 0) != 1 {
			t.Errorf("%s: messages %q, %q, %v", name, m, next, err)
		}
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

// A worker without the key takes no job, reports why, and hinders nobody. Once the key is there it
// works.
func TestAWorkerWithoutTheKeyLeavesJobsToOthers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	next := filepath.Join(t.TempDir(), "late.json")
	copyFile(t, b.path, next)
	late := ringAt(t, next, keyring.Options{}) // it has the first key only
	if id, err := keyring.Add(b.path); err != nil {
		t.Fatal(err)
	} else if err := keyring.Promote(b.path, id); err != nil {
		t.Fatal(err)
	}
	good, poor, none := b.node(ringAt(t, b.path, keyring.Options{})), b.node(late), b.node(nil)
	good.submit("r", 3)
	for name, n := range map[string]*node{"no ring": none, "an older ring": poor} {
		for range 3 {
			if res := n.turn(3); len(res.Leases) != 0 || res.More {
				t.Fatalf("%s: leases %+v, more %t", name, res.Leases, res.More)
			}
		}
		if len(n.reported) != 1 || !strings.Contains(n.reported[0], "left to other workers") || !strings.Contains(n.reported[0], "key") {
			t.Errorf("%s: reported %q", name, n.reported)
		}
		start := time.Now()
		if err := n.Wait(t.Context(), n.session, start.Add(time.Minute)); err != nil || time.Since(start) > 30*time.Second {
			t.Errorf("%s: waited %v, %v", name, time.Since(start), err)
		}
	}
	leases := good.turn(3).Leases
	if len(leases) != 3 || leases[0].Attempt != 1 {
		t.Fatalf("the worker with the key has %+v, expected all three jobs, untouched", leases)
	}
	good.turn(0, queue.Ack{Job: leases[0].Job, Token: leases[0].Token, Kind: queue.AckReturn})
	copyFile(t, b.path, next)
	deadline := time.Now().Add(time.Minute)
	for {
		res := poor.turn(3)
		if len(res.Leases) == 1 && res.Leases[0].Err == nil && string(res.Leases[0].Data) == "data of "+word {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the key is there, and no job is taken: %+v", res)
		}
		if err := poor.Wait(t.Context(), poor.session, time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
}

// flaky loses the answer of the second turn of a call: the one that gives jobs back.
type flaky struct {
	encrypted.Backend
	lose bool
}

func (f *flaky) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	if f.lose && len(t.Acks) > 0 {
		return queue.TurnResult{}, core.ErrUnavailable
	}
	return f.Backend.Turn(ctx, t)
}

// A job that could not be given back immediately is given back later: its session continues
// beating, so nobody else would get it.
func TestRefusedJobsGoBackEvenWhenTheQueueIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.node(b.ring).submit("r", 2)
	f := &flaky{Backend: b.raw, lose: true}
	poor := encrypted.New(f, nil, nil)
	session, err := poor.Open(t.Context(), "poor")
	if err != nil {
		t.Fatal(err)
	}
	if res, err := poor.Turn(t.Context(), queue.Turn{Session: session, Want: 2}); err != nil || len(res.Leases) != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if held, err := b.raw.Adopt(t.Context(), session); err != nil || len(held) != 2 {
		t.Fatalf("it holds %+v, %v: nothing was lost in this test", held, err)
	}
	if held, err := poor.Adopt(t.Context(), session); err != nil || len(held) != 0 {
		t.Fatalf("its worker is given %+v, %v", held, err)
	}
	f.lose = false
	res, err := poor.Turn(t.Context(), queue.Turn{Session: session})
	if err != nil || len(res.Stale) != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if held, err := b.raw.Adopt(t.Context(), session); err != nil || len(held) != 0 {
		t.Errorf("it holds %+v, %v", held, err)
	}
	if leases := b.node(b.ring).turn(2).Leases; len(leases) != 2 {
		t.Errorf("others get %+v", leases)
	}
}

// copyFile brings a key ring, as a person does.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to+".part", text, 0o600)
	}
	if err == nil {
		err = os.Rename(to+".part", to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A person who can write to Redis, and has no key, commands no worker. The negative control is a
// worker that accepts plain bytes: it obeys.
func TestWhatIsNotEncryptedIsNotDone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	forger := b.node(nil)
	r := forger.submit("forged", 1)
	worker := b.node(b.ring)
	for range 2 {
		if res := worker.turn(5); len(res.Leases) != 0 {
			t.Fatalf("leased %+v", res.Leases)
		}
	}
	if len(worker.reported) != 1 || !strings.Contains(worker.reported[0], "forged/0") || !strings.Contains(worker.reported[0], "--keyring-accept-plain") {
		t.Errorf("reported %q", worker.reported)
	}
	if _, err := worker.Payload(t.Context(), "forged"); !errors.Is(err, keyring.ErrPlain) {
		t.Errorf("its payload: %v", err)
	}
	if list, err := worker.Unencrypted(t.Context()); err != nil || len(list) != 1 || list[0] != "forged" {
		t.Errorf("in plain text are %v, %v", list, err)
	}
	if _, err := forger.Post(t.Context(), "windows", []byte("all open"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if d, _, err := worker.Posted(t.Context(), "windows", 0); !errors.Is(err, keyring.ErrPlain) {
		t.Errorf("its document is read as %q, %v", d, err)
	}
	worker.submit("good", 1)
	if res := worker.turn(5); len(res.Leases) != 1 || res.Leases[0].Job.Run != "good" {
		t.Errorf("beside it there are leased %+v", res.Leases)
	}

	migrating := b.node(ringAt(t, b.path, keyring.Options{AcceptPlain: true}))
	forger.submit("forged2", 1)
	if res := migrating.turn(5); len(res.Leases) != 1 || string(res.Leases[0].Data) != "data of "+word {
		t.Errorf("while migrating there are leased %+v", res.Leases)
	}
	if created, err := queue.SubmitOne(t.Context(), migrating, r); err != nil || created {
		t.Errorf("a run of before, submitted again: %t, %v", created, err)
	}
}

// Bytes that were swapped, changed or cut end their job with the reason; nobody works on them.
func TestWhatWasTamperedWithIsNotDone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	state := []byte("state")
	place := func(what, run string, index int, more ...string) []byte {
		return keyring.Context(append([]string{what, run, strconv.Itoa(index)}, more...)...)
	}
	right := queue.Target{Host: "h", Data: b.ring.Encrypt([]byte("x"), place("job.data", "r", 0, "h"))}
	cases := map[string]struct {
		target queue.Target
		state  []byte
		bad    bool
	}{
		"nothing":           {right, nil, false}, // the control: these are the places
		"a right state":     {right, b.ring.Encrypt(state, place("job.state", "r", 0)), false},
		"another job's":     {queue.Target{Host: "h", Data: b.ring.Encrypt([]byte("x"), place("job.data", "r", 1, "h"))}, nil, true},
		"another run's":     {queue.Target{Host: "h", Data: b.ring.Encrypt([]byte("x"), place("job.data", "s", 0, "h"))}, nil, true},
		"another host":      {queue.Target{Host: "other", Data: right.Data}, nil, true},
		"a state as data":   {queue.Target{Host: "h", Data: b.ring.Encrypt([]byte("x"), place("job.state", "r", 0))}, nil, true},
		"cut":               {queue.Target{Host: "h", Data: right.Data[:len(right.Data)-1]}, nil, true},
		"another job state": {right, b.ring.Encrypt(state, place("job.state", "r", 3)), true},
	}
	for name, c := range cases {
		m := memory.New(memory.Options{})
		q := encrypted.New(m, b.ring, nil)
		if _, err := queue.SubmitOne(t.Context(), m, queue.Run{ID: "r", Targets: []queue.Target{c.target}}); err != nil {
			t.Fatal(err)
		}
		session, err := q.Open(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		if c.state != nil {
			raw, err := m.Turn(t.Context(), queue.Turn{Session: session, Want: 1})
			if err != nil {
				t.Fatal(err)
			}
			l := raw.Leases[0]
			if _, err := m.Turn(t.Context(), queue.Turn{Session: session, Acks: []queue.Ack{{Job: l.Job, Token: l.Token, Kind: queue.AckSuspend, State: c.state}}}); err != nil {
				t.Fatal(err)
			}
		}
		res, err := q.Turn(t.Context(), queue.Turn{Session: session, Want: 1})
		if err != nil || len(res.Leases) != 1 {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
		if got := res.Leases[0].Err; errors.Is(got, keyring.ErrTampered) != c.bad || (got != nil) != c.bad {
			t.Errorf("%s: %v", name, got)
		}
		m.Shutdown()
	}
}

// A record that was tampered with keeps its outcome, and does not keep the others from being read.
func TestATamperedRecordSaysSo(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	n := b.node(b.ring)
	n.submit("r", 2)
	leases := n.turn(2).Leases
	forged := done(leases[0])
	forged.Detail = b.ring.Encrypt([]byte("x"), keyring.Context("job.detail", "r", "1"))
	if _, err := b.raw.Turn(t.Context(), queue.Turn{Session: n.session, Acks: []queue.Ack{forged}}); err != nil {
		t.Fatal(err)
	}
	n.turn(0, done(leases[1]))
	seen := n.Poll(t.Context(), 10, queue.Ask{Run: "r"})[0]
	list, err := seen.Records, seen.Err
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	if list[0].Detail != nil || list[0].Outcome != core.Changed || !strings.Contains(list[0].Reason.Text(), "cannot be taken") || string(list[1].Detail) != "detail of "+word {
		t.Errorf("%+v", list)
	}
}

// A run is the same whatever key it is encrypted with: servers submit again after a crash, and one
// of them may have another primary key.
func TestARunIsSubmittedAgainUnderAnotherKey(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := b.node(b.ring)
	r := first.submit("r", 2)
	id, err := keyring.Add(b.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyring.Promote(b.path, id); err != nil {
		t.Fatal(err)
	}
	second := b.node(ringAt(t, b.path, keyring.Options{}))
	if created, err := queue.SubmitOne(t.Context(), second, r); err != nil || created {
		t.Errorf("again: created %t, %v", created, err)
	}
	r.Targets[1].Data = []byte("other")
	if _, err := queue.SubmitOne(t.Context(), second, r); !errors.Is(err, core.ErrConflict) {
		t.Errorf("other data: %v", err)
	}
}

// A queue keeps the name of its life when the key that was encrypted with at its beginning is
// retired; it shows the texts of people only with a key.
func TestTheIncarnationOutlivesKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring, path := newRing(t, keyring.Options{})
		m := memory.New(memory.Options{})
		defer m.Shutdown()
		q := encrypted.New(m, ring, nil)
		for _, name := range []string{board.Incarnation, "windows"} {
			if _, err := q.Post(t.Context(), name, []byte("as it was"), time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		first, _ := ring.Primary()
		second, err := keyring.Add(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(keyring.Promote(path, second), keyring.Retire(path, first)); err != nil {
			t.Fatal(err)
		}
		q = encrypted.New(m, ringAt(t, path, keyring.Options{}), nil)
		if life, _, err := q.Posted(t.Context(), board.Incarnation, 0); err != nil || string(life) != "as it was" {
			t.Errorf("the name of the incarnation: %q, %v", life, err)
		}
		if text, _, err := q.Posted(t.Context(), "windows", 0); !errors.Is(err, keyring.ErrNoKey) { // negative control
			t.Errorf("a document under a retired key: %q, %v", text, err)
		}
	})
}
