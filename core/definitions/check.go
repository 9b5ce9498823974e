package definitions

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
)

// maxAsked bounds how often targets: are evaluated: hosts times playbooks. Its time also has a
// bound.
const maxAsked = 5_000_000

// maxNamed is how many hosts a message names.
const maxNamed = 8

// check checks the references of the parts to each other.
func (l *loader) check() error {
	l.checkHosts()
	for _, check := range l.later {
		check()
	}
	for _, p := range l.set.Playbooks {
		l.checkWindows(p)
		l.checkNotify(p)
	}
	l.set.apart, l.warnings = l.warnings, nil
	if len(l.set.Inventory.Hosts) == 0 && len(l.set.Playbooks) > 0 {
		l.warnNoHosts()
		return nil
	}
	return l.selectHosts()
}

// warnNoHosts reports once that targets: cannot be checked, because the tree has no hosts.
func (l *loader) warnNoHosts() {
	data := l.data(layoutFile)
	line, col := placeOf(data, partInventory)
	message, hint := "the project has no hosts of its own, and what targets: selects of other hosts is known to a server with sources only",
		"turnus inventory ls --context NAME shows its sources and their hosts, turnus plan PLAYBOOK --context NAME what a playbook selects"
	var names []string
	for _, s := range l.sources {
		if s.Name != "" {
			names = append(names, s.Name)
		}
	}
	if len(names) > 0 {
		message = "the project has no hosts of its own, and no generation of hosts is here yet of source " + some(names)
		hint = "turnus inventory ls shows how fetching goes; targets: is checked when hosts are here"
	}
	l.warn(at(layoutFile, data, line, col, message, hint))
}

// checkHosts finds window sets that hosts have and nobody defines.
func (l *loader) checkHosts() {
	missing := map[string][]string{}
	for _, h := range l.set.Inventory.Hosts {
		if h.WindowSet != "" && l.set.Windows.Sets[h.WindowSet] == nil {
			missing[h.WindowSet] = append(missing[h.WindowSet], h.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		file, line, col := l.placeOfSet(name, missing[name][0])
		l.fail(at(file, l.data(file), line, col, fmt.Sprintf("window set %q is not defined, but %s", yamlread.Clip(name), have(missing[name])), l.setHint(name)))
	}
}

func have(hosts []string) string {
	if len(hosts) == 1 {
		return "host " + hosts[0] + " has it"
	}
	return fmt.Sprintf("%d hosts have it: %s", len(hosts), some(hosts))
}

// some names the first of many.
func some(names []string) string { return core.Few(names, maxNamed) }

func (l *loader) setHint(name string) string {
	sets := slices.Sorted(maps.Keys(l.set.Windows.Sets))
	switch near := yamlread.DidYouMean(name, sets); {
	case len(sets) == 0:
		return "the tree defines no window set: they are in windows.yaml or windows/"
	case near != "":
		return near
	}
	return "there are: " + some(sets)
}

// placeOfSet is where an inventory file gives a window set, or else the host.
func (l *loader) placeOfSet(name, host string) (file string, line, col int) {
	said := regexp.MustCompile(`\bwindow_set["']?\s*[:=]\s*["']?(` + regexp.QuoteMeta(name) + `)(["'\s,}#]|$)`)
	for _, d := range l.set.docs {
		if p := d.Path; p == layoutFile || isPart(l.set.layout, partPlaybooks, p) || isPart(l.set.layout, partWindows, p) || isPart(l.set.layout, partSecrets, p) {
			continue
		}
		for i, text := range bytes.Split(d.Data, []byte("\n")) {
			if m := said.FindSubmatchIndex(text); m != nil && !bytes.HasPrefix(bytes.TrimSpace(text), []byte("#")) {
				return d.Path, i + 1, utf8.RuneCount(text[:m[2]]) + 1
			}
		}
	}
	file, line, col, _ = l.set.Inventory.Place(host)
	return path.Clean(file), line, col
}

func isPart(lay layout, part, p string) bool {
	return slices.ContainsFunc(lay[part], func(root string) bool { return holds(part, root, p) })
}

// checkWindows finds window sets that a playbook names and nobody defines.
func (l *loader) checkWindows(p *playbooks.Playbook) {
	undefined := func(name string) bool {
		return name != "" && name != admission.Service && name != admission.Own && name != admission.None && l.set.Windows.Sets[name] == nil
	}
	message := func(name string) string { return fmt.Sprintf("window set %q is not defined", yamlread.Clip(name)) }
	if undefined(p.Window) {
		line, col := placeOf(p.Source, "window")
		l.fail(at(p.File, p.Source, line, col, message(p.Window), l.setHint(p.Window)))
	}
	for i, s := range p.Calls() {
		if undefined(s.Window) {
			l.fail(p.DiagnoseKey(i, "window", message(s.Window), l.setHint(s.Window)))
		}
	}
}

// selectHosts evaluates targets: of all playbooks for all hosts.
func (l *loader) selectHosts() error {
	l.set.selected = map[string][]string{}
	asked, until := 0, time.Now().Add(l.within)
	for _, p := range l.set.Playbooks {
		if asked += len(l.set.Inventory.Hosts); asked > maxAsked {
			l.fail(playbooks.Diagnostic{File: p.File, Message: fmt.Sprintf("%d playbooks times %d hosts are too many", len(l.set.Playbooks), len(l.set.Inventory.Hosts)),
				Hint: fmt.Sprintf("the product may be %d: split the repository", maxAsked)})
			return nil
		}
		if late, err := l.selectFor(p, until); late || err != nil {
			return err
		}
	}
	return nil
}

// selectFor does so for one playbook; late reports that until came before a host's turn: then it
// has added the problem.
func (l *loader) selectFor(p *playbooks.Playbook, until time.Time) (late bool, err error) {
	run := map[string]any{"id": "", "playbook": p.Name, "check": false, "attempt": 1}
	var names, without, others []string
	service, unknown := usesService(p), false
	for i, h := range l.set.Inventory.Hosts {
		if err := l.ctx.Err(); err != nil {
			return false, err
		}
		if !time.Now().Before(until) {
			line, col := placeOf(p.Source, "targets")
			l.fail(at(p.File, p.Source, line, col, fmt.Sprintf("targets: of all playbooks take longer than %v; these were evaluated for %d of %d hosts by then", l.within, i, len(l.set.Inventory.Hosts)),
				"loop less in it: read what is known of the host"))
			return true, nil
		}
		ok, err := p.Targets.Bool(playbooks.Env{Host: h, Vars: p.Vars, Params: p.Values(), Run: run})
		if errors.Is(err, playbooks.ErrNoFacts) { // known at a launch, by what is on record then
			unknown = true
			continue
		}
		if err != nil {
			l.targetsFail(p, h, err)
			return false, nil // it would be much the same for the next host
		}
		if !ok {
			continue
		}
		names = append(names, h.Name)
		if service && h.WindowSet == "" {
			without = append(without, h.Name)
		}
		if p.Tenant != "" && h.Customer != "" && h.Customer != p.Tenant {
			others = append(others, h.Name)
		}
	}
	l.set.selected[p.Name] = names
	l.checkLimit(p, names, unknown)
	if len(names) == 0 && !unknown {
		line, col := placeOf(p.Source, "targets")
		message, hint := fmt.Sprintf("targets: selects none of %d hosts", len(l.set.Inventory.Hosts)), ""
		if len(l.given) > 0 {
			message, hint = message+": "+strings.Join(l.given, ", "), "turnus hosts ls shows the hosts with their groups, turnus inventory diff SOURCE --context NAME those that are left out"
		}
		l.warn(at(p.File, p.Source, line, col, message, hint))
	}
	if len(others) > 0 {
		line, col := placeOf(p.Source, "tenant")
		l.warn(at(p.File, p.Source, line, col, fmt.Sprintf("%d of %d hosts are of other customers than %s, whose tokens see what runs on them, and its output: %s", len(others), len(names), p.Tenant, some(others)),
			fmt.Sprintf("add host.customer == %q to targets:, or take tenant: away", p.Tenant)))
	}
	if len(without) > 0 {
		line, col := placeOf(p.Source, "window")
		l.warn(at(p.File, p.Source, line, col, fmt.Sprintf("%d of %d hosts have no window set, so nothing disruptive will ever run on them: %s", len(without), len(names), some(without)),
			"give them a window_set in the inventory (turnus_window_set in Ansible's formats)"))
	}
	return false, nil
}

// checkLimit rejects a limit of a schedule with which no launch would have a host: one that the
// inventory does not know, or that none of the hosts of targets: is in. With hosts of sources, and
// with facts, only a launch can find the latter.
func (l *loader) checkLimit(p *playbooks.Playbook, selected []string, unknown bool) {
	if p.Schedule == nil || len(p.Schedule.Limit) == 0 {
		return
	}
	report := l.fail
	if len(l.sources) > 0 {
		report = l.warn
	}
	line, col := placeOf(p.Source, "schedule", "limit")
	limited, err := l.set.Inventory.Limit(strings.Join(p.Schedule.Limit, ","))
	if err != nil {
		message, hint, _ := strings.Cut(core.ErrorText(err), "\n")
		hint = strings.TrimPrefix(strings.TrimSpace(hint), "hint: ")
		report(at(p.File, p.Source, line, col, "schedule: "+message, cmp.Or(hint, "turnus hosts ls shows the hosts with their groups")))
		return
	}
	in := make(map[string]bool, len(selected))
	for _, name := range selected {
		in[name] = true
	}
	if unknown || len(in) == 0 || slices.ContainsFunc(limited, func(h core.Host) bool { return in[h.Name] }) {
		return // no host of targets: has a warning already
	}
	report(at(p.File, p.Source, line, col, fmt.Sprintf("schedule: limit selects none of the %d hosts that targets: selects", len(selected)),
		"turnus plan PLAYBOOK --limit PATTERN shows what a limit selects"))
}

func (l *loader) targetsFail(p *playbooks.Playbook, h core.Host, err error) {
	d := playbooks.Diagnostic{File: p.File, Message: clean(err.Error())}
	if found, ok := err.(playbooks.Diagnostics); ok && len(found) > 0 { //nolint:errorlint // it is the value itself, as its function says
		d = found[0]
	}
	d.Message = "host " + h.Name + ": " + d.Message
	l.fail(d)
}

// usesService reports whether a step runs in the window of its host.
func usesService(p *playbooks.Playbook) bool {
	return slices.ContainsFunc(p.Calls(), func(s playbooks.Step) bool {
		return s.Window == admission.Service || s.Window == "" && p.Window == admission.Service
	})
}
