package launch

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// balanced is a fleet whose hosts have a load balancer in vars, and the balancers.
func balanced(customer string) (all []core.Host) {
	all = append(fleet(3), core.Host{Name: "lb1", Address: "192.0.2.1"}, core.Host{Name: "lb2", WindowSet: "never"}, core.Host{Name: "other", Customer: "birch"}, core.Host{Name: "far", Pool: "east"})
	for i := range all[:3] {
		all[i].Customer, all[i].Vars = customer, map[string]any{"lb": "lb1"}
	}
	all[3].Customer, all[4].Customer, all[6].Customer = customer, customer, customer
	return all
}

func TestDelegates(t *testing.T) {
	const before = "targets: '\"lb\" in keys(host.vars)'\nsteps:\n  - "
	for name, c := range map[string]struct {
		book   string
		vars   map[string]any
		change func(all []core.Host)
		want   string // delegates, or a part of the error
	}{
		"by a var of the host":             {before + `{uses: file, on: host.vars.lb}`, nil, nil, "lb1"},
		"the host itself":                  {before + `{uses: file, on: host.name}`, nil, nil, ""},
		"by vars of the launch":            {"vars: {at: lb1}\n" + before + `{uses: file, on: vars.at}`, map[string]any{"at": "lb2"}, nil, "lb2"},
		"not in the inventory":             {before + `{name: drain, uses: file, on: '"nowhere"'}`, nil, nil, `p.yaml:4:36: on of step "drain" on host h0000: gives "nowhere", which is not in the inventory of the run`},
		"another customer's":               {before + `{uses: file, on: '"other"'}`, nil, nil, `gives "other", which is not in the inventory`},
		"another pool's":                   {before + `{name: drain, uses: file, on: '"far"'}`, nil, nil, `step drain: playbook p: the workers here are of pool "west", and pool "east" has far`},
		"none":                             {before + `{uses: file, on: host.vars.lb}`, nil, func(all []core.Host) { all[1].Vars["lb"] = nil }, "on host h0001: gives no host"},
		"no text":                          {before + `{uses: file, on: host.vars.lb}`, nil, func(all []core.Host) { all[1].Vars["lb"] = 7 }, "on host h0001: gives the number 7"},
		"none where when may be false":     {before + `{uses: file, when: host.vars.lb != nil, on: host.vars.lb}`, nil, func(all []core.Host) { all[1].Vars["lb"] = nil }, "lb1"},
		"none in a group that may be":      {before + `{name: g, when: host.vars.lb != nil, steps: [{uses: file, on: host.vars.lb}]}`, nil, func(all []core.Host) { all[1].Vars["lb"] = nil }, "lb1"},
		"not there though when may be":     {before + `{uses: file, when: host.name == "x", on: '"nowhere"'}`, nil, nil, `gives "nowhere"`},
		"a host that the run disrupts":     {"targets: true\nsteps:\n  - " + `{uses: file, disruptive: true, on: '"h0001"'}`, nil, only(3), `gives "h0001", a host that the run itself disrupts`},
		"a host of a run without":          {"targets: true\nsteps:\n  - " + `{uses: file, disruptive: false, on: '"h0001"'}`, nil, only(3), "h0001"},
		"a step that tags leave out":       {before + `{uses: file, tags: [other], on: '"nowhere"'}` + "\n  - {uses: file, tags: [this]}", nil, nil, ""},
		"a step of rescue":                 {before + `{name: g, steps: [{uses: file, tags: [this]}], rescue: [{uses: file, on: '"lb1"'}]}`, nil, nil, "lb1"},
		"an expression that is cut short":  {before + `{uses: file, on: host.vars.lb.name}`, nil, nil, "on host h0000"},
		"a host that names its own login?": {before + `{uses: file, on: host.vars.lb}`, nil, func(all []core.Host) { all[3].SSH.User = "deploy" }, "lb1"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := playbooks.Parse("p.yaml", []byte("playbook: p\n"+c.book+"\n"), playbooks.Options{Vars: c.vars})
			if err != nil {
				t.Fatal(err)
			}
			all := balanced("acme")
			if c.change != nil {
				c.change(all)
			}
			all = slices.DeleteFunc(all, func(h core.Host) bool { return h.Name == "" })
			l, err := Prepare(p, all, Options{Vars: c.vars, Pool: "west", Tags: tagsOf(c.book), Inventory: all})
			if err != nil {
				if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.want) || c.want == "" {
					t.Fatalf("got %v\nwant %q", err, c.want)
				}
				return
			}
			s, err := snapshot.Decode(l.Run.Payload)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(slices.Sorted(maps.Keys(s.Delegates)), " "); got != c.want {
				t.Errorf("delegates %q, want %q", got, c.want)
			}
		})
	}
}

// only keeps the first hosts of a fleet.
func only(n int) func(all []core.Host) {
	return func(all []core.Host) { clear(all[n:]) }
}

func tagsOf(book string) []string {
	if strings.Contains(book, "tags: [this]") {
		return []string{"this"}
	}
	return nil
}

// A worker reads one of the hosts that the launch chose, of the same customer, and none that names
// its login.
func TestDelegateOfASnapshot(t *testing.T) {
	web := core.Host{Name: "web", Customer: "acme"}
	for name, c := range map[string]struct {
		data string
		want string // "" is no error
	}{
		"right":              {`{"name": "lb", "customer": "acme"}`, ""},
		"another customer's": {`{"name": "lb", "customer": "birch"}`, "is not of the customer of web"},
		"another name":       {`{"name": "web2", "customer": "acme"}`, "is not of the customer of web"},
		"a login":            {`{"name": "lb", "customer": "acme", "ssh": {"password_command": "id"}}`, "no job may set what a worker logs in with"},
		"no JSON":            {`[]`, "read host"},
	} {
		s := snapshot.Snapshot{Delegates: map[string]json.RawMessage{"lb": json.RawMessage(c.data)}}
		h, err := s.Delegate("lb", web)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !errors.Is(err, core.ErrInvalid)) || err == nil && h.Name != "lb" {
			t.Errorf("%s: %+v, %v; want %q", name, h, err, c.want)
		}
		if _, err := s.Delegate("lb2", web); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: a host that the launch did not choose: %v", name, err)
		}
	}
}

// A delegate whose windows never open is refused at the launch; one whose windows open is not, and
// approvals are also bound to it.
func TestDelegateWindows(t *testing.T) {
	const drain = "window: service\nsteps: [{name: drain, uses: firmware.set, needs: 1h, on: '\"lb\"', with: {x: 1}}]\n"
	for set, want := range map[string]string{"sat": "", "now": "", "": `gives "lb", and no window fits it`, "short": `gives "lb", and no window fits it`} {
		l, err := windowed(t, drain, inSets("now"), Options{Inventory: []core.Host{{Name: "lb", Customer: "acme", WindowSet: set}}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("set %q: %v, want %q", set, err, want)
		}
		if err == nil && l.Snapshot.Windows.Targets[set] == "" {
			t.Errorf("set %q: approvals are bound to %v", set, l.Snapshot.Windows.Targets)
		}
		kept := func(*playbooks.Playbook, []core.Host) (map[string]int, error) { return map[string]int{"h0000": 1}, nil }
		if _, err = windowed(t, drain, inSets("now"), Options{Kept: kept, Inventory: []core.Host{{Name: "lb", Customer: "acme", WindowSet: set}}}); err != nil {
			t.Errorf("set %q, of a step that a retry keeps: %v", set, err)
		}
	}
}
