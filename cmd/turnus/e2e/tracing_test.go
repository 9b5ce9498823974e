//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/transport/fleet"
)

// spans is a collector of traces.
type spans struct {
	*httptest.Server

	mu    sync.Mutex
	all   []*tracepb.Span
	roles []string // what sent them
	raw   bytes.Buffer
	bad   []string
}

func newSpans(t *testing.T) *spans {
	t.Helper()
	s := &spans{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m collector.ExportTraceServiceRequest
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &m) != nil {
			s.bad = append(s.bad, r.URL.String())
			return
		}
		s.raw.Write(body)
		for _, of := range m.GetResourceSpans() {
			about := map[string]string{}
			for _, kv := range of.GetResource().GetAttributes() {
				about[kv.GetKey()] = kv.GetValue().GetStringValue()
			}
			s.roles = append(s.roles, about["service.name"]+" "+about["turnus.role"]+" "+about["deployment.environment.name"])
			for _, scope := range of.GetScopeSpans() {
				s.all = append(s.all, scope.GetSpans()...)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// sent is all that came, as it came.
func (s *spans) sent() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw.String()
}

// path is the names of the spans from the uppermost that is here down to one, and what the
// uppermost is under.
func (s *spans) path(one *tracepb.Span) (names []string, under string) {
	names, under = []string{one.GetName()}, hex.EncodeToString(one.GetParentSpanId())
	i := slices.IndexFunc(s.all, func(o *tracepb.Span) bool { return bytes.Equal(o.GetSpanId(), one.GetParentSpanId()) })
	if i < 0 {
		return names, under
	}
	above, under := s.path(s.all[i])
	return append(above, names...), under
}

// A pipeline's submit, a server and a worker make one trace, from the request to the command on the
// host, each part under the one that asked for it. No span holds a command line, a var or an
// output.
func TestOneTraceFromTheSubmitToTheHost(t *testing.T) {
	const trace, pipeline, hidden = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "mark-41777"
	taken := newSpans(t)
	t.Setenv("TRACEPARENT", "00-"+trace+"-"+pipeline+"-01") // as the submit of a pipeline has it; the others pass over it
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", taken.URL)      // the worker has no flag
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab")
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	if err := os.MkdirAll(filepath.Join(l.dir, "ops", "playbooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	box := l.fleet.Hosts()[0]
	l.file("ops/inventory.yaml", "hosts:\n"+l.entry(box, ", vars: {v: \""+hidden+"\"}"))
	l.file("ops/playbooks/all.yaml", "playbook: all\ntargets: true\nsteps:\n  - {name: told, uses: command, with: {run: \"echo ${{ host.vars.v }}\"}}\n")
	data := filepath.Join(l.dir, "data")
	server := l.start("server", "--redis", l.queue, "--data", data, "--project", filepath.Join(l.dir, "ops"), "--plugins", plugins(t), "--listen", "127.0.0.1:0",
		"--otlp-endpoint", taken.URL, "--log-format", "json")
	until(t, "the server to listen", func() bool { return server.err.has("listening on ") || !server.running() })
	worker := l.worker("--log-format", "json", "--log-level", "debug")
	token, err := os.ReadFile(filepath.Join(data, "admin.token"))
	if err != nil {
		t.Fatalf("%v; %s", err, server.err)
	}
	c, err := client.New(client.Config{Server: address(server), Token: strings.TrimSpace(string(token))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	until(t, "the definitions", func() bool {
		all, err := c.Playbooks(context.Background(), client.Page{Limit: 1})
		return err == nil && len(all.Items) == 1
	})
	submit := l.start("submit", "all", "--follow", "--server", address(server), "--token-file", filepath.Join(data, "admin.token"))
	submit.wants(0)
	runs, err := c.Runs(context.Background(), client.RunFilter{}, client.Page{Limit: 2})
	if err != nil || len(runs.Items) != 1 {
		t.Fatalf("%d runs, %v", len(runs.Items), err)
	}
	id := core.JobID{Run: runs.Items[0].ID}
	job, err := c.Job(context.Background(), id)
	if text, _ := json.Marshal(job); err != nil || !bytes.Contains(text, []byte(hidden)) {
		t.Fatalf("the job did not print the var, which is then not searched for: %s, %v", text, err)
	}
	for _, p := range []*process{worker, server} {
		p.signal(syscall.SIGTERM)
		p.wants(0)
		if !p.err.has(`"trace_id":"`+trace+`"`, id.Run) {
			t.Errorf("the log of %s does not name the trace:\n%s", p.cmd.Args[1], tail(p.err.String()))
		}
	}

	taken.mu.Lock()
	defer taken.mu.Unlock()
	if len(taken.bad) > 0 {
		t.Errorf("the collector got what is no trace: %v", taken.bad)
	}
	for _, want := range []string{"turnus server lab", "turnus worker lab"} {
		if !slices.Contains(taken.roles, want) {
			t.Errorf("nothing came from %q, but from %q", want, taken.roles)
		}
	}
	wanted := map[string]bool{
		"request": true, "request launch": true, "request launch accept": true, "request launch enqueue": true, "request launch job": true,
		"request launch job step": true, "request launch job step call": true, "request launch job step call dial": true, "request launch job step call exec": true,
	}
	for _, one := range taken.all {
		if hex.EncodeToString(one.GetTraceId()) != trace {
			continue
		}
		names, under := taken.path(one)
		place := strings.Join(names, " ")
		if !wanted[place] || under != pipeline {
			t.Errorf("span %q under %s: expected another place, or it is there twice", place, under)
		}
		delete(wanted, place)
		attributes, _ := json.Marshal(one.GetAttributes())
		for _, want := range map[string][]string{
			"request": {"create-run"}, "accept": {id.Run}, "enqueue": {id.Run}, "job": {id.Run, id.String(), box.Name, "changed"},
			"step": {"told", "command", box.Name, "changed"}, "call": {"command"}, "dial": {box.Name, "ok"}, "exec": {box.Name},
		}[one.GetName()] {
			if !bytes.Contains(attributes, []byte(`"`+want+`"`)) {
				t.Errorf("span %s does not show %q: %s", place, want, attributes)
			}
		}
	}
	for place := range wanted {
		t.Errorf("there is no span %q", place)
	}
	for text, there := range map[string]bool{hidden: false, "echo": false, box.Name: true} {
		if bytes.Contains(taken.raw.Bytes(), []byte(text)) != there {
			t.Errorf("%q in what was sent: expected %v", text, there)
		}
	}
}
