package rollout

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
)

// After has, by name, the hosts that a host comes after: it begins when each of them has succeeded,
// and not at all when one has not. A host that comes after none is not in it.
type After map[string][]string

// Sequence returns the order among the hosts of a run that disrupts. In an HA group each member
// comes after the one before it, in the order of hosts. A host comes after those of its jump hosts
// that are in the run, because its own new state is then proven through theirs. all are the hosts
// of the inventory, through which a way may lead. A circle is core.ErrInvalid.
//
// Hosts must be as Order returned them.
func Sequence(hosts, all []core.Host) (After, error) {
	after := After{}
	last := map[string]string{}
	in := make(map[string]core.Host, len(hosts))
	for _, h := range hosts {
		in[h.Name] = h
		if h.HAGroup == "" {
			continue
		}
		if before := last[h.HAGroup]; before != "" {
			after[h.Name] = append(after[h.Name], before)
		}
		last[h.HAGroup] = h.Name
	}
	w := ways{byName: map[string]core.Host{}, byAddress: map[string]core.Host{}}
	for _, h := range all {
		w.byName[h.Name], w.byAddress[h.Target()] = h, h
	}
	for _, h := range hosts {
		for _, name := range w.through(h) {
			jump, ok := in[name]
			if !ok || jump.HAGroup != "" && jump.HAGroup == h.HAGroup { // of one group: its order, and its lock, keep them apart
				continue
			}
			if !slices.Contains(after[h.Name], name) {
				after[h.Name] = append(after[h.Name], name)
			}
		}
	}
	if _, err := after.arrange(hosts); err != nil {
		return nil, err
	}
	return after, nil
}

// ways finds jump hosts in the inventory.
type ways struct{ byName, byAddress map[string]core.Host }

// through names the known hosts on the way to h.
func (w ways) through(h core.Host) []string {
	var names []string
	seen := map[string]bool{h.Name: true}
	for todo := h.SSH.ProxyJump; len(todo) > 0; {
		jump, ok := w.find(todo[0])
		todo = todo[1:]
		if !ok || seen[jump.Name] {
			continue
		}
		seen[jump.Name] = true
		names = append(names, jump.Name)
		todo = slices.Concat(todo, jump.SSH.ProxyJump)
	}
	return names
}

// find reads a name, or user@host:port.
func (w ways) find(jump string) (core.Host, bool) {
	if h, ok := w.byName[jump]; ok {
		return h, true
	}
	_, address, ok := strings.Cut(jump, "@")
	if !ok {
		address = jump
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	if h, ok := w.byName[address]; ok {
		return h, true
	}
	h, ok := w.byAddress[address]
	return h, ok
}

// Arrange brings hosts into an order in which each stands behind those that it comes after, and
// else leaves them where they are: so no wave needs a later one.
func (a After) Arrange(hosts []core.Host) []core.Host {
	out, err := a.arrange(hosts)
	if err != nil {
		return hosts // not reached: Sequence refuses circles
	}
	return out
}

func (a After) arrange(hosts []core.Host) ([]core.Host, error) {
	if len(a) == 0 {
		return hosts, nil
	}
	at := make(map[string]int, len(hosts))
	for i, h := range hosts {
		at[h.Name] = i
	}
	out := make([]core.Host, 0, len(hosts))
	const open, done = 1, 2
	state := make([]byte, len(hosts))
	var visit func(i int, trail []string) error
	visit = func(i int, trail []string) error {
		name := hosts[i].Name
		trail = append(trail, name)
		switch state[i] {
		case done:
			return nil
		case open:
			return fmt.Errorf("the order of the hosts goes in a circle: %s; an HA pair, or a jump host, must not need what comes after it: %w",
				strings.Join(trail[slices.Index(trail, name):], " comes after "), core.ErrInvalid)
		}
		state[i] = open
		for _, before := range a[name] {
			if j, ok := at[before]; ok {
				if err := visit(j, trail); err != nil {
					return err
				}
			}
		}
		state[i] = done
		out = append(out, hosts[i])
		return nil
	}
	for i := range hosts {
		if err := visit(i, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}
