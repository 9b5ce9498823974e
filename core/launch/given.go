package launch

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// Bounds of what is kept and shown of a request, in bytes.
const (
	maxLimit = 4 << 10  // of Asked.Limit
	maxValue = 1000     // of one value as JSON
	maxGiven = 16 << 10 // of a Given
)

// newAsked returns what a snapshot keeps of a request; nil for nothing.
func newAsked(a snapshot.Asked, noWindow int) *snapshot.Asked {
	size, keep := 0, 0
	for _, pattern := range a.Limit {
		if size += len(pattern) + len(`"",`); size > maxLimit {
			break
		}
		keep++
	}
	a.Cut = keep < len(a.Limit)
	a.All = a.All && len(a.Limit) > 0
	a.Limit, a.NoWindow = slices.Clone(a.Limit[:keep]), noWindow
	if len(a.Limit) == 0 && !a.Cut && a.Select == "" && a.Retry == "" && !a.Pinned && a.NoWindow == 0 {
		return nil
	}
	return &a
}

// Given is the request of a launch as people may see it: bounded, and without values whose names
// mark a secret. The value of a param of type secret is the name of one.
type Given struct {
	snapshot.Asked
	Params, Vars   map[string]any
	Tags, SkipTags []string
	MaxInFlight    int // 0: that of the playbook
	// LeftOut names what is not in it, or not all of it: limit, select, tags, skip_tags, params.NAME
	// and vars.NAME, or params and vars once there is no room for names.
	LeftOut []string
	room    int // bytes that may still be shown
}

// Given returns the request of the launch.
func (l *Launch) Given() Given {
	g := Given{room: maxGiven, MaxInFlight: l.OwnMaxInFlight()}
	if l.Snapshot.Asked != nil {
		g.Asked = *l.Snapshot.Asked
	}
	if g.Limit = g.some("limit", g.Limit); g.Cut && !slices.Contains(g.LeftOut, "limit") {
		g.LeftOut = append(g.LeftOut, "limit")
	}
	if g.Select != "" && !g.fits(g.Select) {
		g.Select, g.LeftOut = "", append(g.LeftOut, "select")
	}
	g.Tags, g.SkipTags = g.some("tags", l.Snapshot.Tags), g.some("skip_tags", l.Snapshot.SkipTags)
	if _, isCommand := l.Snapshot.CommandLine(); isCommand {
		return g
	}
	g.Params, g.Vars = map[string]any{}, map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(l.Snapshot.Vars)) {
		value, into, where, isName := l.Snapshot.Vars[name], g.Vars, "vars.", false
		if i := slices.IndexFunc(l.Playbook.Params, func(p playbooks.Param) bool { return p.Name == name }); i >= 0 {
			param := &l.Playbook.Params[i]
			value, into, where, isName = param.Value(), g.Params, "params.", param.Type == playbooks.SecretParam
		}
		switch hidden := !isName && MarksSecret(name, value); {
		case !hidden && g.fits(value):
			into[name] = value
		case g.fits(where + name):
			g.LeftOut = append(g.LeftOut, where+name)
		default: // a name that leaves room for no other
			if all := strings.TrimSuffix(where, "."); !slices.Contains(g.LeftOut, all) {
				g.LeftOut = append(g.LeftOut, all)
			}
		}
	}
	return g
}

// fits takes the room of a value, if it is short and there is room.
func (g *Given) fits(v any) bool {
	text, err := json.Marshal(v)
	if err != nil || len(text) > min(maxValue, g.room) {
		return false
	}
	g.room -= len(text)
	return true
}

// some returns the texts of a list that fit.
func (g *Given) some(name string, all []string) (kept []string) {
	for _, one := range all {
		if g.fits(one) {
			kept = append(kept, one)
		}
	}
	if len(kept) < len(all) {
		g.LeftOut = append(g.LeftOut, name)
	}
	return kept
}

// moreSecrets are endings of names that are only withheld: a public_key may be among them.
var moreSecrets = []string{"_key", "_keys", "_passwords", "_tokens", "_secrets", "_credential", "_credentials", "_secret_id"}

// snakeCase writes apiToken and api-token as api_token.
func snakeCase(name string) string {
	var out strings.Builder
	for i, c := range name {
		if i > 0 && 'A' <= c && c <= 'Z' && name[i-1] >= 'a' {
			out.WriteByte('_')
		}
		out.WriteRune(c)
	}
	return strings.ToLower(strings.ReplaceAll(out.String(), "-", "_"))
}

// MarksSecret reports whether a name, or one within the value, is that of a secret.
func MarksSecret(name string, value any) bool {
	if snake := snakeCase(name); inventory.SecretName(snake) || slices.ContainsFunc(moreSecrets, func(end string) bool { return strings.HasSuffix("_"+snake, end) }) {
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if MarksSecret(key, inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return MarksSecret("", inner) })
	}
	return false
}

// OwnMaxInFlight returns the limit of concurrent hosts that the launcher set in the place of the
// playbook's; 0: none.
func (l *Launch) OwnMaxInFlight() int {
	if l.Run.MaxInFlight == l.Playbook.Strategy.MaxInFlight.Of(len(l.Hosts)) {
		return 0
	}
	return l.Run.MaxInFlight
}
