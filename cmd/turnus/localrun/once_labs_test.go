//go:build labs

package localrun

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/testparts/servers"
)

// Redis is emptied while one host calls the step. The ledger has the host, so the same one calls it
// again, and no other does.
func TestOnceOverRedisThatIsEmptied(t *testing.T) {
	server := servers.StartRedis(t)
	store, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q, err := redis.New(server.User(t), redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := &onceLab{T: t, db: newDatabase("retry"), ledger: store, q: q}
	if l.ctl, err = controller.New(controller.Config{Name: "server", Ledger: store, Queue: q, Board: q, Types: l.playbookType}); err != nil {
		t.Fatal(err)
	}
	l.begin(l.ctl.Run)
	l.worker("first", q)
	l.accept(l.launch("r1", 20, false))
	l.until("r1", func(r ledger.Run) bool {
		l.db.mu.Lock()
		defer l.db.mu.Unlock()
		return len(l.db.on) == 1
	})
	admin := server.Client()
	err = admin.FlushAll(context.Background()).Err()
	_ = admin.Close()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	l.complete("r1")
	l.judge(20)
	t.Logf("complete %v after Redis was emptied; called on %v", time.Since(began).Round(time.Second), l.db.on)
	l.endAll()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
