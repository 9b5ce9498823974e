package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

func TestRunFromCreateToRetry(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	op := b.token("acme", Operator)
	run := b.launch("acme", api.NewRun{})
	if run.Phase != api.Queued || run.Total != 3 || run.LaunchedBy != "acme/the operator" || run.Tenant != "acme" {
		t.Fatalf("%+v", run)
	}
	b.finish(run)
	got := b.ask(op, "GET", "/v1/runs/"+run.ID, nil)
	done := want[api.Run](t, got, http.StatusOK)
	if done.Outcomes[core.Changed] != 2 || done.Outcomes[core.Failed] != 1 || got.header.Get("ETag") == "" {
		t.Fatalf("%+v %v", done, got.header)
	}
	jobs := want[struct{ Items []api.Job }](t, b.ask(op, "GET", "/v1/runs/"+run.ID+"/jobs", nil), http.StatusOK).Items
	if len(jobs) != 3 || jobs[1].Host != "acme-2" || jobs[1].Steps != nil {
		t.Fatalf("%+v", jobs)
	}
	job := want[api.Job](t, b.ask(op, "GET", "/v1/runs/"+run.ID+"/jobs/1", nil), http.StatusOK)
	if len(job.Steps) != 1 || job.Steps[0].Stdout != "first line\nsecond line\n" || job.Ended.Before(job.Started) {
		t.Fatalf("%+v", job)
	}
	again := want[api.Run](t, b.ask(op, "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{}), http.StatusCreated)
	if again.Total != 1 || again.ID == run.ID {
		t.Fatalf("a retry takes the hosts that are not good: %+v", again)
	}
	want[any](t, b.ask(op, "POST", "/v1/runs/"+again.ID+"/retry", api.Retry{}), http.StatusConflict) // it is not over
}

func TestPagesAreWholeAndEnd(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	op := b.token("acme", Operator)
	made := map[string]bool{}
	for range 5 {
		made[b.launch("acme", api.NewRun{}).ID] = true
	}
	for _, path := range []string{"/v1/runs", "/v1/hosts", "/v1/audit"} {
		seen, cursor := map[string]bool{}, ""
		for range 100 {
			p := want[struct {
				Items []map[string]any
				Next  string
			}](t, b.ask(op, "GET", path+"?limit=2&cursor="+cursor, nil), http.StatusOK)
			for _, i := range p.Items {
				key := strings.Join([]string{plain(i["id"]), plain(i["name"]), plain(i["seq"])}, "/")
				if seen[key] {
					t.Fatalf("%s: %s comes twice", path, key)
				}
				seen[key] = true
			}
			if cursor = p.Next; cursor == "" {
				break
			}
			if len(p.Items) != 2 {
				t.Fatalf("%s: a page of %d that is not the last", path, len(p.Items))
			}
		}
		if path == "/v1/runs" && len(seen) != len(made) || path == "/v1/hosts" && len(seen) != 3 || len(seen) == 0 {
			t.Fatalf("%s: %v", path, seen)
		}
	}
	want[any](t, b.ask(op, "GET", "/v1/runs?cursor=nonsense", nil), http.StatusUnprocessableEntity)
}

func plain(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(asJSON(v))
}

func TestCreateIsIdempotentByKey(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	op := b.token("acme", Operator)
	body := api.NewRun{Playbook: "acme-patch"}
	first := want[api.Run](t, b.ask(op, "POST", "/v1/runs", body, "Idempotency-Key", "k"), http.StatusCreated)
	second := want[api.Run](t, b.ask(op, "POST", "/v1/runs", body, "Idempotency-Key", "k"), http.StatusCreated)
	if first.ID != second.ID {
		t.Fatalf("the same key made %s and %s", first.ID, second.ID)
	}
	body.Check = true
	want[any](t, b.ask(op, "POST", "/v1/runs", body, "Idempotency-Key", "k"), http.StatusConflict)
	if other := want[api.Run](t, b.ask(op, "POST", "/v1/runs", body), http.StatusCreated); other.ID == first.ID {
		t.Fatal("it is also the same run if there is no key") // negative control
	}
	admin := b.token(everyTenant, Admin)
	tok := api.NewToken{Name: "ci", Tenant: "acme", Role: "viewer"}
	want[api.Token](t, b.ask(admin, "POST", "/v1/tokens", tok, "Idempotency-Key", "k"), http.StatusCreated)
	if a := b.ask(admin, "POST", "/v1/tokens", tok, "Idempotency-Key", "k"); a.status != http.StatusConflict || strings.Contains(a.body, "turnus_") {
		t.Fatalf("%d %s", a.status, a.body)
	}
}

func TestFourEyes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	admin, approver := b.token("acme", Admin), b.token("acme", Approver)
	run := want[api.Run](t, b.ask(admin, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", FourEyes: true}), http.StatusCreated)
	if run.Phase != api.Approval {
		t.Fatalf("%+v", run)
	}
	path, yes := "/v1/runs/"+run.ID+"/approve", api.Approve{Approve: true}
	if a := b.ask(admin, "POST", path, yes); a.status != http.StatusConflict || !strings.Contains(a.body, "somebody else") {
		t.Fatalf("an admin approved what they launched: %d %s", a.status, a.body)
	}
	// Another token of the same name is the same person.
	second := want[api.Token](t, b.ask(admin, "POST", "/v1/tokens", api.NewToken{Name: "the admin", Tenant: "acme", Role: "admin"}), http.StatusCreated)
	want[any](t, b.ask(second.Secret, "POST", path, yes), http.StatusConflict)
	// Asking for something else does not take the approval away.
	again := want[api.Run](t, b.ask(admin, "PUT", "/v1/runs/"+run.ID, api.NewRun{Playbook: "acme-patch", LaunchOptions: api.LaunchOptions{Limit: []string{"acme-1"}}}), http.StatusOK)
	if again.Phase != api.Approval || again.Total != 1 {
		t.Fatalf("%+v", again)
	}
	want[any](t, b.ask(b.token("acme", Operator), "POST", path, yes), http.StatusForbidden)
	if done := want[api.Run](t, b.ask(approver, "POST", path, yes), http.StatusOK); done.Phase != api.Queued {
		t.Fatalf("%+v", done)
	}
	decided := want[struct{ Items []api.Decision }](t, b.ask(approver, "GET", "/v1/runs/"+run.ID+"/decisions", nil), http.StatusOK).Items
	if len(decided) != 1 || decided[0].By != "acme/the approver" || decided[0].Wave != 0 {
		t.Fatalf("%+v", decided)
	}
	// Without four eyes nobody is asked, and there is nothing to approve.
	free := b.launch("acme", api.NewRun{})
	want[any](t, b.ask(approver, "POST", "/v1/runs/"+free.ID+"/approve", yes), http.StatusConflict)
}

func TestRetryAsksForAsManyApprovals(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{FourEyes: true})
	want[any](t, b.ask(b.token("acme", Approver), "POST", "/v1/runs/"+run.ID+"/approve", api.Approve{Approve: true}), http.StatusOK)
	b.finish(run)
	if again := want[api.Run](t, b.ask(b.token("acme", Operator), "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{}), http.StatusCreated); again.Phase != api.Approval {
		t.Fatalf("%+v", again)
	}
}

func TestWavesAreApprovedByNumber(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	approver := b.token("acme", Approver)
	run := b.launch("acme", api.NewRun{})
	for wave, status := range map[int]int{1: 422, 3: 422, 1 << 40: 422, 2: 200} {
		if a := b.ask(approver, "POST", "/v1/runs/"+run.ID+"/approve", api.Approve{Wave: wave, Approve: true}); a.status != status {
			t.Errorf("wave %d: %d %s, expected %d", wave, a.status, a.body, status)
		}
	}
	free := want[api.Run](t, b.ask(b.token(everyTenant, Operator), "POST", "/v1/runs", api.NewRun{Playbook: "everywhere"}), http.StatusCreated)
	want[any](t, b.ask(b.token(everyTenant, Approver), "POST", "/v1/runs/"+free.ID+"/approve", api.Approve{Wave: 2, Approve: true}), http.StatusConflict)
}

// Of two people who act on what both have seen, in the same moment, one is refused. Control:
// without the tag both are heard.
func TestTwoActAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var secrets []string
	for _, maker := range []string{"ann", "bob"} { // a token counts as its maker
		secret, _, err := b.ledger.NewToken(t.Context(), maker, ledger.Token{Name: maker + "'s", Tenant: "acme", Roles: []string{"operator", "approver"}})
		must(t, err)
		secrets = append(secrets, secret)
	}
	for verb, bodies := range map[string][2]any{
		"cancel": {api.Why{Reason: "enough"}, api.Why{Reason: "late"}}, "pause": {api.Why{}, api.Why{}},
		"approve": {api.Approve{Wave: 2, Approve: true}, api.Approve{Wave: 2}},
	} {
		for _, guarded := range []bool{true, false} {
			run := b.launch("acme", api.NewRun{})
			tag, second := "*", http.StatusOK
			if guarded {
				tag, second = b.ask(secrets[0], "GET", "/v1/runs/"+run.ID, nil).header.Get("ETag"), http.StatusPreconditionFailed
			}
			begin, answers := make(chan struct{}), make(chan answer)
			for i, body := range bodies {
				go func() {
					<-begin
					answers <- b.ask(secrets[i], "POST", "/v1/runs/"+run.ID+"/"+verb, body, "If-Match", tag)
				}()
			}
			close(begin)
			one, other := <-answers, <-answers
			if got := []int{one.status, other.status}; min(got[0], got[1]) != http.StatusOK || max(got[0], got[1]) != second {
				t.Errorf("%s, guarded: %t: %v, expected one 200 and one %d: %s %s", verb, guarded, got, second, one.body, other.body)
			}
		}
	}
	run := b.launch("acme", api.NewRun{})
	tag := b.ask(secrets[0], "GET", "/v1/runs/"+run.ID, nil).header.Get("ETag")
	want[any](t, b.ask(secrets[0], "POST", "/v1/runs/"+run.ID+"/resume", api.Why{}, "If-Match", tag), http.StatusOK) // it has no effect
	want[any](t, b.ask(secrets[0], "POST", "/v1/runs/"+run.ID+"/pause", api.Why{}, "If-Match", tag), http.StatusOK)
	for _, old := range []string{tag, `"x"`, "x", `""`, `"-1"`} {
		want[any](t, b.ask(secrets[1], "POST", "/v1/runs/"+run.ID+"/resume", api.Why{}, "If-Match", old), http.StatusPreconditionFailed)
	}
}

func TestChangesNeedWhatWasLookedAt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	op := b.token("acme", Operator)
	run := b.launch("acme", api.NewRun{})
	tag := b.ask(op, "GET", "/v1/runs/"+run.ID, nil).header.Get("ETag")
	nine := 9
	want[api.Run](t, b.ask(op, "PATCH", "/v1/runs/"+run.ID, api.ChangeRun{Criticality: &nine}, "If-Match", tag), http.StatusOK)
	want[any](t, b.ask(op, "PATCH", "/v1/runs/"+run.ID, api.ChangeRun{Criticality: new(int)}, "If-Match", tag), http.StatusPreconditionFailed)
	if now := want[api.Run](t, b.ask(op, "GET", "/v1/runs/"+run.ID, nil), http.StatusOK); now.Criticality != 9 {
		t.Fatalf("%+v", now)
	}
}

// A run that a PUT pauses starts nothing; one that needs approvals cannot be paused so.
func TestAReplacedRunIsPaused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	op := b.token("acme", Operator)
	paused := api.NewRun{Playbook: "acme-patch", Paused: true}
	path := "/v1/runs/" + b.launch("acme", api.NewRun{}).ID
	for _, n := range []api.NewRun{paused, {Playbook: "acme-patch"}} { // the second does not resume it
		if r := want[api.Run](t, b.ask(op, "PUT", path, n), http.StatusOK); r.Phase != api.Paused {
			t.Errorf("after %+v it is %s", n, r.Phase)
		}
	}
	waits := b.launch("acme", api.NewRun{FourEyes: true})
	want[any](t, b.ask(op, "PUT", "/v1/runs/"+waits.ID, paused), http.StatusUnprocessableEntity)
}

func TestLimitReadsNoFileAndNamesNobody(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, limit := range []string{"@/etc/passwd", "acme-1,@/etc/passwd", "!@/etc/passwd", "acme-1:&@/etc/passwd"} {
		a := b.ask(b.token(everyTenant, Admin), "POST", "/v1/runs", api.NewRun{Playbook: "everywhere", LaunchOptions: api.LaunchOptions{Limit: []string{limit}}})
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "@FILE") || strings.Contains(a.body, "root:") {
			t.Errorf("%s: %d %s", limit, a.status, a.body)
		}
	}
	for _, limit := range []string{`[]`, `[""]`, `[","]`} { // names that were lost do not mean all
		if a := b.ask(b.token(everyTenant, Admin), "POST", "/v1/runs", `{"playbook": "everywhere", "limit": `+limit+`}`); a.status != http.StatusUnprocessableEntity {
			t.Errorf("limit %s: %d %s", limit, a.status, a.body)
		}
	}
	there := b.ask(b.token("acme", Operator), "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", LaunchOptions: api.LaunchOptions{Limit: []string{"globex-1"}}})
	nowhere := b.ask(b.token("acme", Operator), "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", LaunchOptions: api.LaunchOptions{Limit: []string{"globex-9"}}})
	if there.status != http.StatusNotFound || strings.ReplaceAll(there.body, "globex-1", "globex-9") != nowhere.body {
		t.Errorf("another tenant's host differs from one that nobody has:\n%s\n%s", there.body, nowhere.body)
	}
}

func TestTenantRunsOnItsOwnHostsOnly(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	want[any](t, b.ask(b.token("acme", Operator), "POST", "/v1/runs", api.NewRun{Playbook: "everywhere"}), http.StatusNotFound)
	all := want[api.Run](t, b.ask(b.token(everyTenant, Operator), "POST", "/v1/runs", api.NewRun{Playbook: "everywhere"}), http.StatusCreated)
	b.finish(all)
	// The tenant sees the work of a run of the provider on its hosts, but not the run.
	acme := b.token("acme", Viewer)
	want[any](t, b.ask(acme, "GET", "/v1/runs/"+all.ID, nil), http.StatusNotFound)
	jobs := b.ask(acme, "GET", "/v1/runs/"+all.ID+"/jobs", nil)
	if got := want[struct{ Items []api.Job }](t, jobs, http.StatusOK); len(got.Items) != 3 || strings.Contains(jobs.body, "globex") {
		t.Fatal(jobs.body)
	}
	if a := b.ask(acme, "GET", "/v1/runs/"+all.ID+"/jobs/0/outputs/0/stdout", nil); a.status != http.StatusOK || a.body != "first line\nsecond line\n" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	want[any](t, b.ask(acme, "GET", "/v1/runs/"+all.ID+"/jobs/4/outputs/0/stdout", nil), http.StatusNotFound)
}

// A run shows that it waits for an approval once the engine has asked for it, which may be while
// stragglers of its wave run.
func TestARunAsksForItsNextWaveBesideAStraggler(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	files := tree()
	files["playbooks/acme.yaml"] = strings.Replace(files["playbooks/acme.yaml"], "waves: [1, 100%]", "waves: [2, 100%], next_wave_at: 50%", 1)
	if _, err := b.cat.Apply(t.Context(), "test", documents(files), definitions.Revision{}, catalog.AnyVersion); err != nil {
		t.Fatal(err)
	}
	run := b.launch("acme", api.NewRun{})
	asks := func() *api.WaveWait {
		return want[api.Run](t, b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+run.ID, nil), http.StatusOK).Waits
	}
	b.work()
	s, err := b.queue.Open(t.Context(), "node")
	must(t, err)
	var leases []queue.Lease
	until(t, "both hosts of its first wave have begun", func() bool {
		res, err := b.queue.Turn(t.Context(), queue.Turn{Session: s, Want: 3})
		must(t, err)
		leases = append(leases, res.Leases...)
		return len(leases) == 2
	})
	if got := asks(); got != nil {
		t.Errorf("it asks before a host has ended: %+v", got)
	}
	detail, err := launch.EncodeResult(core.Result{Job: leases[0].Job, Host: leases[0].Host, Outcome: core.Changed, Attempt: 1, Worker: "node"})
	must(t, err)
	_, err = b.queue.Turn(t.Context(), queue.Turn{Session: s, Acks: []queue.Ack{{Job: leases[0].Job, Token: leases[0].Token, Kind: queue.AckDone, Outcome: core.Changed, Detail: detail}}})
	must(t, err)
	until(t, "it asks for its second wave", func() bool { return asks() != nil })
	if got := asks(); got.Wave != 2 || got.Hosts != 1 {
		t.Errorf("%+v", got)
	}
	want[api.Run](t, b.ask(b.token("acme", Approver), "POST", "/v1/runs/"+run.ID+"/approve", api.Approve{Wave: 2, Approve: true, Reason: "go"}), http.StatusOK)
	if got := asks(); got != nil {
		t.Errorf("it asks after the approval: %+v", got)
	}
}
