package service

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/secrets"
)

func TestWhatAPersonShouldSeeToIsNews(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event controller.Event
		want  string // kind and a part of the text; empty: no news
		span  time.Duration
	}{
		"held, and the ledger says so": {controller.Event{Kind: controller.RunPaused, Run: "r1", Reason: "look"}, "", foldSoon},
		"held over":                    {controller.Event{Kind: controller.RunPaused, Run: "r1", Reason: core.Because(core.QueueOlder, "the queue came back older")}, "run_paused the queue came back older", foldSoon},
		"repeated":                     {controller.Event{Kind: controller.RunRepeated, Run: "r1", Count: 3}, "run_repeated a second end", foldSoon},
		"refused":                      {controller.Event{Kind: controller.RunRefused, Run: "r1", Reason: "no such type"}, "run_failed no such type", foldSoon},
		"missed":                       {controller.Event{Kind: controller.WindowMissed, Run: "r1", Count: 2, Reason: "it is over"}, "window_missed it is over", foldSoon},
		"a wave":                       {controller.Event{Kind: controller.WaveAsks, Run: "r1", Wave: 1}, "approval_needed wave 2 waits", ledger.Once},
		"stalled":                      {controller.Event{Kind: controller.StepStalled, Run: "r1", Count: 1, Reason: "go"}, "step_stalled turnus runs signal r1 go", foldDaily},
		"away":                         {controller.Event{Kind: controller.QueueAway, Err: errors.New("refused")}, "queue_away refused", foldSoon},
		"back":                         {controller.Event{Kind: controller.QueueBack}, "queue_back answers", foldSoon},
		"lost":                         {controller.Event{Kind: controller.QueueLost}, "queue_lost emptied", foldSoon},
		"enqueued":                     {controller.Event{Kind: controller.RunEnqueued, Run: "r1"}, "", foldSoon},
		"ended":                        {controller.Event{Kind: controller.RunEnded, Run: "r1"}, "", foldSoon},
	} {
		n, span := newsOf(c.event)
		kind, text, _ := strings.Cut(c.want, " ")
		if n.Kind != kind || kind != "" && (!strings.Contains(n.Text, text) || n.Subject == "" || n.Fold == "" || span != c.span) {
			t.Errorf("%s: %+v, %v", name, n, span)
		}
	}
	id := schedule.ID{Tenant: "acme", Name: "patch"}
	n, _ := newsOfCatalog(catalog.Event{Kind: catalog.TriggerSkipped, Schedule: id, Reason: "too late"}, nil)
	if n.Kind != "trigger_skipped" || n.Schedule != id.String() || n.Tenant != "acme" || !strings.Contains(n.Text, "too late") {
		t.Errorf("%+v", n)
	}
	n, _ = newsOfCatalog(catalog.Event{Kind: catalog.TriggerSkipped, Schedule: id, Reason: "globex-1 lacks facts", Foreign: true}, nil)
	if !strings.Contains(n.Text, "globex-1") || strings.Contains(n.Own, "globex-1") || !strings.Contains(n.Own, catalog.ForeignSkip) {
		t.Errorf("%+v", n)
	}
	a, _ := newsOfCatalog(catalog.Event{Kind: catalog.ProjectRejected, By: "Ann", Reason: "commit 12", Err: errors.New("playbooks/a.yaml:2:1")}, nil)
	b, _ := newsOfCatalog(catalog.Event{Kind: catalog.ProjectRejected, By: "Ann", Reason: "commit 13", Err: errors.New("playbooks/a.yaml:2:1")}, nil)
	if a.Kind != "project_rejected" || !strings.Contains(a.Text, "by Ann: ") || a.Fold == b.Fold {
		t.Errorf("%+v, %+v", a, b)
	}
	if n, _ := newsOfCatalog(catalog.Event{Kind: catalog.TriggerLaunched, Schedule: id}, nil); n.Kind != "" {
		t.Error("a launch is nobody's trouble")
	}
}

// A server that has not read the ledger may have definitions: it drops no notification.
func TestNotificationsWaitForTheDefinitions(t *testing.T) {
	t.Parallel()
	l, err := ledger.Open(t.Context(), ledger.Memory, ledger.Options{Private: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	ctl, err := controller.New(controller.Config{Name: "s", Ledger: l, Queue: q, Board: q})
	if err != nil {
		t.Fatal(err)
	}
	s := &service{}
	if s.catalog, err = catalog.New(catalog.Config{Ledger: l, Board: q, Controller: ctl}); err != nil {
		t.Fatal(err)
	}
	if !s.view().Wait {
		t.Error("notifications do not wait before the ledger was read")
	}
	docs := []definitions.Document{{Path: "turnus.yaml", Data: []byte("playbooks: []\ninventory: []\n")}}
	if _, err := s.catalog.Apply(t.Context(), "ann", docs, definitions.Revision{}, 5); !errors.Is(err, core.ErrConflict) { // it reads the ledger
		t.Fatal(err)
	}
	if s.view().Wait {
		t.Error("notifications wait although the ledger has no definitions")
	}
}

func TestNotifyFlags(t *testing.T) {
	t.Parallel()
	view := func() notify.View { return notify.View{} }
	for name, f := range map[string]notifyFlags{
		"a secret for nobody": {secret: "x"}, "no address": {url: "hook"}, "no such secret": {url: "http://127.0.0.1:1", secret: "/nowhere"},
		"no network": {allow: []string{"10.0.0.1"}}, "no such authority": {ca: "/nowhere"},
		"a user of no server": {smtpUser: "x", smtpTLS: "starttls"}, "no port": {smtp: "mail", smtpTLS: "starttls", from: "a@b"}, "no sender": {smtp: "mail:25", smtpTLS: "starttls"},
		"odd tls": {smtp: "mail:25", smtpTLS: "ssl", from: "a@b"}, "no password": {smtp: "mail:25", smtpTLS: "starttls", from: "a@b", smtpUser: "x"},
		"a password in the clear": {smtp: "mail:25", smtpTLS: "none", from: "a@b", smtpUser: "x", smtpPass: "/nowhere"},
	} {
		if f.smtpTLS == "" {
			f.smtpTLS = "starttls"
		}
		if _, err := f.open(&ledger.Ledger{}, "s", &secrets.Store{}, view, nil); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if s, err := (&notifyFlags{smtpTLS: "starttls"}).open(&ledger.Ledger{}, "s", &secrets.Store{}, view, nil); s == nil || err != nil {
		t.Errorf("without flags: %v", err)
	}
}

// A window that waits for an approval is news to the tenant whose hosts alone have it, and once for
// each edit.
func TestWindowsThatNobodyApproved(t *testing.T) {
	t.Parallel()
	load := func(to string) *definitions.Set {
		set, err := definitions.FromDocuments(t.Context(), []definitions.Document{
			{Path: "inventory.yaml", Data: []byte("hosts:\n  a: {customer: acme, window_set: own}\n  b: {customer: acme, window_set: own}\n  c: {customer: acme, window_set: shared}\n  d: {customer: globex, window_set: shared}\n")},
			{Path: "playbooks/p.yaml", Data: []byte("playbook: p\ntargets: true\nsteps: [{uses: command, with: {run: x}}]\n")},
			{Path: "windows.yaml", Data: []byte("window_sets:\n  own: &w\n    timezone: UTC\n    approval: {by: cab, state: proposed}\n    allow: [{id: noon, rrule: FREQ=DAILY, from: \"12:00\", to: \"" + to + "\"}]\n" +
				"  shared: *w\n  free:\n    timezone: UTC\n    allow: [{id: noon, rrule: FREQ=DAILY, from: \"12:00\", to: \"13:00\"}]\n")},
		}, definitions.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	set := load("13:00")
	got := unapprovedWindows(set, set.Windows, time.Now())
	if len(got) != 2 || got[0].Window != "own" || got[0].Tenant != "acme" || got[1].Window != "shared" || got[1].Tenant != "" || !strings.Contains(got[0].Text, "only proposed") {
		t.Fatalf("%+v", got)
	}
	again := unapprovedWindows(set, set.Windows, time.Now())
	edited := load("14:00")
	after := unapprovedWindows(edited, edited.Windows, time.Now())
	if again[0].Fold != got[0].Fold || after[0].Fold == got[0].Fold || got[0].Fold == got[1].Fold {
		t.Errorf("%q, again %q, edited %q, another %q", got[0].Fold, again[0].Fold, after[0].Fold, got[1].Fold)
	}
}
