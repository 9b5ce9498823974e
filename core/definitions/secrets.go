package definitions

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
)

// SecretRefs are the tree's references to secrets by name, for a run to take along.
func (s *Set) SecretRefs() map[string]secrets.Ref {
	out := make(map[string]secrets.Ref, len(s.Secrets))
	for _, e := range s.Secrets {
		out[e.Name] = e.Ref
	}
	return out
}

// loadSecrets reads references. No message has a snippet: what stands there may be a secret that
// somebody wrote down.
func (l *loader) loadSecrets() {
	first := map[string]secrets.Entry{}
	for _, d := range l.of(partSecrets) {
		file, err := secrets.ParseTree(d.Path, d.Data)
		if found, ok := errors.AsType[yamlread.Problems](err); ok {
			for _, p := range found {
				l.fail(playbooks.Diagnostic{File: p.File, Line: p.Line, Col: p.Col, Message: clean(p.Message), Expected: clean(p.Expected), Hint: clean(p.Hint)})
			}
			continue
		}
		for _, e := range file.Entries {
			if f, twice := first[e.Name]; twice {
				l.failSecret(e, "is there twice", "the first is in "+f.Place())
				continue
			}
			first[e.Name] = e
			l.checkSecret(file, e)
			l.set.Secrets = append(l.set.Secrets, e)
		}
	}
	slices.SortFunc(l.set.Secrets, func(a, b secrets.Entry) int { return strings.Compare(a.Name, b.Name) })
}

func secretProblem(e secrets.Entry, message, hint string) playbooks.Diagnostic {
	return playbooks.Diagnostic{File: e.In, Line: e.Line, Col: e.Col, Message: clean(fmt.Sprintf("secret %q %s", e.Name, message)), Hint: clean(hint)}
}

func (l *loader) failSecret(e secrets.Entry, message, hint string) {
	l.fail(secretProblem(e, message, hint))
}

// checkSecret checks what a reference names.
func (l *loader) checkSecret(file *secrets.File, e secrets.Entry) {
	if e.Hosts != "" {
		_, err := playbooks.CompileSelector(e.Hosts)
		if found, ok := errors.AsType[playbooks.Diagnostics](err); ok && len(found) > 0 {
			l.failSecret(e, "has a hosts: that is no expression: "+found[0].Message, found[0].Hint)
		}
	}
	all := core.Map(l.set.Playbooks, func(p *playbooks.Playbook) string { return p.Name })
	for _, name := range e.Playbooks {
		if !slices.Contains(all, name) {
			l.warn(secretProblem(e, fmt.Sprintf("is for playbook %q, which does not exist", yamlread.Clip(name)), yamlread.DidYouMean(name, all)))
		}
	}
	switch {
	case e.Age == "":
	case len(file.Recipients) == 0:
		l.warn(secretProblem(e, "is encrypted, but the file has no recipients", "list the public keys of its readers under recipients:, for turnus secrets rotate"))
	case !secrets.EncryptedTo(e.Age, file.Recipients):
		l.warn(secretProblem(e, "is not encrypted for the recipients of its file", "turnus secrets rotate encrypts all of them again"))
	}
}

// diffSecrets reports which names come, go and change; of an encrypted value only that it did.
func diffSecrets(before, after *Set) []Change {
	byName := func(s *Set) map[string]*secrets.Entry {
		out := make(map[string]*secrets.Entry, len(s.Secrets))
		for i := range s.Secrets {
			out[s.Secrets[i].Name] = &s.Secrets[i]
		}
		return out
	}
	was, is := byName(before), byName(after)
	var out []Change
	for _, name := range unionKeys(was, is) {
		old, now := was[name], is[name]
		c := Change{Kind: KindSecret, Name: name, Details: []string{}}
		switch {
		case old == nil:
			c.Action = Added
			c.report("%s", describeSecret(now))
		case now == nil:
			c.Action = Removed
			c.report("%s", describeSecret(old))
		default:
			c.Action = Changed
			a, b := fieldsOf(old.Ref), fieldsOf(now.Ref)
			if old.Age != now.Age && old.Age != "" && now.Age != "" {
				c.report("its encrypted value")
			}
			delete(a, "age")
			delete(b, "age")
			if old.Kind() != now.Kind() {
				c.report("from %s to %s", old.Kind(), now.Kind())
			}
			reportFields(&c, "", a, b, nil)
			if len(c.Details) == 0 {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

func describeSecret(e *secrets.Entry) string {
	text := "encrypted by age"
	if e.Vault != "" {
		text = "in Vault at " + e.Vault
	}
	for _, limit := range []struct {
		what  string
		names []string
	}{{"tenants", e.Tenants}, {"playbooks", e.Playbooks}} {
		if len(limit.names) > 0 {
			text += ", for " + limit.what + " " + some(limit.names)
		}
	}
	if e.Hosts != "" {
		text += ", on hosts where " + e.Hosts
	}
	return text
}
