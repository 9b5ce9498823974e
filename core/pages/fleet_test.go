package pages

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/pictures"
)

// The map is squares with links, the table shows the same, and a group can be shown alone.
func TestFleetPage(t *testing.T) {
	f := newFake()
	web, browser := site(t, f)
	_, text := logIn(t, web, browser, "good", "/fleet")
	for _, part := range []string{
		`<a href="/fleet">Fleet</a>`, `class="m-failed m-bad"`, `href="/hosts/web1" tabindex="-1"`, `<title>web1: failed by `, "3 hosts", `<td><a href="/runs/r1/hosts/1">`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the map lacks %s: %s", part, text)
		}
	}
	if strings.Index(text, `<td><a href="/hosts/web1">`) > strings.Index(text, `<td><a href="/hosts/web2">`) {
		t.Error("the failed host is not first in the table")
	}
	has(t, "the map", text, `<h3><a href="/fleet?customer=acme&amp;in=web">web</a>`, "Choose a group to see the names of its hosts")
	lacks(t, "the map", text, ">web1</text>")
	_, text = get(t, browser, web.URL+"/fleet?customer=acme&in=web")
	has(t, "a group", text, "<h3>web <small>2</small></h3>", "<a href=\"/hosts/web1\">\n<title>", ">web1</text>", ">web2</text>", "A tile is a host")
	if _, text := get(t, browser, web.URL+"/fleet?outcome=failed"); strings.Contains(text, `<td><a href="/hosts/web2">`) || !strings.Contains(text, "3 hosts") {
		t.Errorf("the table of failed hosts: %s", text)
	}
	if _, text := get(t, browser, web.URL+"/fleet?customer=acme&in=db"); strings.Contains(text, "web1") || !strings.Contains(text, "No host matches") {
		t.Errorf("a group without hosts: %s", text)
	}
}

func TestFleetFilter(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "?",
		"by=site":                       "?by=site",
		"by=nonsense&outcome=failed":    "?outcome=failed",
		"in=&customer=a%26b":            "?customer=a%26b&in=",
		"by=ha_group&in=x&customer=a&y": "?by=ha_group&customer=a&in=x",
	} {
		q, err := url.ParseQuery(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := fleetFilterOf(q).query(); got != want {
			t.Errorf("%q is %q, expected %q", in, got, want)
		}
	}
}

// A large fleet has a square a group; the table of either has parts.
func TestFleetView(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	hosts := make([]api.FleetHost, pictures.MaxSquares+1)
	for i := range hosts {
		hosts[i] = api.FleetHost{Name: fmt.Sprintf("h%05d", i), Customer: "acme", Groups: []string{"all-of-them", fmt.Sprint("g", i%300)}, Outcome: core.Changed, Ended: now}
	}
	hosts[77].Outcome = core.Lost
	large := fleetOf(hosts, fleetFilter{By: pictures.ByGroup}, 0, now)
	if !large.Large || large.Rows != 300 || len(large.Groups) != fleetRows || large.Groups[0].Name != "g77" || large.Next != "?&from=200" || large.Customers[0].All == "" {
		t.Errorf("%+v", large.Groups[0])
	}
	lost := fleetOf(hosts, fleetFilter{By: pictures.ByGroup, Outcome: "lost"}, 0, now)
	if lost.Rows != 1 || lost.Total != len(hosts) {
		t.Errorf("%d rows of %d", lost.Rows, lost.Total)
	}
	small := fleetOf(hosts[:fleetRows+1], fleetFilter{By: pictures.ByGroup}, fleetRows, now)
	if small.Large || len(small.Hosts) != 1 || small.Next != "" || small.Hosts[0].Outcome == core.Lost || len(small.Customers[0].Groups) != fleetRows+1 {
		t.Errorf("%+v", small.Hosts)
	}
	for n, named := range map[int]bool{pictures.MaxTiles: true, pictures.MaxTiles + 1: false} {
		group := make([]api.FleetHost, n)
		for i := range group {
			group[i] = api.FleetHost{Name: fmt.Sprintf("h%05d", i), Groups: []string{"g"}}
		}
		if got := fleetOf(group, fleetFilter{By: pictures.ByGroup, Group: "g", grouped: true}, 0, now).Named; got != named {
			t.Errorf("a group of %d hosts has names: %t", n, got)
		}
	}
	if past := fleetOf(hosts[:3], fleetFilter{By: pictures.ByGroup}, 1e9, now); len(past.Hosts) != 0 {
		t.Errorf("behind the end: %+v", past.Hosts)
	}
}
