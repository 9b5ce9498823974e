package runview

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

func TestSourceText(t *testing.T) {
	for _, c := range []struct {
		source api.RunSource
		want   string
	}{
		{api.RunSource{Source: "nb", Generation: "sha256:01", Hosts: 12, Age: core.InSeconds(4 * time.Minute)}, "nb: 12 hosts, generation sha256:01, 4m0s old at the launch"},
		{api.RunSource{Source: "nb", Generation: "sha256:01", Hosts: 1, Age: core.InSeconds(30 * time.Hour)}, "nb: 1 host, generation sha256:01, 30h0m0s old at the launch"},
		{api.RunSource{Source: "nb", Generation: "sha256:01"}, "nb: hosts of on or hosts('…'), generation sha256:01, 0s old at the launch"},
	} {
		if got := SourceText(c.source); got != c.want {
			t.Errorf("%q, expected %q", got, c.want)
		}
	}
}

// A run shows what its launcher asked for, a line each kind.
func TestWriteOptionsOfARun(t *testing.T) {
	var out strings.Builder
	con := console.New(strings.NewReader(""), &out, io.Discard)
	run := api.Run{ID: "r1", Options: &api.RunOptions{
		LaunchOptions: api.LaunchOptions{Limit: []string{"web", "!web1"}, Params: map[string]any{"release": "1.10\x1b[31m"}, SkipTags: []string{"slow"}}, Retry: "r0", From: api.FromFailedStep,
	}}
	WriteRun(con, run, false)
	want := "retry of     r0\nlimit        web, !web1\nparams       release=1.10"
	if got := out.String(); !strings.Contains(got, want) || !strings.Contains(got, "\nskipped tags slow\noptions      from the failed step\n") || strings.Contains(got, "\x1b") {
		t.Errorf("%q\nis without %q", got, want)
	}
	out.Reset()
	run.Options = nil // of an older server
	WriteRun(con, run, false)
	if got := out.String(); strings.Contains(got, "limit") || strings.Contains(got, "retry of") {
		t.Errorf("%q", got)
	}
}

// Outcomes of a dry run that no host has yet have no line, nor does a forecast of no host. One host
// left is the control.
func TestWriteRunWithoutOutcomes(t *testing.T) {
	for hosts, want := range map[int]bool{0: false, 1: true} {
		var out strings.Builder
		con := console.New(strings.NewReader(""), &out, io.Discard)
		run := api.Run{ID: "r1", Check: true}
		if want {
			run.Outcomes = map[core.Outcome]int{core.Changed: 1}
		}
		WriteRun(con, run, false)
		WriteForecast(con, api.Forecast{Hosts: hosts})
		if got := out.String(); strings.Contains(got, "outcomes") != want || strings.Contains(got, "dry run") != want || strings.Contains(got, "forecast") != want {
			t.Errorf("%d hosts: %q", hosts, got)
		}
	}
}
