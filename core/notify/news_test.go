package notify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify/policy"
	"github.com/turnus/turnus/core/testparts"
)

// The notices that news become, by kind.
func TestNewsAsNotices(t *testing.T) {
	t.Parallel()
	b := newBed(t, newLedger(t), hook("http://127.0.0.1:1"))
	_, _, err := b.ledger.Accept(t.Context(), ledger.NewRun{ID: "open", Tenant: "acme", Playbook: "patch", LaunchedBy: "alice", Jobs: []ledger.JobHost{{Host: "x"}}})
	must(t, err)
	b.run("over", ledger.Outcome{Outcome: core.Changed})
	for name, c := range map[string]struct {
		news News
		want string // the text; "" is sent to nobody
	}{
		"missed":         {News{Kind: policy.WindowMissed, Run: "over", Count: 3, Text: "no window is left to\nthe approval is over"}, "patch: run over: no window is left to 3 jobs\nthe approval is over\nNext: turnus runs show over"},
		"wave":           {News{Kind: policy.ApprovalNeeded, Run: "open", Text: "wave 2 waits"}, "patch: run open: wave 2 waits\nNext: turnus runs show open"},
		"a wave of old":  {News{Kind: policy.ApprovalNeeded, Run: "over", Text: "wave 2 waits"}, ""},
		"a run of old":   {News{Kind: policy.RunPaused, Run: "none", Text: "held"}, ""},
		"window":         {News{Kind: policy.ApprovalNeeded, Tenant: "acme", Window: "night", Text: "window set night waits"}, "window set night waits\nNext: turnus windows approvals"},
		"skipped":        {News{Kind: policy.TriggerSkipped, Schedule: "acme:patch", Count: 4, Text: "schedule acme:patch skips a fire\ntoo late"}, "schedule acme:patch skips a fire\ntoo late\nIt happened 4 times since the last notification.\nNext: turnus schedules ls"},
		"rejected":       {News{Kind: policy.ProjectRejected, Text: "definitions are not taken\nplaybooks/a.yaml:2:1"}, "definitions are not taken\nplaybooks/a.yaml:2:1\nNext: turnus admin doctor"},
		"stalled":        {News{Kind: policy.StepStalled, Run: "open", Text: "1 job parked"}, "patch: run open: 1 job parked\nNext: turnus runs show open"},
		"stalled, over":  {News{Kind: policy.StepStalled, Run: "over", Text: "1 job parked"}, ""},
		"unknown kind":   {News{Kind: "from_the_future", Text: "x"}, ""},
		"steers nothing": {News{Kind: policy.QueueAway, Text: "a\x1b[31m\u202eb\r\nBcc: x@example.net"}, "a [31mb\nBcc: x@example.net\nNext: turnus admin doctor"},
	} {
		h := c.news.Happening()
		h.At, h.Latest, h.Subject = time.Now(), time.Now(), "s"
		h.Count = max(h.Count, 1)
		made, err := b.notices(t.Context(), h, round{View: b.cfg.View()})
		got := ""
		if len(made) == 1 {
			got = made[0].Text
		}
		if got != c.want || len(made) > 1 || err != nil && c.want != "" {
			t.Errorf("%s: %q, %v\nexpected %q", name, got, err, c.want)
		}
	}
	// A person is not reminded of a state that has ended.
	h := News{Kind: policy.StepStalled, Run: "open", Text: "x"}.Happening()
	h.Latest = time.Now().Add(-stillFor - time.Second)
	if made, err := b.notices(t.Context(), h, round{View: b.cfg.View()}); len(made) > 0 || err != nil {
		t.Errorf("%+v, %v", made, err)
	}
}

// The channels of a tenant get the text that names no host of others; those of the service get all
// of it. Control: news without such a text are one notice for both.
func TestChannelsOfATenantGetItsOwnText(t *testing.T) {
	t.Parallel()
	const to = "{webhook: {url: http://127.0.0.1:1, sign: {secret: hook}}}}, routes: [{to: [noc]}]}\n"
	b := newBed(t, newLedger(t), "channels: {noc: {webhook: {url: http://127.0.0.1:1, sign: {secret: hook}}}}\nroutes: [{to: [noc]}]\ntenants:\n  acme: {channels: {noc: "+to)
	n := News{Kind: policy.TriggerSkipped, Tenant: "acme", Schedule: "acme:patch", Text: "skipped\nglobex-1 lacks facts"}
	for _, own := range []string{"", "skipped\nit could not be launched"} {
		n.Own = own
		h := n.Happening()
		h.At, h.Latest, h.Subject, h.Count = time.Now(), time.Now(), "s", 1
		made, err := b.notices(t.Context(), h, round{View: b.cfg.View()})
		must(t, err)
		channels := 0
		for _, m := range made {
			for _, at := range m.places {
				channels++
				if hides := own != "" && !at.Service; strings.Contains(m.Text, "globex-1") == hides || own != "" && strings.Contains(m.Text, "could not") != hides {
					t.Errorf("own text %q, to %+v: %q", own, at, m.Text)
				}
			}
		}
		if channels != 2 {
			t.Errorf("own text %q: %d channels, expected 2", own, channels)
		}
	}
}

func TestFirstLineOfAReason(t *testing.T) {
	t.Parallel()
	if got := firstLine("  first\nsecond: a secret of the output"); got != "first" {
		t.Error(got)
	}
	if got := firstLine(strings.Repeat("ä", 1000)); len(got) > maxReason || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// Reasons that differ in nothing that matters are one line of a notification, which has no address
// of one of the hosts.
func TestEqualFailuresOfManyHostsAreOneGroup(t *testing.T) {
	t.Parallel()
	b := newBed(t, newLedger(t), hook("http://127.0.0.1:1"))
	summaryOf := func(id string, outcomes ...ledger.Outcome) ([]Group, string, error) {
		b.run(id, outcomes...)
		run, err := b.ledger.Run(t.Context(), ledger.AllTenants(), id)
		must(t, err)
		return b.summary(t.Context(), &run)
	}
	for name, reason := range testparts.SameFailures() {
		var outcomes []ledger.Outcome
		for i := range 300 {
			outcomes = append(outcomes, ledger.Outcome{Outcome: core.Failed, Reason: core.Reason(reason(fmt.Sprintf("fw-%d", i+1), i) + "\nsecond line")})
		}
		groups, more, err := summaryOf(strings.ReplaceAll(name, " ", "-"), outcomes...)
		if err != nil || more != "" || len(groups) != 1 || groups[0].Count != 300 || strings.Contains(groups[0].Reason, "10.0.") || len(groups[0].Reason) > maxReason {
			t.Errorf("%s: %.3v, %q, %v", name, groups, more, err)
		}
	}
	for i, two := range testparts.DifferentFailures() {
		groups, _, err := summaryOf(fmt.Sprint("differ-", i), ledger.Outcome{Outcome: core.Failed, Reason: core.Reason(two[0])}, ledger.Outcome{Outcome: core.Failed, Reason: core.Reason(two[1])})
		if err != nil || len(groups) != 2 {
			t.Errorf("%q: %+v, %v", two, groups, err)
		}
	}
}

// A run of very many reasons is reported in few lines, and the counts are of all hosts.
func TestSummaryIsBounded(t *testing.T) {
	t.Parallel()
	b := newBed(t, newLedger(t), hook("http://127.0.0.1:1"))
	var outcomes []ledger.Outcome
	for i := range 40 {
		outcomes = append(outcomes, ledger.Outcome{Outcome: core.Failed, Reason: core.Reason(strings.Repeat("x", i+1))})
	}
	b.run("r1", outcomes...)
	run, err := b.ledger.Run(t.Context(), ledger.AllTenants(), "r1")
	must(t, err)
	groups, more, err := b.summary(t.Context(), &run)
	if err != nil || len(groups) != maxGroups || more != "and 32 hosts more, for other reasons" {
		t.Errorf("%d groups, %q, %v", len(groups), more, err)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\r\nb\x00\u202e", 10)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = 3 + max(most, 0)%1000
		got := line(s, most)
		if len(got) > most || strings.ContainsAny(got, "\r\n\t\x00\x1b\u2028\u202e") {
			t.Errorf("%q of %q, %d at most", got, s, most)
		}
	})
}
