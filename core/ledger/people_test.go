package ledger_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func testTokens(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l.SetClock(func() time.Time { return now })
	secret, token, err := l.NewToken(ctx, "root", ledger.Token{Name: "ci", Tenant: "a", Roles: []string{"viewer", "operator"}, Expires: now.Add(time.Hour)})
	if err != nil || !strings.HasPrefix(secret, ledger.TokenPrefix) || len(secret) < 40 || token.ID == "" {
		t.Fatal(token, err)
	}
	if strings.Contains(token.ID, secret) || reflect.DeepEqual(token.Scope(), ledger.AllTenants()) || !reflect.DeepEqual(token.Scope(), ledger.Tenants("a")) {
		t.Errorf("%+v", token)
	}
	got, err := l.Authenticate(ctx, secret)
	if err != nil || !reflect.DeepEqual(got, token) {
		t.Errorf("%+v, %v, expected %+v", got, err, token)
	}
	// The use is noted once in five minutes.
	now = now.Add(time.Minute)
	if got, err := l.Authenticate(ctx, secret); err != nil || !got.LastUsed.Equal(now.Add(-time.Minute)) {
		t.Errorf("%+v, %v", got, err)
	}
	now = now.Add(6 * time.Minute)
	must[ledger.Token](t)(l.Authenticate(ctx, secret))
	if got, err := l.Authenticate(ctx, secret); err != nil || !got.LastUsed.Equal(now) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "x", ledger.TokenPrefix, secret + "x", strings.ToUpper(secret), secret[:len(secret)-1]} {
		_, err := l.Authenticate(ctx, bad)
		wantErr(t, err, core.ErrNotFound, "another secret")
	}
	now = now.Add(time.Hour)
	_, err = l.Authenticate(ctx, secret)
	wantErr(t, err, core.ErrNotFound, "an expired token")

	first, admin, err := l.NewToken(ctx, "root", ledger.Token{ID: "first", Name: "admin", AllTenants: true, Roles: []string{"admin"}})
	if err != nil || !admin.Scope().All() {
		t.Fatal(err)
	}
	_, _, err = l.NewToken(ctx, "root", ledger.Token{ID: "first", Name: "admin again"})
	wantErr(t, err, core.ErrConflict, "the same id again")
	_, _, err = l.NewToken(ctx, "root", ledger.Token{Name: "both", Tenant: "a", AllTenants: true})
	wantErr(t, err, core.ErrInvalid, "one tenant and all")
	_, err = l.RevokeToken(ctx, ledger.Tenants("", "a"), "eve", "first")
	wantErr(t, err, core.ErrNotFound, "a tenant revokes the provider's token")
	for range 2 {
		if got, err := l.RevokeToken(ctx, ledger.AllTenants(), "root", "first"); err != nil || !got.Revoked.Equal(now) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	_, err = l.Authenticate(ctx, first)
	wantErr(t, err, core.ErrNotFound, "a revoked token")
	for scope, want := range map[string]int{"all": 2, "a": 1, "": 0} {
		s := ledger.Tenants(scope)
		if scope == "all" {
			s = ledger.AllTenants()
		}
		if got := pages(t, 1, func(p ledger.Page) ([]ledger.Token, string, error) { return l.Tokens(ctx, s, ledger.TokenFilter{}, p) }); len(got) != want {
			t.Errorf("%q sees %d tokens, expected %d", scope, len(got), want)
		}
	}
	// No secret in the audit log, and an entry for each change.
	entries, _, err := l.AuditLog(ctx, ledger.AllTenants(), ledger.AuditFilter{Kind: "token"}, ledger.Page{})
	if err != nil || len(entries) != 3 || strings.Contains(fmt.Sprint(entries), secret) {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	_, feed, err := l.NewToken(ctx, "carol", ledger.Token{Name: "feed", Tenant: "a", Roles: []string{"calendar"}, Expires: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		f    ledger.TokenFilter
		want int
	}{
		{ledger.TokenFilter{}, 3}, {ledger.TokenFilter{Valid: true}, 1}, {ledger.TokenFilter{Role: "calendar"}, 1}, {ledger.TokenFilter{Role: "admin"}, 1},
		{ledger.TokenFilter{Role: "admin", Valid: true}, 0}, {ledger.TokenFilter{CreatedBy: "carol"}, 1}, {ledger.TokenFilter{CreatedBy: "carol", Role: "admin"}, 0},
		{ledger.TokenFilter{ID: feed.ID}, 1}, {ledger.TokenFilter{ID: "first", CreatedBy: "carol"}, 0},
	} {
		if got, _, err := l.Tokens(ctx, ledger.AllTenants(), c.f, ledger.Page{}); err != nil || len(got) != c.want {
			t.Errorf("%+v: %d tokens, %v, expected %d", c.f, len(got), err, c.want)
		}
	}
}

// Ended tokens go after a time. Those that hold, the first one, and the newest of each name and
// maker stay: four eyes still know who made the token of a run.
func testEndedTokens(t *testing.T, b *backend) {
	l, ctx := b.open(t), t.Context()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l.SetClock(func() time.Time { return now })
	made := func(id, name, by string, roles ...string) {
		t.Helper()
		if _, _, err := l.NewToken(ctx, by, ledger.Token{ID: id, Name: name, AllTenants: true, Roles: roles, Expires: now.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	made("first", "admin", "up", "admin")
	for _, id := range []string{"s1", "s2", "s3"} { // the sessions of a person
		made(id, "ann", "ann", "admin")
	}
	made("c1", "ci", "ann", "operator")
	made("c2", "ci", "bob", "operator")
	made("f1", "phone", "ann", "calendar")
	run := newRun("r1", "a", 1)
	run.LaunchedBy, run.Approvals = "ci", 1
	accept(t, l, run)
	now = now.Add(ledger.KeepTokens)
	made("s4", "ann", "ann", "admin")
	made("a2", "admin", "up", "admin")
	left := func() (ids []string) {
		t.Helper()
		all, _, err := l.Tokens(ctx, ledger.AllTenants(), ledger.TokenFilter{}, ledger.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			ids = append(ids, one.ID)
		}
		return ids
	}
	if n, err := l.PruneTokens(ctx, now.Add(-ledger.KeepTokens)); err != nil || n != 0 {
		t.Errorf("too early: %d removed, %v", n, err)
	}
	now = now.Add(2 * time.Hour)
	n, err := l.PruneTokens(ctx, now.Add(-ledger.KeepTokens))
	if want := []string{"a2", "c1", "c2", "first", "s4"}; err != nil || n != 4 || !reflect.DeepEqual(left(), want) {
		t.Errorf("%d removed, %v, %v left, expected %v", n, err, left(), want)
	}
	_, err = l.Decide(ctx, ledger.AllTenants(), "r1", ledger.Decision{Wave: ledger.WholeRun, By: "ann", Approved: true})
	wantErr(t, err, core.ErrConflict, "the maker of the run's token approves it")
}

func testDocuments(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	all := ledger.AllTenants()
	put := func(name, data string, version int64) (ledger.Document, error) {
		return l.PutDocument(ctx, all, "alice", ledger.Document{Kind: "schedule", Tenant: "a", Name: name, Revision: "4f1a", Data: []byte(data)}, version)
	}
	d := must[ledger.Document](t)(put("nightly", "cron: 1", 0))
	if d.Version != 1 || d.By != "alice" {
		t.Errorf("%+v", d)
	}
	if got := must[ledger.Document](t)(l.Document(ctx, ledger.Tenants("a"), "schedule", "a", "nightly")); !reflect.DeepEqual(got, d) {
		t.Errorf("%+v, expected %+v", got, d)
	}
	for _, version := range []int64{0, 2, -1} {
		_, err := put("nightly", "other", version)
		wantErr(t, err, core.ErrConflict, "another version")
	}
	_, err := put("none", "x", 3)
	wantErr(t, err, core.ErrConflict, "a version of nothing")
	must[ledger.Document](t)(put("nightly", strings.Repeat("cron ", 1000), 1))
	wantErr(t, l.DeleteDocument(ctx, all, "alice", "schedule", "a", "nightly", 1), core.ErrConflict, "delete of another version")
	if err := l.DeleteDocument(ctx, all, "alice", "schedule", "a", "nightly", 2); err != nil {
		t.Fatal(err)
	}
	wantErr(t, l.DeleteDocument(ctx, all, "alice", "schedule", "a", "nightly", 2), core.ErrNotFound, "delete again")
	_, err = l.Document(ctx, all, "schedule", "a", "nightly")
	wantErr(t, err, core.ErrNotFound, "a deleted document")
	if d := must[ledger.Document](t)(put("nightly", "again", 0)); d.Version != 4 {
		t.Errorf("version %d came again, or not in order", d.Version)
	}
	must[ledger.Document](t)(put("weekly", "", 0))
	must[ledger.Document](t)(l.PutDocument(ctx, all, "", ledger.Document{Kind: "schedule", Tenant: "b", Name: "Öl"}, 0))
	must[ledger.Document](t)(l.PutDocument(ctx, all, "", ledger.Document{Kind: "other", Tenant: "b", Name: "x"}, 0))
	names := ""
	for _, d := range pages(t, 1, func(p ledger.Page) ([]ledger.Document, string, error) { return l.Documents(ctx, all, "schedule", p) }) {
		names += d.Tenant + "/" + d.Name + " "
	}
	if names != "a/nightly a/weekly b/Öl " {
		t.Errorf("%s", names)
	}
	entries, _, err := l.AuditLog(ctx, all, ledger.AuditFilter{Kind: "schedule"}, ledger.Page{})
	if err != nil || len(entries) != 5 {
		t.Errorf("%d entries, %v: the service's own changes are not audited", len(entries), err)
	}
}

// Many put the same version: one wins.
func testDocumentsRace(t *testing.T, b *backend) {
	url := b.fresh(t)
	servers := []*ledger.Ledger{b.at(t, url), b.at(t, url)}
	for version := range int64(3) {
		var mu sync.Mutex
		won := 0
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				_, err := servers[i%2].PutDocument(t.Context(), ledger.AllTenants(), "", ledger.Document{Kind: "k", Name: "n", Data: []byte{byte(i)}}, version)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else {
					wantErr(t, err, core.ErrConflict, "who was late")
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Errorf("version %d was replaced by %d", version, won)
		}
	}
}
