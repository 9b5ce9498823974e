package playbooks_test

import (
	"slices"
	"testing"

	"github.com/turnus/turnus/playbooks"
)

// The steps and handlers of a playbook, as they are numbered, notified and flushed.
func TestHandlers(t *testing.T) {
	t.Parallel()
	p, err := playbooks.Parse("a.yaml", []byte(`playbook: site
targets: true
notify: [{to: [noc], kinds: [run_failed]}]
steps:
  - {name: conf, uses: file, with: {path: /etc/x, content: a}, notify: [restart, reload, restart]}
  - {flush: handlers}
  - {name: probe, uses: command, with: {run: "true"}}
  - {flush: handlers}
handlers:
  - {name: reload, uses: command, with: {run: "true"}, needs: 2m, when: steps.conf.changed, retry: {attempts: 3}, notify: [restart]}
  - {name: restart, uses: command, with: {run: "true"}, on_failure: run}
`), options(t))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range p.Calls() {
		names = append(names, c.Name)
	}
	if want := []string{"conf", "probe", "reload", "restart"}; !slices.Equal(names, want) {
		t.Errorf("calls %v, want %v", names, want)
	}
	if got := p.Notifiable(); !slices.Equal(got, []string{"reload", "restart"}) {
		t.Errorf("notifiable %v", got)
	}
	if got := p.Steps[0].Notify; !slices.Equal(got, []string{"restart", "reload"}) {
		t.Errorf("notify %v: each once", got)
	}
	if p.Steps[0].Flush || !p.Steps[1].Flush {
		t.Errorf("flush before %v, %v: expected before the second step only", p.Steps[0].Flush, p.Steps[1].Flush)
	}
	if p.Handlers[0].OnFailure || !p.Handlers[1].OnFailure || len(p.Notify) != 1 {
		t.Errorf("on_failure %v, %v; channels %v", p.Handlers[0].OnFailure, p.Handlers[1].OnFailure, p.Notify)
	}
}
