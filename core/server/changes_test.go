package server

import (
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
)

// changed asks for what changed since a response.
func (b *bed) changed(secret, since, more string) api.Changes {
	b.t.Helper()
	return want[api.Changes](b.t, b.ask(secret, "GET", "/v1/changes?since="+url.QueryEscape(since)+more, nil), http.StatusOK)
}

// again lets the marks be read by the next request.
func (b *bed) again() {
	b.server.changes.mu.Lock()
	defer b.server.changes.mu.Unlock()
	b.server.changes.every = 0
}

func has(c api.Changes, topics ...api.Topic) bool {
	for _, t := range topics {
		if !slices.Contains(c.Topics, t) {
			return false
		}
	}
	return len(c.Topics) == len(topics)
}

// A tenant hears of its own changes, and not when something changes of another tenant. Control: the
// provider hears of both.
func TestChangesAreThoseOfTheTenant(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	acme, globex, all := b.token("acme", Viewer), b.token("globex", Viewer), b.token(everyTenant, Viewer)
	seen := map[string]string{}
	for _, who := range []string{acme, globex, all} {
		first := b.changed(who, "", "")
		if !has(first, api.Topics()...) {
			t.Errorf("without since: %v", first)
		}
		b.again()
		if again := b.changed(who, first.At, ""); !has(again) || again.At != first.At {
			t.Errorf("nothing happened: %v, before %v", again, first)
		}
		seen[who] = first.At
	}
	step := func(what string, topics ...api.Topic) {
		t.Helper()
		b.again()
		for who, topics := range map[string][]api.Topic{acme: topics, globex: nil, all: topics} {
			c := b.changed(who, seen[who], "&topic=runs&topic=fleet&topic=schedules&topic=project")
			if !has(c, topics...) {
				t.Errorf("%s: %v, expected %v (acme %v, all %v)", what, c.Topics, topics, who == acme, who == all)
			}
			seen[who] = c.At
		}
	}
	step("nothing")
	run := b.launch("acme", api.NewRun{})
	b.again()
	for who, topics := range map[string][]api.Topic{acme: {api.TopicRuns}, globex: nil, all: {api.TopicRuns, api.TopicFleet}} {
		c := b.changed(who, seen[who], "&topic=runs&topic=fleet")
		if !has(c, topics...) {
			t.Errorf("a launch: %v, expected %v", c.Topics, topics)
		}
		seen[who] = b.changed(who, "", "").At
	}
	b.finish(run)
	step("a run ends", api.TopicRuns, api.TopicFleet)
	want[any](t, b.ask(b.token("acme", Operator), "PUT", "/v1/schedules/made", api.NewSchedule{Playbook: "acme-patch", Cron: "0 4 * * *"}), http.StatusOK)
	step("a schedule", api.TopicSchedules)
	want[any](t, b.ask(b.token("acme", Approver), "POST", "/v1/windows/acme-day/approve", api.ApproveWindow{}), http.StatusOK)
	step("an approval", api.TopicProject)
	b.finish(b.launch("acme", api.NewRun{}))
	step("a run begins and ends between two readings", api.TopicRuns, api.TopicFleet)
}

// The provider decides on a set that several tenants share: each of them hears of it.
func TestADecisionOnASharedSetIsHeardByItsTenants(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	shared := tree()
	shared["windows/sets.yaml"] += "  shared: {timezone: UTC, approval: {by: cab, state: proposed}, allow: [{rrule: FREQ=DAILY, from: \"01:00\", to: \"02:00\"}]}\n" +
		"  theirs: {timezone: UTC, approval: {by: cab, state: proposed}, allow: [{rrule: FREQ=DAILY, from: \"01:00\", to: \"02:00\"}]}\n"
	shared["inventory/hosts.yaml"] += "  acme-4: {address: 192.0.2.4, customer: acme, window_set: shared}\n  globex-4: {address: 192.0.2.4, customer: globex, window_set: shared}\n" +
		"  initech-4: {address: 192.0.2.4, customer: initech, window_set: theirs}\n"
	_, err := b.cat.Apply(t.Context(), "test", documents(shared), definitions.Revision{}, catalog.AnyVersion)
	must(t, err)
	acme, provider := b.token("acme", Viewer), b.token(everyTenant, Approver)
	first := b.changed(acme, "", "&topic=project")
	approve := func(set string) {
		t.Helper()
		want[any](t, b.ask(provider, "POST", "/v1/windows/"+set+"/approve", api.ApproveWindow{}), http.StatusOK)
		b.again()
	}
	approve("theirs") // control: of another tenant's it hears nothing
	if c := b.changed(acme, first.At, "&topic=project"); !has(c) {
		t.Errorf("a decision on another tenant's set: %v", c.Topics)
	}
	approve("shared")
	if c := b.changed(acme, first.At, "&topic=project"); !has(c, api.TopicProject) {
		t.Errorf("a decision on a shared set: %v, expected the project", c.Topics)
	}
}

// A change ends the wait for it, and another server continues where one ended.
func TestAWaitForChangesEndsWithAChange(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	secret := b.token("acme", Viewer)
	first := b.changed(secret, "", "&topic=runs")
	answered := make(chan answer, 1)
	go func() { // it ends with the answer
		answered <- b.ask(secret, "GET", "/v1/changes?wait_seconds=25&topic=runs&since="+url.QueryEscape(first.At), nil)
	}()
	b.launch("acme", api.NewRun{})
	c := want[api.Changes](t, <-answered, http.StatusOK)
	if !has(c, api.TopicRuns) {
		t.Errorf("a launch: %v", c)
	}
	other, err := New(b.server.cfg)
	must(t, err)
	b.server = other
	if c = b.changed(secret, c.At, "&topic=runs"); !has(c) {
		t.Errorf("another server: %v", c)
	}
	if c = b.changed(secret, first.At, "&topic=runs"); !has(c, api.TopicRuns) {
		t.Errorf("another server, from before the launch: %v", c)
	}
}
