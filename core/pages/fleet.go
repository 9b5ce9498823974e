package pages

import (
	"cmp"
	"context"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/pictures"
)

// fleetRead is how many hosts the map reads, by name; fleetRows is how many rows its table shows.
const (
	fleetRead = 20_000
	fleetRows = 200
)

// fleetView is the map of the hosts, and the same as a table.
type fleetView struct {
	Filter    fleetFilter
	Customers []fleetCustomer
	Total     int
	Counts    []pictures.Count
	Partial   bool // there are more hosts than were read
	Large     bool // a square is a group
	Named     bool // hosts of one group, with their names
	Hosts     []pictures.Host
	Groups    []fleetGroup
	From      int // rows of the table before these
	Rows      int // of the whole table
	Next      string
}

// fleetFilter holds the choices in the address of the page.
type fleetFilter struct {
	By              string // what stands together: group, site or ha_group
	Customer, Group string
	grouped         bool // Group is chosen; "" is hosts without one
	Outcome         string
}

// fleetCustomer is a customer's part of the map, drawn: groups, or one picture of all of them.
type fleetCustomer struct {
	Name   string
	Hosts  int
	Link   string
	Groups []fleetBlocks
	All    template.HTML
}

type fleetBlocks struct {
	Name   string
	Link   string // to the names of the hosts; "" where they are shown
	Hosts  int
	Blocks []template.HTML
}

// fleetGroup is a row of the table of a large fleet.
type fleetGroup struct {
	Customer, Name, Link string
	Hosts                int
	Counts               []pictures.Count
}

func readFleet(ctx context.Context, v visit, q url.Values) (any, error) {
	filter, from := fleetFilterOf(q), 0
	if n, err := strconv.Atoi(q.Get("from")); err == nil && n > 0 {
		from = n
	}
	read, err := client.All(ctx, fleetRead+1, func(ctx context.Context, page client.Page) (client.List[api.FleetHost], error) {
		return v.client.Fleet(ctx, filter.Customer, page)
	})
	if err != nil {
		return nil, err
	}
	view := fleetOf(read[:min(len(read), fleetRead)], filter, from, time.Now())
	view.Partial = len(read) > fleetRead
	return view, nil
}

func fleetFilterOf(q url.Values) fleetFilter {
	f := fleetFilter{By: q.Get("by"), Customer: q.Get("customer"), Group: q.Get("in"), grouped: q.Has("in"), Outcome: q.Get("outcome")}
	if f.By != pictures.BySite && f.By != pictures.ByHAGroup {
		f.By = pictures.ByGroup
	}
	return f
}

// query is the filter as the address of a page.
func (f fleetFilter) query() string {
	q := url.Values{}
	if f.By != pictures.ByGroup {
		q.Set("by", f.By)
	}
	if f.grouped {
		q.Set("in", f.Group)
	}
	for key, value := range map[string]string{"customer": f.Customer, "outcome": f.Outcome} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return "?" + q.Encode()
}

// With is the address of the same page with another choice.
func (f fleetFilter) With(key, value string) string {
	switch key {
	case "by":
		f.By, f.Group, f.grouped = value, "", false
	case "customer":
		f.Customer, f.Group, f.grouped = value, "", false
	case "outcome":
		f.Outcome = value
	}
	return f.query()
}

// inGroup is the address of one group of a customer.
func (f fleetFilter) inGroup(customer, group string) string {
	f.Customer, f.Group, f.grouped = customer, group, true
	return f.query()
}

// hasOutcome reports whether a host has the outcome of the filter; "none" is no outcome.
func (f fleetFilter) hasOutcome(o core.Outcome) bool {
	return f.Outcome == "" || f.Outcome == string(o) || f.Outcome == "none" && o == ""
}

// fleetOf makes the view of hosts that were read. The map shows hosts of every outcome, so that
// each stays at its place; the table shows the chosen ones, the worst first.
func fleetOf(read []api.FleetHost, f fleetFilter, from int, now time.Time) fleetView {
	view := fleetView{Filter: f, From: from}
	hosts := pictures.Hosts(read, f.By)
	if f.grouped {
		hosts = slices.DeleteFunc(hosts, func(h pictures.Host) bool { return h.Group != f.Group })
	}
	for i := range hosts {
		hosts[i].Link = "/hosts/" + url.PathEscape(hosts[i].Name)
	}
	view.Total, view.Counts, view.Large = len(hosts), pictures.Counts(hosts), len(hosts) > pictures.MaxSquares
	view.Named = f.grouped && len(hosts) <= pictures.MaxTiles
	for _, c := range pictures.Fleet(hosts) {
		for i := range c.Groups {
			c.Groups[i].Link = "/fleet" + f.inGroup(c.Name, c.Groups[i].Name)
		}
		view.Customers = append(view.Customers, view.draw(&c, now))
	}
	if view.Large {
		slices.SortStableFunc(view.Groups, func(a, b fleetGroup) int {
			return cmp.Or(pictures.Rank(a.Counts[0].Outcome)-pictures.Rank(b.Counts[0].Outcome), cmp.Compare(b.Counts[0].Hosts, a.Counts[0].Hosts))
		})
		view.Groups = rowsFrom(&view, view.Groups)
		return view
	}
	hosts = slices.DeleteFunc(hosts, func(h pictures.Host) bool { return !f.hasOutcome(h.Outcome) })
	slices.SortStableFunc(hosts, func(a, b pictures.Host) int {
		return cmp.Or(pictures.Rank(a.Outcome)-pictures.Rank(b.Outcome), b.Ended.Compare(a.Ended))
	})
	view.Hosts = rowsFrom(&view, hosts)
	return view
}

// rowsFrom cuts the part of a table that is shown.
func rowsFrom[T any](view *fleetView, all []T) []T {
	view.Rows, view.From = len(all), min(view.From, len(all))
	to := min(view.From+fleetRows, len(all))
	if to < len(all) {
		view.Next = view.Filter.query() + "&from=" + strconv.Itoa(to)
	}
	return all[view.From:to]
}

// draw draws a customer, and notes its groups where the table shows them.
func (view *fleetView) draw(c *pictures.Customer, now time.Time) fleetCustomer {
	shown := fleetCustomer{Name: pictures.Named(c.Name), Hosts: c.Hosts, Link: view.Filter.With("customer", c.Name)}
	if view.Large {
		shown.All = template.HTML(c.Block().Markup) //nolint:gosec // pictures escapes each text
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		if view.Large {
			counts := pictures.Counts(g.Hosts)
			if slices.ContainsFunc(counts, func(n pictures.Count) bool { return view.Filter.hasOutcome(n.Outcome) }) {
				view.Groups = append(view.Groups, fleetGroup{pictures.Named(c.Name), pictures.Named(g.Name), g.Link, len(g.Hosts), counts})
			}
			continue
		}
		blocks, draw := fleetBlocks{Name: pictures.Named(g.Name), Link: g.Link, Hosts: len(g.Hosts)}, g.Blocks
		if view.Named {
			blocks.Link, draw = "", g.Tiles
		}
		for _, b := range draw(now) {
			blocks.Blocks = append(blocks.Blocks, template.HTML(b.Markup)) //nolint:gosec // pictures escapes each text
		}
		shown.Groups = append(shown.Groups, blocks)
	}
	return shown
}
