package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
)

// A step that fails names its file and line, in its result and in the reason of the job: before a
// hint, and with the place of an include. Controls: a host that is not reached, and a step that did
// its work, name none; an error of an expression has its own place.
func TestFailuresNameTheirPlace(t *testing.T) {
	for name, c := range map[string]struct {
		steps  string
		at     string // of the last step that ran
		reason string
	}{
		"a step":               {"steps:\n  - {name: a, uses: file, with: {path: /a}}\n  - {name: b, uses: file, with: {path: /failed}}\n", "test.yaml:5", "no space (test.yaml:5)\nhint: free some"},
		"an item":              {"steps:\n  - {name: a, uses: file, foreach: '[\"/a\", \"/failed\"]', with: {path: \"${{ item }}\"}}\n", "test.yaml:4", "item 2 of 2: no space (test.yaml:4)\nhint: free some"},
		"a handler":            {"steps:\n  - {name: a, uses: file, notify: [h], with: {path: /changed}}\nhandlers:\n  - {name: h, uses: file, with: {path: /failed}}\n", "test.yaml:6", "no space (test.yaml:6)\nhint: free some"},
		"an included step":     {"steps:\n  - {name: i, include: steps/x.yaml}\n", "steps/x.yaml:2, included at test.yaml:4:24", "no space (steps/x.yaml:2, included at test.yaml:4:24)\nhint: free some"},
		"lost":                 {"steps:\n  - {name: a, uses: file, with: {path: /lost}}\n", "test.yaml:4", "gone (test.yaml:4)"},
		"an expression":        {"steps:\n  - {name: a, uses: file, with: {path: \"${{ int(host.name) }}\"}}\n", "test.yaml:4", "test.yaml:4:"},
		"unreachable: control": {"steps:\n  - {name: a, uses: file, with: {path: /unreachable}}\n", "", "no route"},
		"success: control":     {"steps:\n  - {name: a, uses: file, with: {path: /a}}\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.files = map[string]string{"steps/x.yaml": "steps:\n  - {name: inner, uses: file, with: {path: /failed}}\n"}
				l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
					return map[string]host.Outcome{
						"/failed": {Failed: true, Reason: "no space\nhint: free some"}, "/lost": {Lost: true, Failed: true, Reason: "gone"},
						"/unreachable": {Unreachable: true, Failed: true, Reason: "no route"}, "/changed": {Changed: true},
					}[fmt.Sprint(params(c)["path"])], nil
				}
				r := l.one(c.steps)
				ok := r.Reason == c.reason
				if name == "an expression" {
					ok = strings.Contains(r.Reason, c.reason) && strings.Count(r.Reason, "test.yaml") == 1
				}
				last := core.StepResult{}
				if len(r.Steps) > 0 {
					last = r.Steps[len(r.Steps)-1]
				}
				if last.At != c.at || !ok {
					t.Errorf("at %q: %q, expected at %q: %q", last.At, r.Reason, c.at, c.reason)
				}
			})
		})
	}
}
