package remote

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/client"
)

func TestAfterRefusal(t *testing.T) {
	for name, tc := range map[string]struct {
		e    client.Error
		want string // a part; "" for no hint
	}{
		"a role":                   {client.Error{Detail: "the token bob has the role viewer; this needs operator", Err: client.ErrForbidden}, "turnus admin tokens create NAME --role operator"},
		"a permission, which says": {client.Error{Detail: "the token bob does not have the permission exec", Err: client.ErrForbidden}, ""},
		"a run that has ended":     {client.Error{What: "pause run R1", Err: core.ErrConflict}, "turnus runs show R1 shows"},
		"another conflict":         {client.Error{What: "set schedule s", Err: core.ErrConflict}, ""},
		"no window for some":       {client.Error{Detail: "playbook p: no window fits 2 of 3 hosts\n  a, b: closed", Err: core.ErrInvalid}, "--skip-no-window runs on the other hosts"},
		"no window for all":        {client.Error{Detail: "playbook p: no window fits 3 of 3 hosts", Err: core.ErrInvalid}, "wait for an approval"},
		"wrong input":              {client.Error{Detail: "var x is unknown", Err: core.ErrInvalid}, ""},
	} {
		got := afterRefusal(&tc.e)
		if !strings.Contains(got, tc.want) || (tc.want == "") != (got == "") {
			t.Errorf("%s: %q, expected %q", name, got, tc.want)
		}
		if name == "no window for all" && strings.Contains(got, "--skip-no-window") {
			t.Errorf("%s: %q leaves every host out", name, got)
		}
	}
}

// The hint of what is not found is of its kind, whatever words its name has.
func TestListOf(t *testing.T) {
	for want, all := range map[string][]client.Error{
		"turnus hosts ls":             {{What: "list jobs of host worker-9", Detail: `host "worker-9" is not in the inventory`}, {What: "list open jobs of nope", Detail: `host "nope" is not in the inventory`}},
		"turnus project playbooks ls": {{What: "launch schedule-x", Detail: `playbook "schedule-x" is not in the project`}, {What: "show playbook token"}},
		"turnus schedules ls":         {{What: "pause schedule worker", Detail: `there is no schedule "worker"`}},
		"turnus admin workers ls":     {{What: "cordon worker source", Detail: `worker "source" is not there`}},
		"turnus admin tokens ls":      {{What: "revoke token 4f", Detail: "revoke token 4f: it is not in the ledger"}},
		"turnus windows approvals":    {{What: "show window set host", Detail: `window set "host" is not in the project`}},
		"turnus runs ls":              {{What: "show run playbook-1", Detail: `run "playbook-1" is not in the ledger`}},
	} {
		for _, e := range all {
			if got := listOf(&e); !strings.HasPrefix(got, want+" lists") {
				t.Errorf("%s: %s: the hint is %q, expected %q", e.What, e.Detail, got, want)
			}
		}
	}
}

// A server that is overloaded, or the proxy before it, is named with its status or its reason, and
// with the next command. Control: a fault of the server is no overload.
func TestReportOfAnOverloadedServer(t *testing.T) {
	for status, c := range map[int]struct {
		body string
		want []string
	}{
		http.StatusTooManyRequests:     {`{"detail":"the token ci may have 4 streams and exports open, and has them: close some, or try again later"}`, []string{"the token ci may have 4 streams", "run the command again later", "turnus admin health http://"}},
		http.StatusServiceUnavailable:  {`{"detail":"the ledger is away"}`, []string{"show run r1: server http://", "the ledger is away", "run the command again later"}},
		http.StatusBadGateway:          {"<html>bad gateway</html>", []string{"answers 502 Bad Gateway", "run the command again later"}},
		http.StatusInternalServerError: {`{"detail":"a fault"}`, []string{"a fault"}},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, c.body)
		}))
		t.Cleanup(server.Close)
		ask, err := client.New(client.Config{Server: server.URL, Patience: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		_, err = ask.Run(t.Context(), "r1")
		said := Reported(err).Error()
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%d: %q is without %q", status, said, want)
			}
		}
		if strings.Contains(said, "hint:") == (status == http.StatusInternalServerError) {
			t.Errorf("%d: %q", status, said)
		}
	}
}
