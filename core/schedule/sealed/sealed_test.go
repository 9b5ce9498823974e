package sealed_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/queue/redis/redistest"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/schedule/memory"
	"github.com/turnus/turnus/core/schedule/redis"
	"github.com/turnus/turnus/core/schedule/scheduletest"
	"github.com/turnus/turnus/core/schedule/sealed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRing(t *testing.T, o keyring.Options) (*keyring.Ring, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ring.json")
	if _, err := keyring.New(path); err != nil {
		t.Fatal(err)
	}
	return ringAt(t, path, o), path
}

func ringAt(t *testing.T, path string, o keyring.Options) *keyring.Ring {
	t.Helper()
	r, err := keyring.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestConformance(t *testing.T) {
	ring, _ := newRing(t, keyring.Options{})
	scheduletest.Run(t, scheduletest.Subject{
		Open:   func(scheduletest.TB) schedule.Store { return sealed.New(memory.New(), ring) },
		Around: func(t *testing.T, f func(*testing.T)) { synctest.Test(t, f) },
	})
}

// bounds on Redis: the longest data fits when it is sealed.
func TestTheLongestDataFitsRedis(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t).Client()
	t.Cleanup(func() { _ = c.Close() })
	store, err := redis.New(c, redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ring, _ := newRing(t, keyring.Options{})
	s := sealed.New(store, ring)
	data := bytes.Repeat([]byte{0xf5, 1, 1, 0}, schedule.MaxData/4)
	put(t, s, "a", data)
	if got := get(t, s, "a"); !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, expected %d", len(got), len(data))
	}
}

func put(t *testing.T, s schedule.Store, name string, data []byte) {
	t.Helper()
	versions, err := s.Write(t.Context(), []schedule.Change{{ID: schedule.ID{Tenant: "acme", Name: name}, Data: data, Due: time.Now().Add(time.Hour)}})
	if err != nil || versions[0] == 0 {
		t.Fatalf("write %s: %v, %v", name, versions, err)
	}
}

func get(t *testing.T, s schedule.Store, name string) []byte {
	t.Helper()
	r, err := s.Get(t.Context(), []schedule.ID{{Tenant: "acme", Name: name}})
	if err != nil || len(r.Records) != 1 {
		t.Fatalf("read %s: %+v, %v", name, r, err)
	}
	return r.Records[0].Data
}

// What cannot be opened, for it is of another schedule or key, or not sealed, is a record that Decode refuses with the reason; the
// others beside it are taken.
func TestABadRecordHindersNoOther(t *testing.T) {
	t.Parallel()
	ring, _ := newRing(t, keyring.Options{})
	other, _ := newRing(t, keyring.Options{})
	raw := memory.New()
	s := sealed.New(raw, ring)
	good := schedule.Encode(schedule.Definition{Cron: "0 3 * * *", Timezone: "UTC", Payload: []byte("payload")}, schedule.State{})
	put(t, s, "good", good)
	if stored := get(t, raw, "good"); bytes.Contains(stored, []byte("payload")) {
		t.Errorf("stored in the clear: %q", stored)
	}
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"plain":   {good, keyring.ErrPlain},
		"moved":   {get(t, raw, "good"), keyring.ErrTampered},
		"unknown": {other.Seal(good, keyring.Context("schedule", "acme", "unknown")), keyring.ErrNoKey},
	} {
		put(t, raw, name, c.data)
		id := schedule.ID{Tenant: "acme", Name: name}
		_, _, err := schedule.Decode(id, get(t, s, name))
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.want.Error()) {
			t.Errorf("%s: %v, expected %v", name, err, c.want)
		}
	}
	list, err := s.List(t.Context(), schedule.Page{All: true, Limit: 10})
	if err != nil || len(list.Records) != 4 {
		t.Fatalf("%+v, %v", list, err)
	}
	if d, _, err := schedule.Decode(schedule.ID{Tenant: "acme", Name: "good"}, get(t, s, "good")); err != nil || string(d.Payload) != "payload" {
		t.Errorf("the good one: %+v, %v", d, err)
	}
	if _, _, err := schedule.Decode(schedule.ID{Name: "good"}, get(t, sealed.New(raw, nil), "good")); err == nil || !strings.Contains(err.Error(), "--keyring") {
		t.Errorf("without a ring: %v", err)
	}
}

func TestReseal(t *testing.T) {
	t.Parallel()
	ctx := context.WithoutCancel(t.Context())
	_, path := newRing(t, keyring.Options{})
	raw := memory.New()
	put(t, raw, "plain", []byte("plain"))
	strict := sealed.New(raw, ringAt(t, path, keyring.Options{}))
	put(t, strict, "sealed", []byte("sealed"))
	if n, err := strict.Reseal(ctx); n != 0 || err != nil {
		t.Errorf("who takes no plain data sealed %d, %v", n, err)
	}
	if n, err := sealed.New(raw, ringAt(t, path, keyring.Options{AcceptPlain: true})).Reseal(ctx); n != 1 || err != nil {
		t.Errorf("sealed %d, %v; expected the one that was not", n, err)
	}
	first, err := keyring.Keys(path)
	if err != nil {
		t.Fatal(err)
	}
	id, err := keyring.Add(path)
	if err == nil {
		err = keyring.Promote(path, id)
	}
	if err != nil {
		t.Fatal(err)
	}
	later := sealed.New(raw, ringAt(t, path, keyring.Options{}))
	due := dueOf(t, raw, "plain")
	if n, err := later.Reseal(ctx); n != 2 || err != nil {
		t.Errorf("sealed %d, %v; expected both", n, err)
	}
	if now := dueOf(t, raw, "plain"); !now.Equal(due) {
		t.Errorf("it was due %v, and is now %v", due, now)
	}
	if err := keyring.Retire(path, first[0].ID); err != nil {
		t.Fatal(err)
	}
	last := sealed.New(raw, ringAt(t, path, keyring.Options{}))
	for _, name := range []string{"plain", "sealed"} {
		if got := get(t, last, name); string(got) != name {
			t.Errorf("%s is %q", name, got)
		}
	}
}

func dueOf(t *testing.T, s schedule.Store, name string) time.Time {
	t.Helper()
	r, err := s.Get(t.Context(), []schedule.ID{{Tenant: "acme", Name: name}})
	if err != nil || len(r.Records) != 1 {
		t.Fatalf("read %s: %+v, %v", name, r, err)
	}
	return r.Records[0].Due
}
