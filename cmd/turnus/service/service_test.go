package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/service/scale"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/queue"
)

// Requests under way end with the service, and the cause shows that they may be sent again.
func TestRequestsEndWithTheService(t *testing.T) {
	t.Parallel()
	stop, end := context.WithCancel(t.Context())
	ctx := requests(stop)
	if ctx.Err() != nil {
		t.Error("requests end before the service")
	}
	end()
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, core.ErrUnavailable) || !strings.Contains(core.ErrorText(cause), "the server stops") {
		t.Errorf("cause %v", cause)
	}
}

// Workers that scaling drained are known until the order is forgotten, also those that are away.
func TestScalingKnowsWhatItDrained(t *testing.T) {
	t.Parallel()
	_, got, err := (&service{}).demand(queue.Load{}, []api.Worker{
		{Name: "away", State: api.WorkerAway, DrainedBy: "ann"}, {Name: "gone", State: api.WorkerAway, DrainedBy: scaling},
		{Name: "idle", State: api.WorkerDraining, DrainedBy: scaling}, {Name: "ready", State: api.WorkerReady},
	}, nil)
	want := []scale.Worker{{Name: "gone", Leaving: true, Asked: true}, {Name: "idle", Leaving: true, Asked: true}, {Name: "ready"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, expected %+v", got, err, want)
	}
}

// Which addresses are listened on, and what of the flags contradicts itself.
func TestServiceFlags(t *testing.T) {
	t.Parallel()
	tls := func(f *Flags) { f.tlsCert, f.tlsKey = "c", "k" }
	for _, c := range []struct {
		name   string
		change func(*Flags)
		want   string // of the error; "" is none
	}{
		{"loopback", func(*Flags) {}, ""},
		{"localhost", func(f *Flags) { f.listen = "localhost:1" }, ""},
		{"loopback of IPv6", func(f *Flags) { f.listen = "[::1]:1" }, ""},
		{"everywhere", func(f *Flags) { f.listen = "0.0.0.0:1" }, "in the clear"},
		{"everywhere, said otherwise", func(f *Flags) { f.listen = ":1" }, "in the clear"},
		{"a name", func(f *Flags) { f.listen = "example.net:1" }, "in the clear"},
		{"another address", func(f *Flags) { f.listen = "192.0.2.1:1" }, "in the clear"},
		{"the explicit word", func(f *Flags) { f.listen, f.insecure = "0.0.0.0:1", true }, ""},
		{"TLS", func(f *Flags) { f.listen = "0.0.0.0:1"; tls(f) }, ""},
		{"half of TLS", func(f *Flags) { f.tlsCert = "c" }, "go together"},
		{"no port", func(f *Flags) { f.listen = "127.0.0.1" }, "HOST:PORT"},
		{"a branch of nothing", func(f *Flags) { f.branch = "next" }, "also give it"},
		{"runs that are kept", func(f *Flags) { f.retention.runs = "1095d" }, ""},
		{"runs that are hardly kept", func(f *Flags) { f.retention.runs = "1h" }, "a day or more"},
		{"a size that is none", func(f *Flags) { f.retention.quota = "much" }, "a size of 1MiB or more"},
		{"rules that are not there", func(f *Flags) { f.retention.file = "/nowhere.yaml" }, "--retention"},
		{"a duration that is none", func(f *Flags) { f.retention.runs = "soon" }, "a day or more"},
	} {
		f := Flags{listen: "127.0.0.1:8470", branch: defaultBranch, repoEvery: defaultRepoEvery}
		c.change(&f)
		err := f.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, expected %q", c.name, err, c.want)
		}
		if c.name == "runs that are kept" && f.retention.base.Runs != 1095*24*time.Hour {
			t.Errorf("kept for %v", f.retention.base.Runs)
		}
	}
}
