package server

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

const (
	guide     = "../../docs/api.md"
	execGuide = "../../docs/api-exec.md"
	routePage = "../../docs/api-routes.md"
)

// The commands of docs/api.md and docs/api-exec.md work, in their order.
func TestCommandsOfTheGuideWork(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(guide)
	must(t, err)
	more, err := os.ReadFile(execGuide)
	must(t, err)
	text = append(text, more...)
	script := "set -euo pipefail\n"
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		script += block[1]
	}
	if strings.Count(script, "curl ") < 10 {
		t.Fatalf("the guide's commands are not found:\n%s", script)
	}
	testparts.Need(t, "curl", "curl")
	b := newBed(t)
	b.work()
	web := httptest.NewServer(b.server)
	defer web.Close()
	run := func(script string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "TURNUS="+web.URL, "TOKEN="+b.token(everyTenant, Admin))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(script); err != nil || !strings.Contains(out, `"run_done"`) {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := run(strings.Replace(script, "acme-patch", "nothing", 1)); err == nil { // negative control: a command that fails is noticed
		t.Fatal(out)
	}
}

// docs/api-routes.md lists every route with the role that it needs.
func TestGuideListsEveryRoute(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(routePage)
	must(t, err)
	b := newBed(t)
	found := 0
	for _, o := range b.walk() {
		needs := string(o.role)
		for _, p := range o.permits {
			needs += " and " + string(p)
		}
		if o.everyone {
			needs += ", all tenants"
		}
		line := fmt.Sprintf("| `%s %s` | %s | %s |", o.Method, o.Path, needs, o.Summary)
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("%s lacks the line\n%s", routePage, line)
		}
		found++
	}
	if listed := len(regexp.MustCompile("(?m)^\\| `[A-Z]+ /v1/").FindAllString(string(text), -1)); listed != found {
		t.Errorf("%s lists %d routes, and there are %d", routePage, listed, found)
	}
}
