package sources_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/testparts/servers"
)

func sourceOf(t *testing.T, n *servers.NetBox, more string) sources.Source {
	t.Helper()
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	all, err := sources.Parse("sources.yaml", []byte("sources:\n  nb:\n    type: netbox\n    url: "+server.URL+n.Prefix+"\n    token: netbox\n"+more))
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func fetcher(token string) *sources.Fetcher {
	return &sources.Fetcher{Token: func(context.Context, string) ([]byte, error) { return []byte(token), nil }}
}

func hostsOf(t *testing.T, g *sources.Generation) *inventory.Inventory {
	t.Helper()
	inv, err := inventory.Load(t.Context(), nil, g.Document(""))
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func TestNetBoxIsReadWholeInFewRequests(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]*servers.NetBox{
		"pages by offset":     {Devices: servers.NetBoxDevices(3000)},
		"pages by cursor":     {Devices: servers.NetBoxDevices(3000), Cursor: true},
		"behind a proxy":      {Devices: servers.NetBoxDevices(3000), Next: "http://inner.example:8000"},
		"below a path":        {Devices: servers.NetBoxDevices(3000), Prefix: "/netbox"},
		"exactly whole pages": {Devices: servers.NetBoxDevices(2000), Cursor: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := fetcher("0123456789abcdef").Fetch(t.Context(), sourceOf(t, n, "    filter: {site: [fra, ams]}\n"))
			if err != nil {
				t.Fatal(err)
			}
			inv := hostsOf(t, g)
			if len(inv.Hosts) != len(n.Devices) || len(n.Requests()) > 8 {
				t.Fatalf("%d hosts in %d requests, want %d in at most 8", len(inv.Hosts), len(n.Requests()), len(n.Devices))
			}
			for _, r := range n.Requests() {
				if r.Header.Get("Authorization") != "Token 0123456789abcdef" {
					t.Fatalf("%s has the authorization %q", r.URL, r.Header.Get("Authorization"))
				}
				if q := r.URL.Query(); !strings.HasSuffix(r.URL.Path, "/schema/") && (!slices.Equal(q["site"], []string{"fra", "ams"}) || q.Get("limit") != "1000") {
					t.Fatalf("the query of %s lost the filter or the size of pages", r.URL)
				}
			}
			h := inv.Hosts[0]
			if h.Name != "sw0000" || h.Address != "10.0.0.1" || h.Customer != "acme" || h.Site != "fra" || h.Labels["role"] != "leaf" || !slices.Equal(h.Groups, []string{"edge"}) {
				t.Fatalf("host is %+v", h)
			}
		})
	}
}

func TestNetBoxTokensOfTheSecondVersionAreBearers(t *testing.T) {
	t.Parallel()
	n := &servers.NetBox{Devices: servers.NetBoxDevices(1)}
	if _, err := fetcher("nbt_abc.def").Fetch(t.Context(), sourceOf(t, n, "")); err != nil {
		t.Fatal(err)
	}
	for _, r := range n.Requests() {
		if got := r.Header.Get("Authorization"); got != "Bearer nbt_abc.def" {
			t.Fatalf("the authorization is %q", got)
		}
	}
}

func TestNetBoxMapChoosesFields(t *testing.T) {
	t.Parallel()
	n := &servers.NetBox{Devices: servers.NetBoxDevices(1)}
	g, err := fetcher("token").Fetch(t.Context(), sourceOf(t, n, "    map: {window_set: custom_fields.window_set, vars.weight: custom_fields.weight, groups: null, labels.role: site.slug}\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := hostsOf(t, g).Hosts[0]
	if h.WindowSet != "nights" || fmt.Sprint(h.Vars["weight"]) != "7" || len(h.Groups) != 0 || h.Labels["role"] != "fra" {
		t.Fatalf("host is %+v", h)
	}
}

// Each trap of NetBox that others fell into. A fetch that meets one gives no generation.
func TestNetBoxTraps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		box  *servers.NetBox
		more string
		says string
	}{
		"a filter that is ignored": {&servers.NetBox{Devices: servers.NetBoxDevices(10)}, "    filter: {sites: fra}\n", `filter "sites": NetBox has no such filter for devices and would answer with all of them`},
		"403":                      {&servers.NetBox{Status: http.StatusForbidden}, "", "the server answers 403: the token may not read this"},
		"401":                      {&servers.NetBox{Status: http.StatusUnauthorized}, "", "it does not know the token"},
		"a redirect":               {&servers.NetBox{Status: http.StatusFound}, "", "it sends elsewhere, which is not followed"},
		"half a page":              {&servers.NetBox{Devices: servers.NetBoxDevices(1500), Truncate: true}, "", "or it broke off"},
		"no list of this kind":     {&servers.NetBox{Devices: servers.NetBoxDevices(1)}, "    records: [virtual-machines]\n", "has no list of virtual-machines"},
		"no results":               {&servers.NetBox{Alter: func(int, map[string]any) any { return map[string]any{"detail": "x"} }}, "", "has no results"},
		"a login page":             {&servers.NetBox{Alter: func(int, map[string]any) any { return "<html>" }}, "", "is not the JSON of a list"},
		"an offset page that repeats": {&servers.NetBox{Devices: servers.NetBoxDevices(1500), Alter: func(n int, p map[string]any) any {
			if n == 3 {
				p["results"] = append(servers.NetBoxDevices(1), p["results"].([]map[string]any)...)
			}
			return p
		}}, "", "record 1000 moved between two pages"},
		"a record that comes twice": {&servers.NetBox{Devices: servers.NetBoxDevices(1500), Alter: func(n int, p map[string]any) any {
			if n == 3 {
				p["results"] = append(p["results"].([]map[string]any), servers.NetBoxDevice(1, "again", ""))
			}
			return p
		}}, "", "record 1 came twice"},
		"a record that goes while another comes": {&servers.NetBox{Devices: servers.NetBoxDevices(1500), Alter: func(n int, p map[string]any) any {
			if n == 3 { // as if the first record were gone: all others are one place nearer
				p["results"] = append(p["results"].([]map[string]any)[1:], servers.NetBoxDevice(1501, "new", ""))
			}
			return p
		}}, "", "record 1000 moved between two pages"},
		"an offset page that skips": {&servers.NetBox{Devices: servers.NetBoxDevices(1500), Alter: func(n int, p map[string]any) any {
			if n == 3 {
				p["results"] = p["results"].([]map[string]any)[:500]
			}
			return p
		}}, "", "1499 of 1500 records came"},
		"a count that changes": {&servers.NetBox{Devices: servers.NetBoxDevices(1500), Alter: func(n int, p map[string]any) any {
			if n == 3 {
				p["count"] = 1499
			}
			return p
		}}, "", "the number of records changed"},
		"a next that leads back": {&servers.NetBox{Devices: servers.NetBoxDevices(1500), Alter: func(_ int, p map[string]any) any {
			p["next"] = "/api/dcim/devices/?offset=0"
			return p
		}}, "", "next does not lead on by offset"},
		"a next without a cursor": {&servers.NetBox{Devices: servers.NetBoxDevices(1500), Cursor: true, Alter: func(_ int, p map[string]any) any {
			p["next"] = "https://evil.example/?offset=1000"
			return p
		}}, "", "next does not lead on by start"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := fetcher("token-of-netbox").Fetch(t.Context(), sourceOf(t, c.box, c.more))
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "source nb (sources.yaml:2)") {
				t.Fatalf("the error is %v, want one with %q", err, c.says)
			}
			if strings.Contains(err.Error(), "token-of-netbox") || strings.Contains(err.Error(), "leaked") {
				t.Fatalf("the error has a secret: %v", err)
			}
		})
	}
}

// Pages that are each small enough are bounded together.
func TestNetBoxListingIsBounded(t *testing.T) {
	t.Parallel()
	n := &servers.NetBox{Devices: servers.NetBoxDevices(3000), Alter: func(_ int, p map[string]any) any {
		p["comments"] = strings.Repeat("x", 1<<20)
		return p
	}}
	s := sourceOf(t, n, "")
	for most, want := range map[int]string{
		3 << 20: "source nb (sources.yaml:2): GET " + s.URL.String() + "/api/dcim/devices/: this answer and those before it have more than 3 MiB",
		8 << 20: "",
	} {
		f := fetcher("token")
		f.Most(most)
		_, err := f.Fetch(t.Context(), s)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "hint: filter: of the source")) {
			t.Errorf("with %d MiB the error is %v, want %q", most>>20, err, want)
		}
	}
	if asked := len(n.Requests()); asked > 9 {
		t.Errorf("%d requests, want at most 5 and 4", asked)
	}
}

// Without the check by the schema, NetBox would answer an unknown filter with all devices.
func TestNetBoxAnswersUnknownFiltersWithEverything(t *testing.T) {
	t.Parallel()
	n := &servers.NetBox{Devices: servers.NetBoxDevices(10), Filters: []string{"sites"}} // the schema has one
	g, err := fetcher("token").Fetch(t.Context(), sourceOf(t, n, "    filter: {sites: fra}\n"))
	if err != nil || len(hostsOf(t, g).Hosts) != 10 {
		t.Fatalf("got %v, %v", g, err)
	}
}

func TestNetBoxThatIsSlowIsGivenUp(t *testing.T) {
	t.Parallel()
	n := &servers.NetBox{Slow: true}
	s := sourceOf(t, n, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := fmt.Errorf("the server stops")
	go func() { cancel(gone) }()
	if _, err := fetcher("token").Fetch(ctx, s); err == nil || !strings.Contains(err.Error(), gone.Error()) {
		t.Fatalf("the error is %v", err)
	}
}

func TestNetBoxRecordsThatAreNoHostsAreReported(t *testing.T) {
	t.Parallel()
	n := &servers.NetBox{Devices: []map[string]any{
		servers.NetBoxDevice(1, "good", "10.0.0.1"), servers.NetBoxDevice(2, "twin", "10.0.0.2"), servers.NetBoxDevice(3, "twin", "10.0.0.3"), servers.NetBoxDevice(4, "bare", ""), servers.NetBoxDevice(5, "a b", "10.0.0.5"), servers.NetBoxDevice(6, "", "10.0.0.6"),
		servers.NetBoxDevice(7, "hosts[0:99999]", "10.0.0.7"),
	}}
	g, err := fetcher("token").Fetch(t.Context(), sourceOf(t, n, ""))
	if err != nil {
		t.Fatal(err)
	}
	if hosts := hostsOf(t, g).Hosts; len(hosts) != 1 || hosts[0].Name != "good" {
		t.Fatalf("hosts are %+v", hosts)
	}
	want := []string{
		"devices/2: 2 records have the name twin", "devices/3: 2 records have the name twin", "devices/4 bare: it has no address",
		"devices/5: the name a b is none of a host", "devices/6: it has no name", "devices/7: the name hosts[0:99999] is none of a host",
	}
	if !slices.Equal(g.Left, want) || g.Total != len(want) {
		t.Fatalf("left out are %q", g.Left)
	}
}
