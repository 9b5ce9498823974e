package definitions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/windows"
)

// Kind is the kind of thing that a change is about.
type Kind string

// The kinds, in the order in which changes are listed.
const (
	KindPlaybook  Kind = "playbook"
	KindSchedule  Kind = "schedule"
	KindWindowSet Kind = "window_set"
	KindFreeze    Kind = "freeze"
	KindHolidays  Kind = "holidays"
	KindSecret    Kind = "secret"
	KindChannel   Kind = "channel"
	KindRoutes    Kind = "routes"
	KindTenant    Kind = "tenant" // its entry in turnus.yaml
	KindHost      Kind = "host"
	KindFile      Kind = "file" // one that playbooks may send
)

var kindOrder = []Kind{KindPlaybook, KindSchedule, KindWindowSet, KindFreeze, KindHolidays, KindSecret, KindChannel, KindRoutes, KindTenant, KindHost, KindFile}

// Action is the effect of a change on a thing.
type Action string

// The actions.
const (
	Added   Action = "added"
	Removed Action = "removed"
	Changed Action = "changed"
)

// DiffDays is how far ahead occurrences of window sets are compared.
const DiffDays = 60

// Change is one thing that is not as it was.
type Change struct {
	Kind    Kind     `json:"kind"`
	Name    string   `json:"name"`
	Action  Action   `json:"action"`
	Details []string `json:"details"` // what matters of it, a sentence each

	// Of a playbook: hosts that targets: newly selects, and that it no longer does.
	HostsCome []string `json:"hosts_come,omitempty"`
	HostsGo   []string `json:"hosts_go,omitempty"`
	// Of a window set: approved windows of the next DiffDays that come and go, and the
	// approvals that hold no longer, by id, or by place and who gave them.
	WindowsCome int      `json:"windows_come,omitempty"`
	WindowsGo   int      `json:"windows_go,omitempty"`
	Voids       []string `json:"voids,omitempty"`
	// Of a schedule: when it triggers next, before and after.
	OldNext time.Time `json:"old_next,omitzero"`
	NewNext time.Time `json:"new_next,omitzero"`
}

func (c *Change) report(format string, args ...any) {
	c.Details = append(c.Details, clean(fmt.Sprintf(format, args...)))
}

// Changes lists the differences between two sets, in a stable order: by kind, then by name.
type Changes struct {
	Old     Revision  `json:"old"`
	New     Revision  `json:"new"`
	At      time.Time `json:"at"` // next fire times and windows are counted from here
	Changes []Change  `json:"changes"`
}

// Empty reports whether nothing differs. Another revision with the same content is no difference.
func (c Changes) Empty() bool { return len(c.Changes) == 0 }

// Diff returns the differences. Next fire times and windows are counted from the given time on. A
// nil set is one that holds nothing.
func Diff(before, after *Set, from time.Time) Changes { return DiffGiven(before, after, nil, from) }

// DiffGiven is Diff where a server has approvals of windows beside those of the sets.
func DiffGiven(before, after *Set, given []windows.Given, from time.Time) Changes {
	if before == nil {
		before = nothing()
	}
	if after == nil {
		after = nothing()
	}
	out := Changes{Old: before.Revision, New: after.Revision, At: from.UTC(), Changes: []Change{}}
	if before == after {
		return out
	}
	out.Changes = diffSent(out.Changes, before.sent, after.sent)
	if before.Hash() == after.Hash() {
		return out
	}
	out.Changes = append(out.Changes, diffPlaybooks(before, after)...)
	out.Changes = append(out.Changes, diffSchedules(before, after, from)...)
	out.Changes = append(out.Changes, diffWindowSets(before.Windows, after.Windows, given, from)...)
	out.Changes = append(out.Changes, diffNamed(KindFreeze, before.Windows.Freezes, after.Windows.Freezes, describeFreeze, nil)...)
	out.Changes = append(out.Changes, diffNamed(KindHolidays, before.Windows.Holidays, after.Windows.Holidays, describeHolidays, changedHolidays)...)
	out.Changes = append(out.Changes, diffSecrets(before, after)...)
	out.Changes = append(out.Changes, diffNotify(before.Notify, after.Notify)...)
	out.Changes = append(out.Changes, diffFourEyes(before, after)...)
	out.Changes = append(out.Changes, diffWeights(before, after)...)
	out.Changes = append(out.Changes, diffHosts(before, after)...)
	slices.SortStableFunc(out.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(slices.Index(kindOrder, a.Kind), slices.Index(kindOrder, b.Kind)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// diffFourEyes lists the tenants that begin or cease to demand another person's approval.
func diffFourEyes(before, after *Set) (out []Change) {
	come, gone := comeAndGo(before.fourEyes, after.fourEyes)
	for _, tenant := range come {
		out = append(out, Change{Kind: KindTenant, Name: tenant, Action: Changed, Details: []string{"four_eyes: its runs need another person's approval"}})
	}
	for _, tenant := range gone {
		out = append(out, Change{Kind: KindTenant, Name: tenant, Action: Changed, Details: []string{"four_eyes: its runs no longer need another person's approval"}})
	}
	return out
}

// diffWeights lists the tenants whose share of the workers changes.
func diffWeights(before, after *Set) (out []Change) {
	for _, tenant := range unionKeys(before.weights, after.weights) {
		if old, now := before.TenantWeight(tenant), after.TenantWeight(tenant); old != now {
			out = append(out, Change{Kind: KindTenant, Name: tenant, Action: Changed, Details: []string{fmt.Sprintf("tenant_weights: %d, before: %d", now, old)}})
		}
	}
	return out
}

// nothing is a set that holds nothing.
func nothing() *Set {
	return &Set{Inventory: &inventory.Inventory{}, Windows: &windows.Definitions{}}
}

// diffNamed compares things by name, through their JSON. describe returns what a new one is;
// changed adds more about one that changed than the keys whose values differ; both may be nil.
func diffNamed[T any](kind Kind, before, after map[string]*T, describe func(*T) string, changed func(c *Change, before, after *T)) []Change {
	var out []Change
	for _, name := range unionKeys(before, after) {
		old, now := before[name], after[name]
		c := Change{Kind: kind, Name: name, Details: []string{}}
		switch {
		case old == nil:
			c.Action = Added
			c.report("%s", describe(now))
		case now == nil:
			c.Action = Removed
			c.report("%s", describe(old))
		default:
			c.Action = Changed
			was, is := fieldsOf(old), fieldsOf(now)
			if reflect.DeepEqual(was, is) {
				continue
			}
			if changed != nil {
				changed(&c, old, now)
			} else {
				reportFields(&c, "", was, is, nil)
			}
		}
		out = append(out, c)
	}
	return out
}

func unionKeys[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// fieldsOf is a value as its JSON has it.
func fieldsOf(v any) map[string]any {
	out := map[string]any{}
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return map[string]any{"error": err.Error()} // plain values: it cannot fail
	}
	return out
}

// reportFields reports which keys differ, with their values. For the keys in secret, it reports
// only the names below them.
func reportFields(c *Change, prefix string, was, is map[string]any, secret []string) {
	for _, key := range unionKeys(was, is) {
		old, now := was[key], is[key]
		if reflect.DeepEqual(old, now) {
			continue
		}
		a, oldMap := old.(map[string]any)
		b, newMap := now.(map[string]any)
		name := prefix + snake(key)
		switch {
		case slices.Contains(secret, key):
			c.report("%s: %s", name, namesThatDiffer(a, b))
		case (oldMap || old == nil) && (newMap || now == nil) && len(a)+len(b) > 0:
			reportFields(c, name+".", a, b, secret)
		default:
			c.report("%s: %s -> %s", name, shown(key, old), shown(key, now))
		}
	}
}

func namesThatDiffer(a, b map[string]any) string {
	var names []string
	for _, key := range unionKeys(a, b) {
		if !reflect.DeepEqual(a[key], b[key]) {
			names = append(names, key)
		}
	}
	return some(names)
}

// snake is a Go field's name as YAML writes it: PerGroup, per_group.
func snake(key string) string {
	if key == "" || key[0] < 'A' || key[0] > 'Z' {
		return key
	}
	var b strings.Builder
	for i, r := range key {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// shown is the value of a key for people, cut when long.
func shown(key string, v any) string {
	const most = 120
	text := "none"
	number, isNumber := v.(float64)
	said, isText := v.(string)
	switch {
	case v == nil, isText && said == "", said == "0001-01-01T00:00:00Z":
	case isText:
		text = said
	case isNumber && slices.Contains([]string{"Duration", "From", "Time", "Cutoff", "connect_timeout"}, key):
		text = time.Duration(number).String() // the fields of a rule and of SSH; in YAML none of them is a number
	default:
		data, err := json.Marshal(v)
		if text = string(data); err != nil {
			text = fmt.Sprint(v)
		}
	}
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// comeAndGo returns the names that are only in after, and those that are only in before, each in
// its order.
func comeAndGo(before, after []string) (come, gone []string) {
	only := func(a, b []string) (out []string) {
		in := make(map[string]bool, len(b))
		for _, s := range b {
			in[s] = true
		}
		for _, s := range a {
			if !in[s] {
				out = append(out, s)
			}
		}
		return out
	}
	return only(after, before), only(before, after)
}
