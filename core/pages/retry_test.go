package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

func TestChoicesOfARetry(t *testing.T) {
	outcomes := map[core.Outcome]int{core.Changed: 5, core.Failed: 2, core.Unreachable: 1}
	for _, c := range []struct {
		chosen []string
		ticked []core.Outcome
	}{
		{nil, []core.Outcome{core.Failed, core.Unreachable}},
		{[]string{"failed"}, []core.Outcome{core.Failed}},
		{[]string{"changed", "lost"}, []core.Outcome{core.Changed}},
	} {
		var ticked []core.Outcome
		all := choicesOf(outcomes, c.chosen)
		for _, choice := range all {
			if choice.Ticked {
				ticked = append(ticked, choice.Outcome)
			}
		}
		if len(all) != 3 || all[0].Outcome != core.Failed || all[0].Hosts != 2 || !slices.Equal(ticked, c.ticked) {
			t.Errorf("%v: %+v", c.chosen, all)
		}
	}
}

func retryAPI(t *testing.T, roles ...string) *operations {
	t.Helper()
	o := shopAPI(t, 3, roles...)
	o.set("GET /v1/runs/r0", api.Run{ID: "r0", Playbook: "shop", LaunchReason: "why " + hostile, Phase: api.Finished, Ended: time.Unix(300, 0), Total: 8, Outcomes: map[core.Outcome]int{core.Changed: 5, core.Failed: 3}})
	o.set("GET /v1/runs/r0/jobs", map[string]any{"items": []api.Job{}})
	o.set("GET /v1/runs/r0/decisions", map[string]any{"items": []api.Decision{}})
	plan := planOf(3, time.Now())
	plan.Disruptive, plan.NoWindow, plan.Retried = true, nil, &api.Retried{Run: "r0", PlaybookChanged: true, LeftOut: []string{hostile}}
	o.set("POST /v1/runs/r0/retry/plan", plan)
	o.set("POST /v1/runs/r0/retry", api.Run{ID: "r1"})
	return o
}

// A retry is previewed, and launched once on just the hosts of the preview. A disruptive one needs
// their number.
func TestRetry(t *testing.T) {
	o := retryAPI(t, "operator")
	v := visits(t, o)
	_, text := v.get("/runs/r0")
	has(t, "a run that is over", text, `href="/runs/r0/retry"`, ": why &lt;/td&gt;&lt;script&gt;")
	_, text = v.get("/runs/r0/retry?outcome=failed")
	has(t, "a preview", text, ">Retry on 3 hosts<", `name="reason" value="" placeholder="why `, "failed</span>: 3 hosts", "The playbook changed since the run before", "Type the number of hosts, 3")
	harmless(t, "a preview", text)
	form := formIn(t, text, "/runs/r0/retry\" method=\"post")
	if status, _, _ := v.post("/runs/r0/retry", form); status != http.StatusUnprocessableEntity {
		t.Errorf("without the number: %d", status)
	}
	form.Set("typed", "3")
	form.Set("reason", "ticket 4711")
	if _, at, _ := v.post("/runs/r0/retry", form); at != "/runs/r1" {
		t.Errorf("after the retry: %s", at)
	}
	var sent []operation
	for _, c := range o.changes() {
		if strings.HasSuffix(c.path, "/retry") {
			sent = append(sent, c)
		}
	}
	if len(sent) != 1 || sent[0].key == "" || sent[0].body["reason"] != "ticket 4711" || sent[0].body["plan"] != planHash || !slices.Equal(sent[0].body["outcomes"].([]any), []any{"failed"}) {
		t.Errorf("%+v", sent)
	}
	o.set("POST /v1/runs/r0/retry", api.Problem{Status: http.StatusConflict, Detail: "the hosts changed"})
	status, _, text := v.post("/runs/r0/retry", form)
	if status != http.StatusConflict {
		t.Errorf("other hosts: %d", status)
	}
	has(t, "a refused retry", text, "the hosts changed", "The preview had 3 hosts", ">Retry on 3 hosts<", `value="ticket 4711"`)
	if status, _, _ := v.post("/runs/r0/retry", url.Values{}); status != http.StatusUnprocessableEntity {
		t.Errorf("without a preview: %d", status)
	}
}

// The choices of a retry from the failed step are in the preview and in what is launched; the
// second alone has no effect.
func TestRetryFromTheFailedStep(t *testing.T) {
	for query, want := range map[string][2]any{
		"from=failed-step&else=restart": {"failed-step", "restart"},
		"from=failed-step":              {"failed-step", nil},
		"else=restart":                  {nil, nil},
	} {
		o := retryAPI(t, "operator")
		v := visits(t, o)
		_, text := v.get("/runs/r0/retry?outcome=failed&" + query)
		form := formIn(t, text, "/runs/r0/retry\" method=\"post")
		form.Set("typed", "3")
		if _, at, _ := v.post("/runs/r0/retry", form); at != "/runs/r1" {
			t.Errorf("%s: after the retry: %s", query, at)
		}
		sent := o.changes()[len(o.changes())-1]
		if got := [2]any{sent.body["from"], sent.body["else"]}; got != want {
			t.Errorf("%s: launched with %v, expected %v", query, got, want)
		}
	}
}

func TestRetryThatIsNone(t *testing.T) {
	o := retryAPI(t, "operator")
	o.set("POST /v1/runs/r0/retry/plan", api.Problem{Status: http.StatusNotFound, Detail: "run r0 has no host to retry"})
	v := visits(t, o)
	status, text := v.get("/runs/r0/retry")
	if status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
	has(t, "nothing to retry", text, "run r0 has no host to retry")
	lacks(t, "nothing to retry", text, "Retry on")
	if status, _ := v.get("/runs/globex1/retry"); status != http.StatusNotFound {
		t.Errorf("another tenant's run: %d", status)
	}
	_, text = visits(t, retryAPI(t, "viewer")).get("/runs/r0")
	lacks(t, "a viewer's run", text, "/retry")
}
