package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

const siteFile = `
params: {port: {type: integer, required: true}}
steps:
  - {name: conf, uses: file, with: {path: "/port/${{ params.port }}"}, notify: [web], tags: [conf]}
  - {name: probe, uses: file, with: {path: "/was/${{ steps.conf.changed }}"}}
handlers: [{name: web, uses: file, with: {path: "/restart/${{ params.port }}"}}]
outputs: {port: "${{ params.port }}", changed: "${{ steps.conf.changed }}"}
`

// includes returns a playbook that includes siteFile twice, with more among the keys of the first.
func includes(more string) string {
	return `
steps:
  - {name: first, uses: file, with: {path: /first}}
  - {name: site, include: steps/site.yaml, with: {port: "${{ host.vars.port }}"}` + more + `}
  - {name: other, include: steps/site.yaml, with: {port: "${{ default(steps.site.outputs.port, 1) + 1 }}"}}
  - {name: last, uses: file, with: {path: "/last/${{ steps.site.outcome }}/${{ steps.other.outputs.port }}"}}
`
}

// paths lists what was called, by the params.
func (s *script) paths() string {
	var out []string
	for _, c := range s.seen() {
		out = append(out, fmt.Sprint(params(c)["path"]))
	}
	return strings.Join(out, " ")
}

func TestIncludes(t *testing.T) {
	for name, tc := range map[string]struct {
		more string
		ends map[string][]string
		tags []string
		want string
	}{
		"all run":       {want: "/first /port/8000000 /was/false /port/8000001 /was/false /last/unchanged/8000001"},
		"when is false": {more: `, when: host.name == "x"`, want: "/first /port/2 /was/false /last/skipped/2"},
		"when is true":  {more: `, when: steps.first.changed`, ends: map[string][]string{"first": {"changed"}}, want: "/first /port/8000000 /was/false /port/8000001 /was/false /last/unchanged/8000001"},
		"handlers of one of them": {
			ends: map[string][]string{"site/conf": {"changed"}},
			want: "/first /port/8000000 /was/true /port/8000001 /was/false /last/changed/8000001 /restart/8000000",
		},
		"tags":                    {tags: []string{"conf"}, want: "/port/8000000 /port/8000001"},
		"tags, when is not asked": {more: `, when: steps.first.outputs.x.y`, tags: []string{"none"}},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.files = map[string]string{"steps/site.yaml": siteFile}
				l.ends(tc.ends)
				r := l.one(includes(tc.more), func(o *launch.Options, _ *queue.Run) { o.Tags = tc.tags })
				if got := l.plugins.paths(); got != tc.want {
					t.Errorf("called %s\nexpected %s\n%+v", got, tc.want, r)
				}
				if len(r.Steps) < 6 || !r.Outcome.Good() {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// A host of which an include cannot be given its params fails at its first step, with the place.
func TestIncludeWithoutItsValue(t *testing.T) {
	inLab(t, func(l *lab) {
		l.files = map[string]string{"steps/site.yaml": siteFile}
		r := l.one(strings.Replace(includes(""), "host.vars.port", "host.name", 1))
		if r.Outcome != core.Failed || r.Step != "site/conf" || !strings.Contains(r.Reason, `test.yaml:6:57: on host h00000: param "port"`) {
			t.Errorf("%+v", r)
		}
	})
}

// A handler of an include that an earlier run left waits at a flush before the include: the values
// of its params may read results that the job does not have yet.
func TestFlushBeforeAnInclude(t *testing.T) {
	inLab(t, func(l *lab) {
		l.files = map[string]string{"steps/site.yaml": siteFile}
		l.pending = map[string]core.Handlers{"h00000": {From: []string{"before"}, Pending: []string{"site/web", "other/web"}}}
		flush := "  - {flush: handlers}\n"
		r := l.one(strings.NewReplacer("path: /first}", "path: /first}, notify: [own]", "  - {name: site", flush+"  - {name: site", "  - {name: last", flush+"  - {name: last").Replace(includes("")) + "handlers: [{name: own, uses: file, with: {path: /own}}]\n")
		want := "/first /port/8000000 /was/false /port/8000001 /was/false /restart/8000000 /restart/8000001 /last/unchanged/8000001"
		if got := l.plugins.paths(); got != want {
			t.Errorf("called %s\nexpected %s\n%+v", got, want, r)
		}
	})
}

// A worker dies at each call; the next asks no when again, and finds the same params and outputs.
func TestIncludesSurviveTheirWorker(t *testing.T) {
	for call := 2; call <= 7; call++ {
		t.Run(fmt.Sprint("call ", call), func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.files = map[string]string{"steps/site.yaml": siteFile}
				first := l.dieAt(call, map[string]string{"site/conf": "changed"})
				res := l.dies(includes(`, when: run.attempt == 1`), first, sound)
				paths := strings.Split(l.plugins.paths(), " ")
				want := strings.Split("/first /port/8000000 /was/true /port/8000001 /was/false /last/changed/8000001 /restart/8000000", " ")
				if !res.Outcome.Good() || !slices.Equal(slices.Compact(paths), want) {
					t.Errorf("%s: called %v, expected %v", res.Outcome, paths, want)
				}
			})
		})
	}
}

// dieAt makes the script end its calls as named, by step, and a first node die in that call,
// before that call has an effect. Calls save a checkpoint first, as a job type that must not be
// repeated from its beginning does.
func (l *lab) dieAt(call int, by map[string]string) (die chan struct{}) {
	die, n := make(chan struct{}), 0
	l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
		if err := c.Checkpoint(ctx, at(1)); err != nil {
			return host.Outcome{Failed: true, Reason: err.Error()}, nil //nolint:nilerr // the outcome says it
		}
		if n++; n == call {
			return hang(ctx, die)
		}
		switch by[c.Step] {
		case "changed":
			if c.BeforeChange != nil {
				if err := c.BeforeChange(ctx); err != nil {
					return host.Outcome{Failed: true, Reason: err.Error()}, nil //nolint:nilerr // the outcome says it
				}
			}
			return host.Outcome{Changed: true}, nil
		case "failed":
			return host.Outcome{Failed: true, Reason: "broken"}, nil
		}
		return host.Outcome{}, nil
	}
	return die
}
