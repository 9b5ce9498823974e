package launch

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/snapshot"
)

// given is the source nb, which gave the hosts up to h0004.
func given(at time.Time) func(string) (core.SourceUse, bool) {
	return func(host string) (core.SourceUse, bool) {
		return core.SourceUse{Source: "nb", Generation: "sha256:01", Good: at}, host < "h0005"
	}
}

// A launch names the sources that its hosts come from. Older workers and servers read its snapshot,
// and it reads theirs.
func TestSourcesOfALaunch(t *testing.T) {
	at := time.Date(2026, 3, 3, 1, 0, 0, 0, time.UTC)
	lists := "steps: [{name: a, uses: command, with: {run: \"${{ join(map(hosts('host.name == \\\"h0001\\\"'), #.name), ',') }}\"}}]\n"
	for _, c := range []struct {
		name, text string
		source     func(string) (core.SourceUse, bool)
		hosts      int // of nb; -1: the launch does not name it
	}{
		{"no source", "targets: true\n" + command, nil, -1},
		{"half of the hosts", "targets: true\n" + command, given(at), 5},
		{"none of the hosts", "targets: host.name > \"h0005\"\n" + command, given(at), -1},
		{"only hosts() gives one", "targets: host.name > \"h0005\"\n" + lists, given(at), 0},
		{"only on gives one", "targets: host.name > \"h0005\"\nsteps: [{name: a, uses: file, on: '\"h0001\"', with: {run: x}}]\n", given(at), 0},
	} {
		l, err := Prepare(parse(t, c.text), fleet(10), Options{RunID: "r-1", Now: at, Types: types, Source: c.source})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var want []core.SourceUse
		if c.hosts >= 0 {
			want = []core.SourceUse{{Source: "nb", Generation: "sha256:01", Good: at, Hosts: c.hosts}}
		}
		read, err := snapshot.Decode(l.Run.Payload)
		if err != nil || !reflect.DeepEqual(read.Sources, want) {
			t.Errorf("%s: %+v, %v, expected %+v", c.name, read.Sources, err, want)
		}
		if plain := l.Run.Payload; c.hosts == 5 && read.Version != 1 {
			t.Errorf("%s: version %d refuses older workers: %s", c.name, read.Version, plain)
		}
	}
}

// The error of a launch without hosts has how many there are, and whose they are.
func TestNoHostIsSelectedOfASource(t *testing.T) {
	p := parse(t, "targets: host.name == \"x\"\n"+command)
	for want, source := range map[string]func(string) (core.SourceUse, bool){
		"selects none of 10 hosts: ":                  nil,
		"selects none of 10 hosts (5 of source nb): ": given(time.Now()),
	} {
		_, err := Prepare(p, fleet(10), Options{Types: types, Source: source})
		if !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

// Another run of a launch is what preparing it would have made.
func TestAgainIsAsPrepared(t *testing.T) {
	p := parse(t, `
targets: host.labels.role == "web"
tenant: acme
strategy: {waves: [1, 100%]}
`+command)
	at := time.Date(2026, 3, 3, 1, 0, 0, 0, time.UTC)
	prepared := func(run string, now time.Time) *Launch {
		l, err := Prepare(p, fleet(20), Options{RunID: run, Now: now, Types: types, LaunchedBy: "schedule:" + run, Reason: "why " + run, Trace: run, Place: "here", Source: given(now)})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first := prepared("r-1", at)
	if !first.Repeatable() {
		t.Fatal("it is not repeatable")
	}
	again, err := first.Again("r-2", "schedule:r-2", "why r-2", "r-2", at.Add(time.Hour), given(at.Add(time.Hour)))
	if want := prepared("r-2", at.Add(time.Hour)); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("%+v, %v\nexpected %+v", again, err, want)
	}
	if first.Run.ID != "r-1" || first.Snapshot.Run != "r-1" {
		t.Errorf("the first one was changed: %+v", first.Snapshot)
	}
}
