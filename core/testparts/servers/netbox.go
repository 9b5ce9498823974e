package servers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// NetBox answers as NetBox does, with the faults that a test wants.
type NetBox struct {
	Devices []map[string]any
	Filters []string // also site
	Cursor  bool     // as from NetBox 4.6 on
	Next    string   // host of next links; "" is its own
	Prefix  string   // the path below which it is

	Status   int                                     // of lists; 0 is 200
	Alter    func(request int, p map[string]any) any // of each list's answer
	Truncate bool                                    // the last page breaks off
	Slow     bool                                    // a list never answers

	mu       sync.Mutex
	requests []*http.Request
}

// NetBoxDevice is a record.
func NetBoxDevice(id int, name, address string) map[string]any {
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

// NetBoxDevices are so many records.
func NetBoxDevices(n int) (all []map[string]any) {
	for i := range n {
		all = append(all, NetBoxDevice(i+1, fmt.Sprintf("sw%04d", i), fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250)))
	}
	return all
}

// ServeHTTP answers one request.
func (n *NetBox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	n.requests = append(n.requests, r)
	count, all := len(n.requests), n.Devices
	n.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, n.Prefix)
	if path == "/api/schema/" {
		parameters := []any{map[string]any{"name": "id", "in": "path"}}
		names := append([]string{"limit", "offset", "ordering", "site"}, n.Filters...)
		if n.Cursor {
			names = append(names, "start")
		}
		for _, name := range names {
			parameters = append(parameters, map[string]any{"name": name, "in": "query"})
		}
		list := map[string]any{"get": map[string]any{"parameters": parameters}}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"info": map[string]any{"version": "4.5.0"}, "components": map[string]any{"schemas": map[string]any{"a": []any{1, 2}}},
			"paths": map[string]any{n.Prefix + "/api/dcim/devices/": list, "/api/other/": map[string]any{}},
		})
		return
	}
	if n.Slow {
		<-r.Context().Done()
		return
	}
	if n.Status != 0 {
		w.WriteHeader(n.Status)
		_, _ = fmt.Fprint(w, `{"detail": "You do not have permission", "token": "leaked"}`)
		return
	}
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("limit"))
	offset, _ := strconv.Atoi(q.Get("offset"))
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
		if n.Next != "" {
			host = n.Next
		}
		key, value := "offset", end
		if q.Has("start") {
			key, value = "start", all[end-1]["id"].(int)+1
		}
		answer["next"] = fmt.Sprintf("%s%s?%s=%d&limit=50", host, path, key, value)
	}
	var said any = answer
	if n.Alter != nil {
		said = n.Alter(count, answer)
	}
	data, _ := json.Marshal(said)
	if n.Truncate && end == len(all) {
		data = data[:len(data)/2]
	}
	_, _ = w.Write(data)
}

// Requests are those so far.
func (n *NetBox) Requests() []*http.Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.requests)
}

// Has replaces the devices, between two fetches.
func (n *NetBox) Has(devices []map[string]any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Devices = devices
}
