package launch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// MaxHostLists is how many bytes of JSON all hosts('…') of a run may give.
const MaxHostLists = 4 << 20

// newHostLists selects the hosts that expressions of the playbook read with hosts('…'), once for
// the run, and takes the fields that are read. all is in the order of the inventory.
func (l *Launch) newHostLists(all []core.Host, o Options) (snapshot.HostLists, error) {
	lists := l.Playbook.HostLists()
	if len(lists) == 0 {
		return nil, nil //nolint:nilnil // no expression reads any
	}
	within := cmp.Or(o.within, playbooks.TargetsTime)
	s := &lister{
		book: l.Playbook, options: o, until: time.Now().Add(within), left: MaxHostLists, out: l.askers(), names: map[string]bool{},
		env: playbooks.Env{Vars: mergedVars(l.Playbook, o), Params: l.Playbook.Values()},
	}
	for _, list := range lists {
		late, err := s.add(list, all)
		if late {
			err = list.Diagnose(fmt.Sprintf("hosts() of the playbook take longer than %v", within), "", "loop less in them: read what is known of the host")
		}
		if err != nil {
			return nil, err
		}
	}
	l.Listed = slices.Sorted(maps.Keys(s.names))
	return s.out, nil
}

// askers has the customers whose hosts may be listed: those of the run's hosts, and in a run of a
// tenant no other tenant's.
func (l *Launch) askers() snapshot.HostLists {
	out := snapshot.HostLists{}
	for _, h := range l.Hosts {
		if out[h.Customer] == nil && (h.Customer == "" || l.Playbook.Tenant == "" || h.Customer == l.Playbook.Tenant) {
			out[h.Customer] = map[string][]any{}
		}
	}
	return out
}

// lister makes the lists of one run.
type lister struct {
	book    *playbooks.Playbook
	options Options
	env     playbooks.Env
	until   time.Time
	left    int // bytes
	out     snapshot.HostLists
	names   map[string]bool
}

// add makes one list; late reports that the time ended before.
func (s *lister) add(list *playbooks.HostList, all []core.Host) (late bool, err error) {
	total := 0
	for _, h := range all {
		lists := s.out[h.Customer]
		if lists == nil {
			continue
		}
		if !time.Now().Before(s.until) {
			return true, nil
		}
		object, err := s.object(list, h)
		if err != nil {
			return false, err
		}
		if object == nil {
			continue
		}
		data, err := json.Marshal(object)
		if err != nil {
			return false, fmt.Errorf("host %s: write its fields: %w: %w", h.Name, core.ErrInvalid, err)
		}
		s.names[h.Name] = true
		lists[list.Text], total = append(lists[list.Text], object), total+1
		if s.left -= len(data) + 1; s.left < 0 {
			return false, tooManyListed(list, total)
		}
	}
	return false, nil
}

// object is a host as a list gives it; nil if it is not in the list.
func (s *lister) object(list *playbooks.HostList, h core.Host) (map[string]any, error) {
	h = s.options.withFacts(s.book, h)
	s.env.Host = h
	ok, err := list.Where.Bool(s.env)
	if errors.Is(err, playbooks.ErrNoFacts) || err == nil && !ok {
		return nil, nil //nolint:nilnil // it is not in the list
	}
	if err != nil {
		return nil, err
	}
	return list.Object(h), nil
}

// emptyLists returns the lists that give no host to anybody in the run.
func (l *Launch) emptyLists() (empty []*playbooks.HostList) {
	for _, list := range l.Playbook.HostLists() {
		given := 0
		for _, of := range l.Snapshot.Hosts {
			given += len(of[list.Text])
		}
		if given == 0 {
			empty = append(empty, list)
		}
	}
	return empty
}

func tooManyListed(list *playbooks.HostList, total int) error {
	return list.Diagnose(fmt.Sprintf("hosts() of the playbook give more than %d MiB to the run, with %d hosts of this one", MaxHostLists>>20, total),
		"fewer hosts, or fewer fields of them", "fields that the playbook reads of these: "+cmp.Or(strings.Join(list.Fields(), ", "), "none"))
}
