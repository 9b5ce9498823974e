//go:build linux && labs

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

// gone is a receiver of notifications that is there no more.
func gone(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	t.Cleanup(s.Close)
	return s.URL
}

// wholeRedis is all that a Redis holds at one moment: keys, what they hold, and how long they live.
const wholeRedis = `local all = {}
for _, k in ipairs(redis.call('KEYS', '*')) do
  all[#all + 1] = k
  all[#all + 1] = redis.call('DUMP', k)
  all[#all + 1] = tostring(math.max(redis.call('PTTL', k), 0))
end
return all`

// formerRedis puts it back: what is there since is forgotten.
const formerRedis = `for _, k in ipairs(redis.call('KEYS', '*')) do redis.call('DEL', k) end
for i = 1, #ARGV, 3 do redis.call('RESTORE', ARGV[i], ARGV[i + 2], ARGV[i + 1]) end
return #ARGV`

// comesBackOlder has Redis forget what happened in a while in which jobs of a run ended, as after a
// failover to a replica that was behind. The server stands still until a recorded job runs again:
// else it compares the queue with the ledger before.
func (w *watched) comesBackOlder(direct *goredis.Client) {
	w.t.Helper()
	ctx := context.Background()
	run := w.launch("bulk")
	recorded := func() map[string]bool {
		jobs, err := w.c.Jobs(ctx, run.ID, client.JobFilter{Outcome: core.Changed}, client.Page{})
		ids := map[string]bool{}
		if err == nil {
			for _, j := range jobs.Items {
				ids[core.JobID{Run: j.Run, Index: j.Index}.String()] = true
			}
		}
		return ids
	}
	until(w.t, "jobs that have ended", func() bool { return len(recorded()) > 0 })
	held, err := direct.Eval(ctx, wholeRedis, nil).Slice()
	if err != nil {
		w.t.Fatal(err)
	}
	before, forgotten := len(recorded()), map[string]bool{}
	// The worker knows the leases of four: it gives them back. It takes new ones of the others.
	until(w.t, "jobs that end and are forgotten", func() bool { forgotten = recorded(); return len(forgotten) >= before+8 })
	w.server.signal(syscall.SIGSTOP)
	set := time.Now()
	if err := direct.Eval(ctx, formerRedis, nil, held...).Err(); err != nil {
		w.t.Fatal(err)
	}
	if err := direct.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err(); err != nil { // a failover breaks connections
		w.t.Fatal(err)
	}
	until(w.t, "a recorded job to run again", func() bool {
		return slices.ContainsFunc(executions(w.t, w.dir+"/bulk"), func(e *execution) bool { return forgotten[e.job] && e.begin.After(set) })
	})
	w.server.signal(syscall.SIGCONT)
}

// refusesRuns has PostgreSQL report a full disk when a run is written, until makeRoom is called.
func (w *watched) refusesRuns(pg *servers.Postgres) (makeRoom func()) {
	w.t.Helper()
	pg.Exec(w.t, w.ledger, `CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`)
	pg.Exec(w.t, w.ledger, `CREATE TRIGGER no_room BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION no_room()`)
	return func() {
		w.t.Helper()
		pg.Exec(w.t, w.ledger, `DROP TRIGGER no_room ON runs`)
	}
}

// guesses asks with tokens that nobody has.
func (w *watched) guesses(tries int) {
	w.t.Helper()
	for n := range tries {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address(w.server)+"/v1/runs", nil)
		if err != nil {
			w.t.Fatal(err)
		}
		req.Header.Set("Authorization", fmt.Sprintf("Bearer turnus_%040d", n))
		resp, err := w.web.Do(req)
		if err != nil {
			w.t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			w.t.Fatalf("a guessed token is answered %s", resp.Status)
		}
	}
}

// The data folder of a service lies on a disk of its own, a small one in memory that only the
// service sees, and that is filled.
func TestLabAlertOfAFullDisk(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "promtool", "prometheus")
	l := newLab(t, fleet.Config{Hosts: 1}).traced()
	data := filepath.Join(l.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	l.under = []string{testparts.Need(t, "unshare", "util-linux"), "--map-root-user", "--mount", "sh", "-c", `mount -t tmpfs -o size=64m,mode=700 turnus "$0" && exec "$@"`, data}
	p := l.start(append([]string{"up", "--data", data, "--listen", "127.0.0.1:0", "--context", ""}, l.pluginFlags()...)...)
	until(t, "the service to listen", func() bool { return p.err.has("listening on ") || !p.running() })
	inside := filepath.Join(fmt.Sprintf("/proc/%d/root", p.pid()), data)
	token, err := os.ReadFile(filepath.Join(inside, "admin.token"))
	if err != nil {
		t.Fatalf("%v; %s", err, p.err)
	}
	web := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(web.CloseIdleConnections)
	heard := func() samples { return scraped(t, web, address(p), strings.TrimSpace(string(token)), "server") }
	before := heard()
	size, free := before[`turnus_data_size_bytes{instance="server"}`], before[`turnus_data_free_bytes{instance="server"}`]
	if size != 64<<20 || free < size/2 {
		t.Fatalf("%v of %v bytes are free: it is another disk", free, size)
	}
	if err := os.WriteFile(filepath.Join(inside, "filled"), make([]byte, int(free-size/20)), 0o600); err != nil {
		t.Fatal(err)
	}
	text, lasts := alertRules(t)
	judge(t, l.file("rules.yml", text), before, heard(), map[string]time.Duration{"TurnusDiskFull": lasts["TurnusDiskFull"]})
}
