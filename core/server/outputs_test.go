package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// endless gives so many bytes, of which every eighth is a newline, and remembers how much it was
// ahead of its reader.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for i := range p[:n] {
		p[i] = "1234567\n"[(e.left-i)%8]
	}
	e.left -= n
	return n, nil
}

// files are the objects in the folder of large outputs.
func (b *bed) files() (names []string) {
	b.t.Helper()
	must(b.t, filepath.WalkDir(b.outputs, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".attrs") {
			names = append(names, path)
		}
		return err
	}))
	return names
}

// The output of a distant worker is one object, however often it is sent; ranges of it are read; it
// goes with its run.
func TestLargeOutputOfADistantWorker(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	web := httptest.NewServer(b.server)
	defer web.Close()
	secret := b.token(everyTenant, Worker)
	put := func(name string, from io.Reader) (status int, err error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, web.URL+"/v1/runs/"+run.ID+"/jobs/1/outputs/"+name, from)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+secret)
		res, err := web.Client().Do(req)
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	}
	for range 3 {
		if status, err := put("0/stdout", &endless{size}); status != http.StatusOK {
			t.Fatal(status, err)
		}
	}
	if status, err := put("0/stderr", strings.NewReader("small")); status != http.StatusOK {
		t.Fatal(status, err)
	}
	if files := b.files(); len(files) != 1 {
		t.Fatalf("%d objects of one output: %v", len(files), files)
	}
	if status, err := put("0/stdout", io.MultiReader(&endless{1 << 20}, failing{})); err == nil {
		t.Fatalf("half an output was taken: %d", status)
	}
	until(t, "half an output is gone", func() bool { return len(b.files()) == 1 })

	b.finish(run)
	viewer := b.token("acme", Viewer)
	path := fmt.Sprintf("/v1/runs/%s/jobs/1/outputs", run.ID)
	l := want[struct{ Items []api.Output }](t, b.ask(viewer, "GET", path, nil), http.StatusOK)
	if len(l.Items) != 2 || l.Items[1].Name != "0/stdout" || l.Items[1].Size != size || l.Items[1].Step != "look" || l.Items[1].Cut {
		t.Fatalf("%+v", l.Items)
	}
	whole, err := io.ReadAll(&endless{size})
	must(t, err)
	for _, r := range [][2]int{{0, 9}, {1 << 20, 1<<20 + 99}, {size - 5, size - 1}} {
		a := b.ask(viewer, "GET", path+"/0/stdout", nil, "Range", fmt.Sprintf("bytes=%d-%d", r[0], r[1]))
		if a.status != http.StatusPartialContent || a.body != string(whole[r[0]:r[1]+1]) {
			t.Errorf("bytes %v: %d, %d bytes", r, a.status, len(a.body))
		}
	}
	if a := b.ask(viewer, "GET", path+"/0/stdout", nil); a.status != http.StatusOK || a.body != string(whole) {
		t.Errorf("%d, %d bytes", a.status, len(a.body))
	}
	if status, err := put("0/stdout", strings.NewReader("late")); status != http.StatusConflict {
		t.Errorf("after the job's end: %d, %v", status, err)
	}
	for {
		p, err := b.ledger.Prune(t.Context(), run.ID, 100)
		must(t, err)
		if !p.More {
			break
		}
	}
	if _, err := b.ledger.Run(t.Context(), ledger.AllTenants(), run.ID); !errors.Is(err, core.ErrNotFound) || len(b.files()) != 0 {
		t.Errorf("%v; remaining files: %v", err, b.files())
	}
}

// A thief of a worker's token writes outputs of jobs that have not ended, of any tenant, and that
// is all: no other operation is admitted, and no other job is changed. With the controls that the
// forgery is read as an output, and that an operator's token launches.
func TestAWorkersTokenForgesOutputsAndNothingElse(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stolen, viewer, operator := b.token(everyTenant, Worker), b.token("acme", Viewer), b.token("acme", Operator)
	var admitted []string
	for _, o := range b.walk() {
		if a := b.ask(stolen, o.Method, o.url, o.body, o.headers...); a.status != http.StatusForbidden {
			admitted = append(admitted, o.OperationID)
		}
	}
	if !slices.Equal(admitted, []string{"put-output"}) {
		t.Errorf("a worker's token is admitted to %v", admitted)
	}
	if a := b.ask(operator, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch"}); a.status/100 != 2 {
		t.Errorf("control: an operator's launch: %d %s", a.status, a.body)
	}

	web := httptest.NewServer(b.server)
	defer web.Close()
	forge := func(run string, job int, secret, text string) int {
		path := fmt.Sprintf("/v1/runs/%s/jobs/%d/outputs/0/stdout", run, job)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, web.URL+path, strings.NewReader(text))
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+secret)
		res, err := web.Client().Do(req)
		must(t, err)
		must(t, res.Body.Close())
		return res.StatusCode
	}
	run := b.launch("acme", api.NewRun{})
	if status := forge(run.ID, 0, stolen, "forged"); status != http.StatusOK {
		t.Errorf("control: of a job that has not ended: %d", status)
	}
	read := func(what string) {
		t.Helper()
		if a := b.ask(viewer, "GET", fmt.Sprintf("/v1/runs/%s/jobs/0/outputs/0/stdout", run.ID), nil); a.status != http.StatusOK || a.body != "forged" {
			t.Errorf("%s: a viewer reads %d %q", what, a.status, a.body)
		}
	}
	read("control")
	b.finish(run)
	for what, status := range map[string]int{
		"a job that ended": forge(run.ID, 0, stolen, "again"), "no job of the run": forge(run.ID, 100, stolen, "x"), "no run": forge("nothing", 0, stolen, "x"),
		"a viewer's token": forge(run.ID, 0, viewer, "x"), "a worker's of one tenant": forge(run.ID, 0, b.token("acme", Worker), "x"),
	} {
		if status/100 != 4 {
			t.Errorf("%s: %d", what, status)
		}
	}
	read("after the job's end")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the worker died") }
