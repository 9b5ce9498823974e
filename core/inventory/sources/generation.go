package sources

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
)

// Bounds of a generation.
const (
	maxBody     = 8 << 20  // of its JSON
	maxEncoded  = 64 << 20 // of what Decode unpacks
	maxProblems = 100      // records that are named because they were left out
)

// Generation is all hosts of a source at one time.
type Generation struct {
	Source  string            `json:"source"`
	Fetched time.Time         `json:"fetched"`
	Body    string            `json:"body"`              // an inventory in JSON, as inventory.Document
	List    bool              `json:"list,omitempty"`    // Body is what a program prints for --list
	Records map[string]string `json:"records,omitempty"` // host to the record of it in the other system
	Paths   map[string]string `json:"paths,omitempty"`   // our field to its path in a record
	Left    []string          `json:"left,omitempty"`    // records that were left out, each with the reason
	Total   int               `json:"left_total,omitempty"`
}

// ID identifies the content, whenever it was fetched: sha256:HEX.
func (g *Generation) ID() string {
	content := *g
	content.Fetched = time.Time{}
	data, _ := json.Marshal(content) // plain text and maps of text
	return digest(data)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Document is the generation as a part of an inventory. Hosts that name no customer are tenant's.
func (g *Generation) Document(tenant string) inventory.Document {
	return inventory.Document{Name: documentName(g.Source), Data: []byte(g.Body), List: g.List, Customer: tenant, From: g.from}
}

// from is where the other system has a value of a host.
func (g *Generation) from(host, field string) string {
	record, path := g.Records[host], g.Paths[field]
	if record == "" || path == "" {
		return record
	}
	return record + " " + path
}

// leave notes a record that is no host.
func (g *Generation) leave(record, why string) {
	if g.Total++; len(g.Left) < maxProblems {
		g.Left = append(g.Left, record+": "+why)
	}
}

// Summary reads the generation. An error means that it is no inventory.
func (g *Generation) Summary(ctx context.Context) (Summary, error) {
	inv, err := inventory.Load(ctx, nil, g.Document(""))
	if err != nil {
		return Summary{}, err
	}
	s := Summary{ID: g.ID(), Fetched: g.Fetched}
	for i := range inv.Hosts {
		s.Hosts = append(s.Hosts, inv.Hosts[i].Name)
	}
	slices.Sort(s.Hosts)
	return s, nil
}

// Encode writes the generation for the ledger.
func (g *Generation) Encode() ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := json.NewEncoder(w).Encode(g); err != nil {
		return nil, fmt.Errorf("write generation of source %s: %w", g.Source, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write generation of source %s: %w", g.Source, err)
	}
	return b.Bytes(), nil
}

// Decode reads what Encode wrote.
func Decode(data []byte) (*Generation, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read generation: %w: %w", err, core.ErrInvalid)
	}
	g := &Generation{}
	if err := json.NewDecoder(io.LimitReader(r, maxEncoded)).Decode(g); err != nil {
		return nil, fmt.Errorf("read generation: %w: %w", err, core.ErrInvalid)
	}
	return g, nil
}

// Difference is the difference between a generation and the one before.
type Difference struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []Change `json:"changed"`
}

// Change is a host of both generations of which values differ.
type Change struct {
	Host   string   `json:"host"`
	Fields []string `json:"fields"`
}

// Diff compares two generations; either may be nil. Fields are names, not values.
func Diff(ctx context.Context, before, after *Generation) (Difference, error) {
	d := Difference{Added: []string{}, Removed: []string{}, Changed: []Change{}}
	was, err := hostsOf(ctx, before)
	if err != nil {
		return d, err
	}
	is, err := hostsOf(ctx, after)
	if err != nil {
		return d, err
	}
	for name, h := range is {
		old, had := was[name]
		if !had {
			d.Added = append(d.Added, name)
		} else if fields := changed(old, h); len(fields) > 0 {
			d.Changed = append(d.Changed, Change{name, fields})
		}
	}
	for name := range was {
		if _, has := is[name]; !has {
			d.Removed = append(d.Removed, name)
		}
	}
	slices.Sort(d.Added)
	slices.Sort(d.Removed)
	slices.SortFunc(d.Changed, func(a, b Change) int { return strings.Compare(a.Host, b.Host) })
	return d, nil
}

func hostsOf(ctx context.Context, g *Generation) (map[string]map[string]any, error) {
	if g == nil {
		return nil, nil
	}
	inv, err := inventory.Load(ctx, nil, g.Document(""))
	if err != nil {
		return nil, err
	}
	all := make(map[string]map[string]any, len(inv.Hosts))
	for i := range inv.Hosts {
		data, err := json.Marshal(inv.Hosts[i])
		if err != nil {
			return nil, fmt.Errorf("compare generations: %w", err)
		}
		var fields map[string]any
		if err := json.Unmarshal(data, &fields); err != nil {
			return nil, fmt.Errorf("compare generations: %w", err)
		}
		all[inv.Hosts[i].Name] = fields
	}
	return all, nil
}

// changed names the fields of two hosts that differ; of vars, labels and ssh each one.
func changed(was, is map[string]any) (fields []string) {
	compareFields("", was, is, 0, &fields)
	slices.Sort(fields)
	return fields
}

func compareFields(prefix string, was, is map[string]any, depth int, into *[]string) {
	seen := func(name string) {
		a, b := was[name], is[name]
		if reflect.DeepEqual(a, b) {
			return
		}
		one, isMap := a.(map[string]any)
		two, areMaps := b.(map[string]any)
		if depth == 0 && (isMap || a == nil) && (areMaps || b == nil) {
			compareFields(name+".", one, two, depth+1, into)
			return
		}
		*into = append(*into, prefix+name)
	}
	for name := range was {
		seen(name)
	}
	for name := range is {
		if _, both := was[name]; !both {
			seen(name)
		}
	}
}
