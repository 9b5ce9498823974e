package runview

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// said is a host on which the command ended with an exit code, and wrote a text.
func said(host string, exit int, text string) api.Result {
	r := api.Result{Host: host, Outcome: core.Changed, Steps: []api.StepResult{{Name: "exec", Uses: "command", Stdout: text, ExitCode: &exit}}}
	if exit != 0 {
		r.Outcome, r.Step, r.Reason = core.Failed, "exec", fmt.Sprintf("exit status %d", exit)
	}
	return r
}

func unreachable(host, why string) api.Result {
	return api.Result{Host: host, Outcome: core.Unreachable, Reason: why}
}

func many(n int, one func(host string, i int) api.Result) (all []api.Result) {
	for i := 1; i <= n; i++ {
		all = append(all, one(fmt.Sprintf("web%d", i), i))
	}
	return all
}

func TestWriteGroups(t *testing.T) {
	for _, c := range []struct {
		name    string
		results []api.Result
		want    string // without the counts
		logs    bool   // it shows how to see the rest
	}{
		{"one group", many(20, func(h string, _ int) api.Result { return said(h, 0, "up\n") }), "web[1:20:1] (20 hosts): up\n", false},
		{"the odd one first", many(20, func(h string, i int) api.Result {
			if i == 3 {
				return said(h, 1, "no\n")
			}
			return said(h, 0, "up\n")
		}), "web3 (1 host) exit 1: no\nweb1,web2,web[4:20:1] (19 hosts): up\n", false},
		{"failures before a smaller group", append(many(3, func(h string, _ int) api.Result { return said(h, 2, "no") }), said("db1", 0, "a"), said("db2", 0, "b"), said("db3", 0, "b")),
			"web[1:3:1] (3 hosts) exit 2: no\ndb1 (1 host): a\ndb2,db3 (2 hosts): b\n", false},
		{"the same text, another exit code", []api.Result{said("a", 1, "x"), said("b", 2, "x"), said("c", 0, "x")}, "a (1 host) exit 1: x\nb (1 host) exit 2: x\nc (1 host): x\n", false},
		{"several lines", []api.Result{said("a", 0, "x\ny\n"), said("b", 0, "")}, "a (1 host):\n  x\n  y\nb (1 host): no output\n", false},
		{"no output of a failure", []api.Result{said("a", 1, "")}, "a (1 host) exit 1\n", false},
		{"300 equal failures are one line", many(300, func(h string, i int) api.Result {
			return unreachable(h, fmt.Sprintf("%s: connect (127.0.0.1:%d): refused", h, 40000+i))
		}), "web[1:300:1] (300 hosts) unreachable: web1: connect (127.0.0.1:40001): refused\n", false},
		{"two keys", []api.Result{unreachable("a", "a: unknown host key SHA256:aaa"), unreachable("b", "b: unknown host key SHA256:bbb")},
			"a,b (2 hosts) unreachable:\n  each host showed another key; this is of a:\n  a: unknown host key SHA256:aaa\n", false},
		{"what a host writes steers no terminal", []api.Result{said("a", 0, "\x1b[2Jx")}, "a (1 host): ·[2Jx\n", false},
		{"a long text is cut", []api.Result{said("a", 0, strings.Repeat("x\n", maxShownLines+2))}, "a (1 host):\n" + strings.Repeat("  x\n", maxShownLines) + "  … 2 more lines\n", true},
		{"many groups are cut", many(maxResultGroups+2, func(h string, i int) api.Result { return said(h, 0, fmt.Sprint(i)) }), "", true},
	} {
		var out, messages strings.Builder
		r := Report{Run: "r1", Playbook: "exec", Results: c.results, Total: len(c.results)}
		WriteGroups(console.New(strings.NewReader(""), io.Discard, &messages), &out, r, LocalLogs)
		got, _, counted := strings.Cut(out.String(), "exec: ")
		if !counted || c.want != "" && got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, out.String(), c.want)
		}
		if hint := strings.Contains(messages.String(), "turnus logs r1 --local"); hint != c.logs {
			t.Errorf("%s: it shows where the rest is: %v, expected %v", c.name, hint, c.logs)
		}
	}
}
