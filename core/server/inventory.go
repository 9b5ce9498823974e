package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
)

// inventory registers what the definitions hold: hosts and playbooks.
func (s *Server) inventory() {
	handle(s, route{id: "list-hosts", method: http.MethodGet, path: "/v1/hosts", summary: "List hosts, by name", role: Viewer}, s.listHosts)
	handle(s, route{id: "get-host", method: http.MethodGet, path: "/v1/hosts/{host}", summary: "Show a host", role: Viewer}, s.getHost)
	handle(s, route{
		id: "host-history", method: http.MethodGet, path: "/v1/hosts/{host}/history", summary: "List what ran on a host, newest first", role: Viewer,
		detail: "Also of a host that is in no inventory any more. Jobs that ended before they were started are not in it.",
	}, s.hostHistory)
	handle(s, route{
		id: "list-host-jobs", method: http.MethodGet, path: "/v1/hosts/{host}/jobs", summary: "List the jobs of a host that have no outcome, by the tenant and the age of their run", role: Viewer,
		detail: "Of all runs that are not complete, with their place in the queue. " + shortPage + " Also of a host that is in no inventory any more.",
	}, s.hostJobs)
	handle(s, route{id: "list-playbooks", method: http.MethodGet, path: "/v1/playbooks", summary: "List playbooks, by name", role: Viewer}, s.listPlaybooks)
	handle(s, route{id: "get-playbook", method: http.MethodGet, path: "/v1/playbooks/{playbook}", summary: "Show a playbook, with its source", role: Viewer}, s.getPlaybook)
}

// HostPath names a host.
type HostPath struct {
	Host string `path:"host" maxLength:"253"`
}

// set is the definitions that hold.
func (s *Server) set() (*definitions.Set, error) {
	set := s.cfg.Catalog.Set()
	if set == nil {
		return nil, catalog.ErrNoProject
	}
	return set, nil
}

// hosts are those of the caller's tenants.
func (s *Server) hosts(by caller, set *definitions.Set) []core.Host {
	if by.scope.All() {
		return set.Inventory.Hosts
	}
	return slices.DeleteFunc(slices.Clone(set.Inventory.Hosts), func(h core.Host) bool { return !by.scope.Allows(h.Customer) })
}

func (s *Server) listHosts(_ context.Context, by caller, in *struct {
	Page
	Playbook  string `query:"playbook" maxLength:"200" doc:"that the targets of this playbook select"`
	WindowSet string `query:"window_set" maxLength:"200"`
	Group     string `query:"group" maxLength:"200"`
},
) (*list[api.Host], error) {
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	var selected map[string]bool
	if in.Playbook != "" {
		playbook, ok := set.Playbook(in.Playbook)
		if !ok || !by.scope.Allows(playbook.Tenant) {
			return nil, noPlaybook(in.Playbook)
		}
		selected = map[string]bool{}
		for _, name := range set.Selected(in.Playbook) {
			selected[name] = true
		}
	}
	hosts := slices.DeleteFunc(slices.Clone(s.hosts(by, set)), func(h core.Host) bool {
		return selected != nil && !selected[h.Name] || in.WindowSet != "" && h.WindowSet != in.WindowSet || in.Group != "" && !slices.Contains(h.Groups, in.Group)
	})
	slices.SortFunc(hosts, func(a, b core.Host) int { return strings.Compare(a.Name, b.Name) })
	hosts, next := pageOf(hosts, func(h core.Host) string { return h.Name }, in.Page)
	items := make([]api.Host, len(hosts))
	for i, h := range hosts {
		items[i] = hostOf(h)
	}
	return listOf(items, next), nil
}

func (s *Server) getHost(_ context.Context, by caller, in *HostPath) (*body[api.Host], error) {
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	h, ok := set.Inventory.Host(in.Host)
	if !ok || !by.scope.Allows(h.Customer) {
		return nil, noHost(in.Host)
	}
	return &body[api.Host]{hostOf(h)}, nil
}

func (s *Server) hostHistory(ctx context.Context, by caller, in *struct {
	HostPath
	Page
},
) (*list[api.Job], error) {
	jobs, next, err := s.cfg.Ledger.HostHistory(ctx, by.scope, in.Host, in.ledger())
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 && in.Cursor == "" && !s.knows(by, in.Host) {
		return nil, noHost(in.Host)
	}
	items := make([]api.Job, len(jobs))
	for i := range jobs {
		items[i] = jobOf(jobs[i])
	}
	return listOf(items, next), nil
}

// knows reports whether a host of the caller's tenants is in the inventory.
func (s *Server) knows(by caller, host string) bool {
	set := s.cfg.Catalog.Set()
	if set == nil {
		return false
	}
	h, ok := set.Inventory.Host(host)
	return ok && by.scope.Allows(h.Customer)
}

func (s *Server) hostJobs(ctx context.Context, by caller, in *struct {
	HostPath
	Page
},
) (*list[api.Job], error) {
	jobs, next, err := s.cfg.Ledger.OpenJobs(ctx, by.scope, in.Host, in.ledger())
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 && next == "" && in.Cursor == "" && !s.knows(by, in.Host) {
		return nil, noHost(in.Host)
	}
	items := make([]api.Job, len(jobs))
	for i := range jobs {
		items[i] = jobOf(jobs[i].Job)
	}
	s.addStatesOf(ctx, by.scope, func(at int) *ledger.Run { return &jobs[at].Of }, items)
	return listOf(items, next), nil
}

func (s *Server) listPlaybooks(_ context.Context, by caller, in *struct{ Page }) (*list[api.Playbook], error) {
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(slices.Clone(set.Playbooks), func(b *playbooks.Playbook) bool { return !by.scope.Allows(b.Tenant) })
	slices.SortFunc(all, func(a, b *playbooks.Playbook) int { return strings.Compare(a.Name, b.Name) })
	all, next := pageOf(all, func(b *playbooks.Playbook) string { return b.Name }, in.Page)
	items := make([]api.Playbook, len(all))
	for i, b := range all {
		items[i] = playbookOf(set, b)
	}
	return listOf(items, next), nil
}

func (s *Server) getPlaybook(_ context.Context, by caller, in *struct {
	Playbook string `path:"playbook" maxLength:"200"`
},
) (*body[api.Playbook], error) {
	now, playbook, err := s.playbook(by, in.Playbook)
	if err != nil {
		return nil, err
	}
	shown := playbookOf(now.Set, playbook)
	shown.Source = string(playbook.Source)
	return &body[api.Playbook]{shown}, nil
}

// playbook finds one that the caller may see, or guesses at what was meant.
func (s *Server) playbook(by caller, name string) (now catalog.Current, playbook *playbooks.Playbook, err error) {
	if now = s.cfg.Catalog.Current(); now.Set == nil {
		_, err = s.set()
		return now, nil, err
	}
	if playbook, ok := now.Set.Playbook(name); ok && by.scope.Allows(playbook.Tenant) {
		return now, playbook, nil
	}
	var names []string
	for _, b := range now.Set.Playbooks {
		if by.scope.Allows(b.Tenant) {
			names = append(names, b.Name)
		}
	}
	err = noPlaybook(name)
	if near := yamlread.DidYouMean(clip(name, 200), names); near != "" {
		err = fmt.Errorf("%w: %s", err, near)
	}
	return now, nil, err
}

func noPlaybook(name string) error {
	return fmt.Errorf("playbook %q is not in the project: %w", clip(name, 200), core.ErrNotFound)
}

func noHost(name string) error {
	return fmt.Errorf("host %q is not in the inventory: %w", clip(name, 253), core.ErrNotFound)
}

func hostOf(h core.Host) api.Host {
	return api.Host{
		Name: h.Name, Address: h.Address, Customer: h.Customer, Site: h.Site, Pool: h.Pool, HAGroup: h.HAGroup,
		WindowSet: h.WindowSet, Groups: h.Groups, Labels: h.Labels,
	}
}

func playbookOf(set *definitions.Set, b *playbooks.Playbook) api.Playbook {
	p := api.Playbook{
		Name: b.Name, Description: b.Description, Tenant: b.Tenant, File: b.File, Revision: set.Revision.Commit, Window: b.Window,
		Steps: make([]string, len(b.Steps)), Changed: set.Revision.CommittedAt,
	}
	for i := range b.Params {
		one := &b.Params[i]
		p.Params = append(p.Params, api.Param{
			Name: one.Name, Type: one.Type, Description: one.Description, Required: one.Required, Pattern: one.Pattern,
			Choices: one.Choices, Min: one.Min, Max: one.Max, Default: one.Default, Expected: one.Want(),
		})
	}
	if b.Schedule != nil {
		p.Schedule = b.Schedule.Cron
	}
	for i, step := range b.Steps {
		p.Steps[i] = step.Uses
	}
	for _, h := range b.Handlers {
		p.Handlers = append(p.Handlers, h.Name)
	}
	return p
}
