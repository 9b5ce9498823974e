package sources_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/inventory/sources"
)

// netBox answers as NetBox does, with the faults that a test wants.
type netBox struct {
	devices []map[string]any
	filters []string // besides site
	cursor  bool     // as from NetBox 4.6 on
	next    string   // host of next links; "" is its own
	prefix  string   // the path below which it is

	status   int                                     // of lists; 0 is 200
	alter    func(request int, p map[string]any) any // of each list's answer
	truncate bool                                    // the last page breaks off
	slow     bool                                    // a list never answers

	mu       sync.Mutex
	requests []*http.Request
}

func device(id int, name, address string) map[string]any {
	d := map[string]any{
		"id": id, "name": name, "tenant": map[string]any{"slug": "acme"}, "site": map[string]any{"slug": "fra"}, "role": map[string]any{"slug": "leaf"},
		"tags": []any{map[string]any{"slug": "edge"}}, "status": map[string]any{"value": "active"}, "primary_ip": nil,
		"custom_fields": map[string]any{"window_set": "nights", "weight": 7},
	}
	if address != "" {
		d["primary_ip"] = map[string]any{"address": address + "/24"}
	}
	return d
}

func devices(n int) (all []map[string]any) {
	for i := range n {
		all = append(all, device(i+1, fmt.Sprintf("sw%04d", i), fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250)))
	}
	return all
}

func (n *netBox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	n.requests = append(n.requests, r)
	count := len(n.requests)
	n.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, n.prefix)
	if path == "/api/schema/" {
		parameters := []any{map[string]any{"name": "id", "in": "path"}}
		names := append([]string{"limit", "offset", "ordering", "site"}, n.filters...)
		if n.cursor {
			names = append(names, "start")
		}
		for _, name := range names {
			parameters = append(parameters, map[string]any{"name": name, "in": "query"})
		}
		list := map[string]any{"get": map[string]any{"parameters": parameters}}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"info": map[string]any{"version": "4.5.0"}, "components": map[string]any{"schemas": map[string]any{"a": []any{1, 2}}},
			"paths": map[string]any{n.prefix + "/api/dcim/devices/": list, "/api/other/": map[string]any{}},
		})
		return
	}
	if n.slow {
		<-r.Context().Done()
		return
	}
	if n.status != 0 {
		w.WriteHeader(n.status)
		_, _ = fmt.Fprint(w, `{"detail": "You do not have permission", "token": "leaked"}`)
		return
	}
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("limit"))
	offset, _ := strconv.Atoi(q.Get("offset"))
	all := n.devices
	answer := map[string]any{"count": len(all), "next": nil}
	if q.Has("start") {
		start, _ := strconv.Atoi(q.Get("start"))
		offset = slices.IndexFunc(all, func(d map[string]any) bool { return d["id"].(int) >= start })
		answer["count"] = nil
		if offset < 0 {
			offset = len(all)
		}
	}
	end := min(offset+limit, len(all))
	answer["results"] = all[offset:end]
	if end < len(all) {
		host := "http://" + r.Host
		if n.next != "" {
			host = n.next
		}
		key, value := "offset", end
		if q.Has("start") {
			key, value = "start", all[end-1]["id"].(int)+1
		}
		answer["next"] = fmt.Sprintf("%s%s?%s=%d&limit=50", host, path, key, value)
	}
	var said any = answer
	if n.alter != nil {
		said = n.alter(count, answer)
	}
	data, _ := json.Marshal(said)
	if n.truncate && end == len(all) {
		data = data[:len(data)/2]
	}
	_, _ = w.Write(data)
}

func (n *netBox) source(t *testing.T, more string) sources.Source {
	t.Helper()
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	all, err := sources.Parse("sources.yaml", []byte("sources:\n  nb:\n    type: netbox\n    url: "+server.URL+n.prefix+"\n    token: netbox\n"+more))
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
	for name, n := range map[string]*netBox{
		"pages by offset":     {devices: devices(3000)},
		"pages by cursor":     {devices: devices(3000), cursor: true},
		"behind a proxy":      {devices: devices(3000), next: "http://inner.example:8000"},
		"below a path":        {devices: devices(3000), prefix: "/netbox"},
		"exactly whole pages": {devices: devices(2000), cursor: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := fetcher("0123456789abcdef").Fetch(t.Context(), n.source(t, "    filter: {site: [fra, ams]}\n"))
			if err != nil {
				t.Fatal(err)
			}
			inv := hostsOf(t, g)
			if len(inv.Hosts) != len(n.devices) || len(n.requests) > 8 {
				t.Fatalf("%d hosts in %d requests, want %d in at most 8", len(inv.Hosts), len(n.requests), len(n.devices))
			}
			for _, r := range n.requests {
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
	n := &netBox{devices: devices(1)}
	if _, err := fetcher("nbt_abc.def").Fetch(t.Context(), n.source(t, "")); err != nil {
		t.Fatal(err)
	}
	for _, r := range n.requests {
		if got := r.Header.Get("Authorization"); got != "Bearer nbt_abc.def" {
			t.Fatalf("the authorization is %q", got)
		}
	}
}

func TestNetBoxMapChoosesFields(t *testing.T) {
	t.Parallel()
	n := &netBox{devices: devices(1)}
	g, err := fetcher("token").Fetch(t.Context(), n.source(t, "    map: {window_set: custom_fields.window_set, vars.weight: custom_fields.weight, groups: null, labels.role: site.slug}\n"))
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
		box  *netBox
		more string
		says string
	}{
		"a filter that is ignored": {&netBox{devices: devices(10)}, "    filter: {sites: fra}\n", `filter "sites": NetBox has no such filter for devices and would answer with all of them`},
		"403":                      {&netBox{status: http.StatusForbidden}, "", "the server answers 403: the token may not read this"},
		"401":                      {&netBox{status: http.StatusUnauthorized}, "", "it does not know the token"},
		"a redirect":               {&netBox{status: http.StatusFound}, "", "it sends elsewhere, which is not followed"},
		"half a page":              {&netBox{devices: devices(1500), truncate: true}, "", "or it broke off"},
		"no list of this kind":     {&netBox{devices: devices(1)}, "    records: [virtual-machines]\n", "has no list of virtual-machines"},
		"no results":               {&netBox{alter: func(int, map[string]any) any { return map[string]any{"detail": "x"} }}, "", "has no results"},
		"a login page":             {&netBox{alter: func(int, map[string]any) any { return "<html>" }}, "", "is not the JSON of a list"},
		"an offset page that repeats": {&netBox{devices: devices(1500), alter: func(n int, p map[string]any) any {
			if n == 3 {
				p["results"] = append(devices(1), p["results"].([]map[string]any)...)
			}
			return p
		}}, "", "record 1 came twice"},
		"an offset page that skips": {&netBox{devices: devices(1500), alter: func(n int, p map[string]any) any {
			if n == 3 {
				p["results"] = p["results"].([]map[string]any)[1:]
			}
			return p
		}}, "", "1499 of 1500 records came"},
		"a count that changes": {&netBox{devices: devices(1500), alter: func(n int, p map[string]any) any {
			if n == 3 {
				p["count"] = 1499
			}
			return p
		}}, "", "the number of records changed"},
		"a next that leads back": {&netBox{devices: devices(1500), alter: func(_ int, p map[string]any) any {
			p["next"] = "/api/dcim/devices/?offset=0"
			return p
		}}, "", "next does not lead on by offset"},
		"a next without a cursor": {&netBox{devices: devices(1500), cursor: true, alter: func(_ int, p map[string]any) any {
			p["next"] = "https://evil.example/?offset=1000"
			return p
		}}, "", "next does not lead on by start"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := fetcher("token-of-netbox").Fetch(t.Context(), c.box.source(t, c.more))
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "source nb (sources.yaml:2)") {
				t.Fatalf("the error is %v, want one with %q", err, c.says)
			}
			if strings.Contains(err.Error(), "token-of-netbox") || strings.Contains(err.Error(), "leaked") {
				t.Fatalf("the error has a secret: %v", err)
			}
		})
	}
}

// Without the check by the schema, NetBox would answer an unknown filter with all devices.
func TestNetBoxAnswersUnknownFiltersWithEverything(t *testing.T) {
	t.Parallel()
	n := &netBox{devices: devices(10), filters: []string{"sites"}} // the schema says that there is one
	g, err := fetcher("token").Fetch(t.Context(), n.source(t, "    filter: {sites: fra}\n"))
	if err != nil || len(hostsOf(t, g).Hosts) != 10 {
		t.Fatalf("got %v, %v", g, err)
	}
}

func TestNetBoxThatIsSlowIsGivenUp(t *testing.T) {
	t.Parallel()
	n := &netBox{slow: true}
	s := n.source(t, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := fmt.Errorf("the server stops")
	go func() { cancel(gone) }()
	if _, err := fetcher("token").Fetch(ctx, s); err == nil || !strings.Contains(err.Error(), gone.Error()) {
		t.Fatalf("the error is %v", err)
	}
}

func TestNetBoxRecordsThatAreNoHostsAreReported(t *testing.T) {
	t.Parallel()
	n := &netBox{devices: []map[string]any{
		device(1, "good", "10.0.0.1"), device(2, "twin", "10.0.0.2"), device(3, "twin", "10.0.0.3"), device(4, "bare", ""), device(5, "a b", "10.0.0.5"), device(6, "", "10.0.0.6"),
		device(7, "hosts[0:99999]", "10.0.0.7"),
	}}
	g, err := fetcher("token").Fetch(t.Context(), n.source(t, ""))
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
