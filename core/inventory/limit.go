package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

const (
	maxListed = 8    // how often @FILE may name further files
	maxPart   = 4096 // bytes of one part of a limit
	guess     = 10   // how much dearer it is to guess at a name than to compare it
)

// limiting is one Limit under way. Its comparisons are bounded: a launcher of a playbook chooses
// the hosts, and must not keep the service busy with it.
type limiting struct {
	*Inventory
	spent int
}

// spend counts hosts that are gone through, dearer for a longer pattern.
func (inv *limiting) spend(hosts int, part string) error {
	if inv.spent += hosts * (1 + len(part)/100); inv.spent > maxCompared {
		return fmt.Errorf("%w: too many patterns for %d hosts", core.ErrInvalid, len(inv.Hosts))
	}
	return nil
}

// Limit selects hosts as ansible --limit does: names, groups, globs, ranges, ~regex,
// joined by "," or ":", with ! to take out and & to intersect, @FILE for a list.
// Customers and sites count as groups. GROUP[0], GROUP[-1] and GROUP[0:9] select
// by place. The result is in the order of Hosts. A part that matches nothing is an error that
// suggests near names. A pattern or list without a part is also an error: names that were lost on
// the way do not mean all hosts.
func (inv *Inventory) Limit(pattern string) ([]core.Host, error) {
	parts, err := limitParts(pattern, 0)
	if err == nil && len(parts) == 0 {
		err = fmt.Errorf("limit %q: %w: it names no host: all is every host", shorten(pattern), core.ErrInvalid)
	}
	if err != nil {
		return nil, err
	}
	// As with Ansible: first what is added, then what is intersected, then what is taken out.
	slices.SortStableFunc(parts, func(a, b string) int { return partRank(a) - partRank(b) })
	all := &limiting{Inventory: inv}
	in := make([]bool, len(inv.Hosts))
	if partRank(parts[0]) > 0 {
		for i := range in {
			in[i] = true
		}
	}
	for _, part := range parts {
		hits, err := all.match(strings.TrimLeft(part, "!&"), true)
		if err == nil {
			err = all.spend(len(hits), "")
		}
		if err == nil && part[0] == '&' {
			err = all.spend(len(in), "")
		}
		if err != nil {
			return nil, fmt.Errorf("limit %q: %w", shorten(pattern), err)
		}
		switch part[0] {
		case '!':
			for _, i := range hits {
				in[i] = false
			}
		case '&':
			keep := make([]bool, len(in))
			for _, i := range hits {
				keep[i] = in[i]
			}
			in = keep
		default:
			for _, i := range hits {
				in[i] = true
			}
		}
	}
	var out []core.Host
	for i, yes := range in {
		if yes {
			out = append(out, inv.Hosts[i])
		}
	}
	return out, nil
}

func partRank(part string) int {
	switch part[0] {
	case '&':
		return 1
	case '!':
		return 2
	}
	return 0
}

// limitParts splits at "," or ":", outside of brackets, and reads @FILE.
func limitParts(pattern string, depth int) ([]string, error) {
	var raw []string
	if strings.Contains(pattern, ",") {
		raw = splitOutside(pattern, ',')
	} else if looksLikeIPv6(pattern) {
		raw = []string{pattern}
	} else {
		raw = splitOutside(pattern, ':')
	}
	var out []string
	for _, part := range raw {
		if part = strings.TrimSpace(part); strings.Trim(part, "!&") == "" {
			if part != "" {
				return nil, fmt.Errorf("limit %q: %w: %q without a name", pattern, core.ErrInvalid, part)
			}
			continue
		}
		if part[0] != '@' {
			out = append(out, part)
			continue
		}
		more, err := limitFile(part[1:], depth)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func limitFile(path string, depth int) ([]string, error) {
	if depth >= maxListed {
		return nil, fmt.Errorf("limit @%s: %w: lists that name each other", path, core.ErrInvalid)
	}
	data, err := newBuilder(disk{}).read(path)
	if err != nil {
		if os.IsNotExist(err) {
			return nil, fmt.Errorf("limit @%s: %w: no such file", path, core.ErrInvalid)
		}
		return nil, fmt.Errorf("limit @%s: %w", path, err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		more, err := limitParts(line, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("limit @%s: %w: it names no host: all is every host", path, core.ErrInvalid)
	}
	return out, nil
}

func splitOutside(s string, sep byte) []string {
	var out []string
	depth, start := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '[':
			depth++
		case ']':
			depth--
		case sep:
			if depth == 0 {
				out = append(out, s[start:i])
				start = i + 1
			}
		}
	}
	return append(out, s[start:])
}

func looksLikeIPv6(s string) bool {
	return strings.Count(s, ":") > 1 && strings.Trim(s, "0123456789abcdefABCDEF:.") == ""
}

// subscript is GROUP[n], GROUP[n:m] or GROUP[n-m].
var subscript = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(.+)\[(?:(-?\d+)|(\d+)[:-](\d*))\]$`) })

// match returns the places of the hosts that one part selects. A part before a subscript has no
// subscript itself.
func (inv *limiting) match(part string, subscripts bool) ([]int, error) {
	if len(part) > maxPart {
		return nil, fmt.Errorf("%w: a pattern of %d bytes, %d at most", core.ErrInvalid, len(part), maxPart)
	}
	if re, ok := strings.CutPrefix(part, "~"); ok {
		return inv.matchRegex(re)
	}
	if i, ok := inv.index[part]; ok {
		return append([]int{i}, inv.members[part]...), nil
	}
	if hits, ok := inv.members[part]; ok {
		return hits, nil
	}
	if part == "*" {
		return inv.members["all"], nil
	}
	if m := subscript().FindStringSubmatch(part); m != nil && subscripts {
		hits, err := inv.match(m[1], false)
		if err == nil {
			if hits, err = cut(hits, m); err != nil {
				return nil, err
			}
			return hits, inv.ambiguous(part, m, hits)
		}
		if !hasRange(part) {
			return nil, err
		}
	}
	if hasRange(part) {
		return inv.matchRange(part)
	}
	var hits []int
	if strings.ContainsAny(part, "*?[") {
		var err error
		if hits, err = inv.matchFunc(part, func(name string) bool { return glob(part, name) }); err != nil {
			return nil, err
		}
	}
	if len(hits) > 0 {
		return hits, nil
	}
	if err := inv.spend(guess*len(inv.Hosts), ""); err != nil {
		return nil, err
	}
	return nil, inv.nothing(part)
}

func (inv *limiting) matchRegex(re string) ([]int, error) {
	r, _, err := core.CompilePattern("^(?:" + re + ")")
	if errors.Is(err, core.ErrPattern) {
		return nil, fmt.Errorf("%w: ~%s: %w\nhint: write lower numbers in {…}", core.ErrInvalid, re, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: ~%s: %w", core.ErrInvalid, re, err)
	}
	hits, err := inv.matchFunc(re, r.MatchString)
	if err != nil {
		return nil, err
	}
	if len(hits) == 0 {
		return nil, fmt.Errorf("%w: ~%s matches no host and no group\nhint: turnus hosts ls -i INVENTORY, or --context NAME, lists the hosts and their groups", core.ErrInvalid, re)
	}
	return hits, nil
}

// matchFunc collects the members of groups whose names fit, then the hosts, in Ansible's order. A
// host may come more than once: GROUP*[N] counts it each time, as Ansible does.
func (inv *limiting) matchFunc(part string, fits func(string) bool) ([]int, error) {
	if err := inv.spend(len(inv.Hosts)+len(inv.members), part); err != nil {
		return nil, err
	}
	var hits []int
	for _, name := range inv.named {
		if name != "all" && fits(name) {
			if err := inv.spend(len(inv.members[name]), ""); err != nil {
				return nil, err
			}
			hits = append(hits, inv.members[name]...)
		}
	}
	for i := range inv.Hosts {
		if fits(inv.Hosts[i].Name) {
			hits = append(hits, i)
		}
	}
	return hits, nil
}

// matchRange selects the hosts that a range writes out, or groups where no host has the name. All
// must exist.
func (inv *limiting) matchRange(part string) ([]int, error) {
	names, err := expand(part)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	if err := inv.spend(len(names), ""); err != nil {
		return nil, err
	}
	var hits []int
	for _, n := range names {
		if i, ok := inv.index[n]; ok { // a group of the same name is not meant
			hits = append(hits, i)
			continue
		}
		more, err := inv.match(n, false)
		if err != nil {
			return nil, err
		}
		hits = append(hits, more...)
	}
	return hits, nil
}

// cut takes the places that a subscript names; both ends count.
func cut(hits []int, m []string) ([]int, error) {
	n := len(hits)
	if m[2] != "" {
		i, err := strconv.Atoi(m[2])
		if i < 0 {
			i += n
		}
		if err != nil || i < 0 || i >= n {
			return nil, fmt.Errorf("%w: %s has %d hosts, so [%s] is none of them", core.ErrInvalid, m[1], n, m[2])
		}
		return hits[i : i+1], nil
	}
	from, err1 := strconv.Atoi(m[3])
	to, err2 := n-1, error(nil)
	if m[4] != "" {
		to, err2 = strconv.Atoi(m[4])
	}
	if err1 != nil || err2 != nil || from >= n || from > to {
		return nil, fmt.Errorf("%w: %s has %d hosts, so [%s:%s] is none of them", core.ErrInvalid, m[1], n, m[3], m[4])
	}
	return hits[from:min(to+1, n)], nil
}

// ambiguous refuses a subscript that is also a range of names of other hosts: web[2:4] is web2 to
// web4 by name, and web3 to web5 by the positions in a group web.
func (inv *limiting) ambiguous(part string, m []string, placed []int) error {
	if m[3] == "" || m[4] == "" || strings.ContainsAny(m[1], "*?[") || !hasRange(part) {
		return nil
	}
	names, err := expand(part)
	if err != nil || len(names) == 0 {
		return nil //nolint:nilerr // it is no range of names
	}
	if err := inv.spend(len(names), ""); err != nil {
		return err
	}
	var named []int
	for _, name := range names {
		i, ok := inv.index[name]
		if !ok {
			return nil
		}
		named = append(named, i)
	}
	if slices.Equal(slices.Sorted(slices.Values(named)), slices.Sorted(slices.Values(placed))) {
		return nil
	}
	first, last := inv.Hosts[placed[0]].Name, inv.Hosts[placed[len(placed)-1]].Name
	return fmt.Errorf("%w: %s is ambiguous: %s to %s by name, %s to %s by their positions in %s\nhint: write %s:1] for the names; turnus hosts ls --limit %s lists the hosts of the group for positions",
		core.ErrInvalid, part, names[0], names[len(names)-1], first, last, m[1], strings.TrimSuffix(part, "]"), m[1])
}

// nothing is the error for a part that matches nothing.
func (inv *Inventory) nothing(part string) error {
	names := make([]string, 0, len(inv.Hosts)+len(inv.members))
	for name := range inv.members {
		names = append(names, name)
	}
	slices.Sort(names)
	for i := range inv.Hosts {
		names = append(names, inv.Hosts[i].Name)
	}
	err := fmt.Errorf("%w: %q matches no host and no group", core.ErrInvalid, part)
	hint := yamlread.DidYouMean(part, names)
	if strings.Count(part, "[") > strings.Count(part, "]") {
		hint = "a range ends with ], as in web[1:20]"
	}
	hint = cmp.Or(hint, "turnus hosts ls -i INVENTORY, or --context NAME, lists the hosts and their groups")
	return fmt.Errorf("%w\nhint: %s", err, hint)
}
