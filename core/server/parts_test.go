package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gocloud.dev/blob/fileblob"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify"
	"github.com/turnus/turnus/core/queue/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen; no test waits so long when all is well.
const patience = 30 * time.Second

// tree returns the files of two tenants, and of the provider, in git.
func tree() map[string]string {
	t := map[string]string{
		"playbooks/all.yaml": "playbook: everywhere\ntargets: true\nwindow: none\nsteps: [{name: look, uses: command, with: {run: date}}]\n",
	}
	hosts := "hosts:\n"
	sets := "window_sets:\n"
	channels := "channels: {noc: {email: {to: [noc@example.net]}}}\nroutes: [{to: [noc]}]\ntenants:\n"
	set := map[string]string{"1": "-night", "2": "-night", "3": "-day"}
	for _, tenant := range []string{"acme", "globex"} {
		channels += "  " + tenant + ":\n    channels: {ops: {webhook: {url: \"http://127.0.0.1:1/" + tenant + "\"}}}\n    routes: [{to: [ops]}]\n"
		t["playbooks/"+tenant+".yaml"] = "playbook: " + tenant + "-patch\ntenant: " + tenant + "\ntargets: host.customer == \"" + tenant + "\"\nwindow: none\n" +
			"schedule: {cron: \"0 3 * * 1\"}\nstrategy: {waves: [1, 100%], pause_between: approve, stop_after: 3, stop_unreachable: 3}\nsteps: [{name: look, uses: command, with: {run: uptime}}]\n"
		for _, n := range []string{"1", "2", "3"} {
			hosts += "  " + tenant + "-" + n + ": {address: 192.0.2." + n + ", customer: " + tenant + ", window_set: " + tenant + set[n] + "}\n"
		}
		sets += "  " + tenant + "-night:\n    timezone: Europe/Berlin\n    allow: [{id: night, rrule: FREQ=DAILY, from: \"22:00\", to: \"+1d 04:00\"}]\n" +
			"  " + tenant + "-day:\n    timezone: Europe/Berlin\n    approval: {by: " + tenant + "-cab, state: proposed}\n" +
			"    allow: [{id: noon, rrule: FREQ=DAILY, from: \"12:00\", to: \"13:00\"}]\n"
	}
	t["inventory/hosts.yaml"] = "groups:\n  web: {}\n" + hosts
	t["windows/sets.yaml"] = sets
	t["notify.yaml"] = channels
	return t
}

func documents(tree map[string]string) []definitions.Document {
	var docs []definitions.Document
	for _, path := range slices.Sorted(maps.Keys(tree)) {
		docs = append(docs, definitions.Document{Path: path, Data: []byte(tree[path])})
	}
	return docs
}

// applied is a tree as the API takes it.
func applied(tree map[string]string) api.Apply {
	var a api.Apply
	for _, d := range documents(tree) {
		a.Documents = append(a.Documents, api.Document(d))
	}
	return a
}

// bed is a server on a fresh ledger and an empty queue. Nobody works on its runs.
type bed struct {
	t      testing.TB
	server *Server
	ledger *ledger.Ledger
	queue  *memory.Queue
	ctl    *controller.Controller
	cat    *catalog.Catalog
	// outputs is the folder of large outputs.
	outputs string
	tokens  map[string]string // TENANT:ROLE → secret
}

func newBed(t testing.TB, change ...func(*Config)) *bed {
	t.Helper()
	return newBedOn(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), change...)
}

// newBedOn is newBed on an empty database.
func newBedOn(t testing.TB, database string, change ...func(*Config)) *bed {
	t.Helper()
	dir := t.TempDir()
	bucket, err := fileblob.OpenBucket(filepath.Join(dir, "outputs"), &fileblob.Options{CreateDir: true, NoTempDir: true})
	must(t, err)
	l, err := ledger.Open(t.Context(), database, ledger.Options{Bucket: bucket})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	q := memory.New(memory.Options{SessionTTL: time.Hour}) // tests that are slow must not lose what they hold
	t.Cleanup(q.Shutdown)
	ctl, err := controller.New(controller.Config{Name: "test", Ledger: l, Queue: q, Board: q})
	must(t, err)
	var cat *catalog.Catalog
	reported, err := notify.New(notify.Config{Ledger: l, Server: "test", View: func() notify.View { return notify.View{Policy: cat.Set().Notify} }})
	must(t, err)
	cfg := Config{Notify: reported, Ledger: l, Controller: ctl, Queue: q, Board: q, Feed: q, Backend: "memory", Version: "test"}
	for _, c := range change {
		c(&cfg)
	}
	cat, err = catalog.New(catalog.Config{Ledger: l, Board: q, Controller: ctl, Pool: cfg.Pool, Sources: []sources.Source{cmdb()}, Fetch: gives(1)})
	must(t, err)
	keep(t, l, 26*time.Hour, gives(1))
	_, err = cat.Apply(t.Context(), "test", documents(tree()), definitions.Revision{}, catalog.AnyVersion)
	must(t, err)
	cfg.Catalog = cat
	s, err := New(cfg)
	must(t, err)
	return &bed{t: t, server: s, ledger: l, queue: q, ctl: ctl, cat: cat, outputs: filepath.Join(dir, "outputs"), tokens: map[string]string{}}
}

// token is the secret of a token, with permissions beside its role; tenant * is all.
func (b *bed) token(tenant string, role Role, permissions ...api.Permission) string {
	b.t.Helper()
	roles := []string{string(role)}
	for _, p := range permissions {
		roles = append(roles, string(p))
	}
	key := tenant + ":" + strings.Join(roles, ":")
	if b.tokens[key] == "" {
		t := ledger.Token{Name: "the " + string(role), Tenant: tenant, Roles: roles}
		if tenant == everyTenant {
			t.Tenant, t.AllTenants = "", true
		}
		secret, _, err := b.ledger.NewToken(b.t.Context(), "test", t)
		must(b.t, err)
		b.tokens[key] = secret
	}
	return b.tokens[key]
}

type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends one request; body is JSON text, or a value that is written as such.
func (b *bed) ask(secret, method, path string, body any, headers ...string) answer {
	b.t.Helper()
	var r io.Reader
	switch v := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(v)
	default:
		text, err := json.Marshal(v)
		must(b.t, err)
		r = bytes.NewReader(text)
	}
	req := httptest.NewRequestWithContext(b.t.Context(), method, path, r)
	if r != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, req)
	return answer{w.Code, w.Header(), w.Body.String()}
}

// want fails unless the answer has the status, and reads it into a value.
func want[T any](t testing.TB, a answer, status int) (v T) {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, expected %d: %s", a.status, status, a.body)
	}
	if a.body != "" {
		must(t, json.Unmarshal([]byte(a.body), &v))
	}
	return v
}

// launch accepts a run of a tenant's playbook.
func (b *bed) launch(tenant string, n api.NewRun) api.Run {
	b.t.Helper()
	if n.Playbook == "" {
		n.Playbook = tenant + "-patch"
	}
	return want[api.Run](b.t, b.ask(b.token(tenant, Operator), "POST", "/v1/runs", n), http.StatusCreated)
}

// finish records an outcome of every job of a run, with two lines of output.
func (b *bed) finish(run api.Run) {
	b.t.Helper()
	batch := ledger.Batch{Run: run.ID}
	for i := range run.Total {
		detail, err := launch.EncodeResult(core.Result{Outcome: core.Changed, Attempt: 1, Steps: []core.StepResult{
			{Name: "look", Uses: "command", Outcome: core.Changed, Stdout: "first line\nsecond line\n"},
		}})
		must(b.t, err)
		outcome := core.Changed
		if i == 0 {
			outcome = core.Failed
		}
		batch.Outcomes = append(batch.Outcomes, ledger.Outcome{Index: i, Outcome: outcome, Attempt: 1, Worker: "w", Started: time.Now(), Took: time.Second, Detail: detail,
			Facts: core.Gathered(map[string]any{"arch": "x86_64"}, time.Now())})
	}
	recorded, err := b.ledger.Record(b.t.Context(), batch)
	must(b.t, err)
	must(b.t, recorded[0].Err)
}

// work runs the controller and the catalog until the test ends.
func (b *bed) work() {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = b.ctl.Run(ctx) })
	running.Go(func() { _ = b.cat.Run(ctx) })
	b.t.Cleanup(func() { stop(); running.Wait() })
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatal("waited in vain: " + what)
		case <-tick.C:
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
