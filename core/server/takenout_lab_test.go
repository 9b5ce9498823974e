//go:build linux && labs

package server

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

// attack is a test that attacks a guard, and words of what it gets without the guard.
type attack struct {
	test  string
	shows []string
}

// takenOut has guards that are taken out together, because programs without them are compiled once,
// and the attacks on them by package. A retry, which leaves hosts of other tenants out, is not
// here: the targets of the playbook also do so.
var takenOut = []struct {
	guards  [][3]string // the file, the guard, and what replaces it
	attacks map[string][]attack
}{
	{[][3]string{
		{"core/server/retry.go", "l.Run.Tenant != run.Tenant {", "l.Run.Tenant != run.Tenant && false {"},
		{"core/catalog/approvalquota.go", `a.Tenant != "" && b.Tenant == a.Tenant }`, "true }"},
		{"core/catalog/approvalquota.go", ">= bound.max && !a.Revoked {", ">= bound.max {"},
		{"core/server/stream.go", "if !by.scope.All() {", "if !by.scope.All() && false {"},
		{"core/catalog/prepare.go", "len(text) > core.QuotaVars.Max", "len(text) > core.QuotaVars.Max && false"},
		{"core/ledger/schedulechange.go", "n >= s.Over.Max {", "n >= s.Over.Max && false {"},
		{"core/ledger/accept.go", "if n > q.Max {", "if n > q.Max && false {"},
		{"core/ledger/person.go", "i < len(all); i++ {", "i < 0; i++ {"},
		{"core/server/idempotent.go", "digest(by.name, tenantOf(by.token), operation, i.Key)", "digest(i.Key)"},
		{"core/login/login.go", "p.bound(token.Nonce, salt, asked); err != nil {", "p.bound(token.Nonce, salt, asked); err != nil && false {"},
		{"cmd/turnus/remote/login.go", "c.Issuer == info.Issuer && c.ClientID == info.ClientID {", "true {"},
		{"core/ledger/claims.go", "incarnation = $%d AND claimed_until <", "incarnation = $%d AND claimed_until = 0 AND claimed_until <"},
		{"core/ledger/claims.go", "AND name <> $1 LIMIT", "AND name <> $1 AND name = '' LIMIT"},
		{"core/controller/enqueue.go", "case run.Phase == ledger.PhaseCancelled:", "case run.Phase == ledger.PhaseCancelled && false:"},
		{"core/ledger/record.go", "if !added[i] {", "if !added[i] && false {"},
		{"core/definitions/checkout.go", "root.Stat(e.path); err != nil {", "root.Stat(e.path); err != nil && false {"},
		{"core/secrets/credential.go", "case at.IsValid() && a.net.Contains(at.Unmap()):", "default:"},
	}, map[string][]attack{
		"core/server": {
			{"TestFaultS4RetryKeepsToTheProjectAsItIsNow", []string{"/of_another_tenant,_by_provider", `201 {`, `"tenant":"globex"`}},
			{"TestFaultS5ApprovalsOfOneTenantBlockNobody", []string{"409, expected 200", "tenant globex has 300 approvals"}},
			{"TestFaultS5ApprovalsOfATenantAreBounded", []string{"409, expected 200", "tenant acme has 300 approvals"}},
			{"TestFaultS7StreamsOfOneTenantLeaveTheOthersTheirs", []string{"acme has 2000 streams"}},
			{"TestFaultS8ATenantHoldsNoMoreThanItsQuotas", []string{`201 {`, `"phase":"queued"`, `"name":"more"`, `"kind":"test"`}},
			{"TestFaultS12AKeyBelongsToItsCaller", []string{"another person was answered with the run of somebody else"}},
			{"TestFaultS13ATokenCountsAsWhoMadeIt", []string{`: 200 {"id"`, `"phase":"queued"`}},
		},
		"core/login":     {{"TestFaultS9AnotherServerCannotUseALogin", []string{"replayed: {Name:", "Tenant:*", "<nil>"}}},
		"cmd/turnus/cli": {{"TestFaultS9AServerDoesNotChangeTheProvider", []string{"login --context prod: exit code 0, want 5"}}},

		// Invariants of ARCHITECTURE.md.
		"core/controller": {
			{"TestServerDiesBetweenLedgerAndQueue", []string{"never: run r2 is complete"}},
			{"TestEmbeddedQueueIsLost", []string{"never: run r1 is complete"}},
			{"TestCancelWhileItIsBeingQueued", []string{"5 jobs were leased, expected 0"}},
		},
		"core/ledger":      {{"TestRecordsAreTakenOnceByTheirCursor", []string{"24 outcomes counted of 12 jobs"}}},
		"core/definitions": {{"TestHostileLinks", []string{"the hostile commit is in use"}}},
		"cmd/turnus/node":  {{"TestFaultS1ForgedJobsGetNoLogin", []string{`the attacker's machine got "hunter2`, "a command ran on the worker"}}},
	}},
	{[][3]string{
		{"core/server/access.go", "scope: token.Scope()", "scope: ledger.AllTenants()"},
	}, map[string][]attack{
		"core/server": {{"TestEveryRouteRefusesOtherTenants", []string{"with another tenant's token: 200"}}},
	}},
}

// Negative control of the tests of S4, S5, S7, S8, S9, S12 and S13, and of invariants: each attack
// succeeds if its guard is taken out.
func TestLabAttacksSucceedWithoutTheirGuards(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	must(t, err)
	for _, o := range takenOut {
		programs := withoutGuards(t, root, o.guards, slices.Sorted(maps.Keys(o.attacks)))
		for room, attacks := range o.attacks {
			for _, a := range attacks {
				t.Run(a.test, func(t *testing.T) {
					t.Parallel()
					cmd := exec.CommandContext(t.Context(), filepath.Join(programs, filepath.Base(room)+".test"), "-test.run", "^"+a.test+"$")
					cmd.Dir = filepath.Join(root, room)
					out, err := cmd.CombinedOutput()
					if err == nil {
						t.Fatalf("it passes without its guard:\n%s", out)
					}
					for _, words := range a.shows {
						if !strings.Contains(string(out), words) {
							t.Errorf("without its guard it does not report %q:\n%s", words, out)
						}
					}
				})
			}
		}
	}
}

// withoutGuards compiles the tests of packages with guards taken out, into a folder.
func withoutGuards(t *testing.T, root string, guards [][3]string, rooms []string) (programs string) {
	t.Helper()
	dir, replace := t.TempDir(), map[string]string{}
	for i, g := range guards {
		path, guard := filepath.Join(root, g[0]), g[1]
		from := path
		if replace[path] != "" {
			from = replace[path]
		}
		text, err := os.ReadFile(from)
		must(t, err)
		if n := strings.Count(string(text), guard); n != 1 {
			t.Fatalf("%s has %q %d times, expected once", g[0], guard, n)
		}
		replace[path] = filepath.Join(dir, strconv.Itoa(i)+".go")
		must(t, os.WriteFile(replace[path], []byte(strings.Replace(string(text), guard, g[2], 1)), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", dir+"/")
	for _, room := range rooms {
		build.Args = append(build.Args, "./"+room)
	}
	build.Dir, build.Env = root, testparts.Shipped()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile the attacks without guards: %v\n%s", err, out)
	}
	return dir
}
