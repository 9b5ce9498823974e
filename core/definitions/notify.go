package definitions

import (
	"fmt"
	"strings"

	"github.com/turnus/turnus/core/notify/policy"
	"github.com/turnus/turnus/core/spell"
	"github.com/turnus/turnus/playbooks"
)

// loadNotify reads channels and routes.
func (l *loader) loadNotify() {
	var docs []policy.Document
	for _, d := range l.of(partNotify) {
		docs = append(docs, policy.Document{File: d.Path, Data: d.Data})
	}
	found, problems := policy.Parse(docs...)
	l.set.Notify = found
	for _, p := range problems {
		l.fail(at(p.File, l.data(p.File), p.Line, p.Col, p.Message, p.Hint))
	}
}

// checkNotify finds channels that a playbook names and its tenant does not have.
func (l *loader) checkNotify(p *playbooks.Playbook) {
	if l.set.Notify == nil {
		return
	}
	for i, r := range p.Notify {
		for j, name := range r.To {
			if l.set.Notify.Knows(p.Tenant, name) {
				continue
			}
			known := l.set.Notify.Visible(p.Tenant)
			line, col := placeOf(l.data(p.File), "notify", i, "to", j)
			hint := "expected one of " + strings.Join(known, ", ") + "; notify.yaml defines channels"
			if near := spell.DidYouMean(name, known); near != "" {
				hint = near + " " + hint
			}
			l.fail(at(p.File, l.data(p.File), line, col, fmt.Sprintf("playbook %s names the channel %q, which %s does not have", p.Name, cut(name), whose(p.Tenant)), hint))
		}
	}
}

func whose(tenant string) string {
	if tenant == "" {
		return "the service"
	}
	return "tenant " + tenant
}
