package sources

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// recordPaths are the lists of NetBox that have hosts, below the URL of the source.
var recordPaths = map[string]string{
	"devices":          "api/dcim/devices/",
	"virtual-machines": "api/virtualization/virtual-machines/",
}

const (
	pageSize   = 1000 // NetBox gives no more, unless it is configured so
	maxRecords = 100_000
	maxPages   = 2 * maxRecords / pageSize
)

// fetchNetBox reads whole lists. NetBox answers a filter that it does not know with everything, so
// the names are checked by its own schema first.
func fetchNetBox(ctx context.Context, c *client, s Source, g *Generation) error {
	schema, err := readSchema(ctx, c, s)
	if err != nil {
		return err
	}
	var records []record
	for _, kind := range s.Records {
		known, ok := schema[kind]
		if !ok {
			return fmt.Errorf("the schema of NetBox has no list of %s: is %s NetBox itself? %w", kind, s.URL, core.ErrInvalid)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Filter)) {
			if !slices.Contains(known, name) {
				hint := yamlread.DidYouMean(name, known)
				if hint != "" {
					hint = "\nhint: " + hint
				}
				return fmt.Errorf("filter %s: NetBox has no such filter for %s and would answer with all of them: %w%s", yamlread.Quote(name), kind, core.ErrInvalid, hint)
			}
		}
		l := &listing{c: c, kind: kind, at: s.URL.JoinPath(recordPaths[kind]), query: s.query(slices.Contains(known, "start")), uses: s.uses()}
		all, err := l.read(ctx)
		if err != nil {
			return err
		}
		records = append(records, all...)
	}
	return s.translate(records, g)
}

// query is that of the first page.
func (s Source) query(cursor bool) url.Values {
	q := url.Values{"limit": {strconv.Itoa(pageSize)}}
	maps.Copy(q, s.Filter)
	if cursor {
		q.Set("start", "0")
	} else {
		q.Set("ordering", "id")
		q.Set("offset", "0")
	}
	contexts := func(path string) bool { return strings.HasPrefix(path, "config_context") }
	if !slices.ContainsFunc(slices.Collect(maps.Values(s.Map)), contexts) {
		q.Set("exclude", "config_context") // NetBox takes long to make it
	}
	return q
}

// uses are the keys of a record that become values of a host.
func (s Source) uses() map[string]bool {
	keys := map[string]bool{"id": true, "name": true}
	for _, path := range s.Map {
		key, _, _ := strings.Cut(path, ".")
		keys[key] = true
	}
	return keys
}

// record is one object of NetBox.
type record struct {
	kind   string
	id     int64
	fields map[string]any
}

// place is where people find it in NetBox.
func (r record) place() string { return r.kind + "/" + strconv.FormatInt(r.id, 10) }

// listing reads one list page by page.
type listing struct {
	c     *client
	kind  string
	at    *url.URL
	query url.Values
	uses  map[string]bool // the keys of records that are kept
}

type page struct {
	Count   *int              `json:"count"`
	Next    *string           `json:"next"`
	Results *[]map[string]any `json:"results"`
}

// read returns all records. Pages by offset repeat and skip records that change meanwhile, so each
// page begins with the last record of the page before, and the ids must be as many as NetBox
// counts. A cursor continues by id, and counts nothing.
func (l *listing) read(ctx context.Context) ([]record, error) {
	var all []record
	seen := map[int64]bool{}
	cursor := l.query.Has("start")
	count := -1
	for n, last := 0, int64(0); ; n++ {
		if n >= maxPages || len(all) > maxRecords {
			return nil, fmt.Errorf("%s: more than %d records or %d pages: %w", l.kind, maxRecords, maxPages, core.ErrInvalid)
		}
		p, err := l.page(ctx)
		if err != nil {
			return nil, err
		}
		if !cursor {
			if p.Count == nil || count >= 0 && *p.Count != count {
				return nil, l.unstable("the number of records changed between two pages")
			}
			count = *p.Count
		}
		for _, fields := range *p.Results {
			maps.DeleteFunc(fields, func(key string, _ any) bool { return !l.uses[key] }) // thousands of records stay in memory
			r := record{kind: l.kind, fields: fields}
			id, ok := fields["id"].(json.Number)
			if ok {
				r.id, err = id.Int64()
			}
			if !ok || err != nil || r.id <= 0 {
				return nil, fmt.Errorf("%s: a record has no id: %w", l.kind, core.ErrInvalid)
			}
			if last != 0 && r.id != last {
				return nil, l.unstable(fmt.Sprintf("record %d moved between two pages", last))
			}
			if r.id == last { // the page begins with it
				last = 0
				continue
			}
			if seen[r.id] {
				return nil, l.unstable(fmt.Sprintf("record %d came twice", r.id))
			}
			seen[r.id] = true
			all = append(all, r)
		}
		if p.Next == nil {
			break
		}
		if len(*p.Results) == 0 {
			return nil, l.unstable("a page is empty and has a next one")
		}
		if err := l.follow(*p.Next, cursor); err != nil {
			return nil, err
		}
		if !cursor {
			last = all[len(all)-1].id
		}
	}
	if count >= 0 && len(all) != count {
		return nil, l.unstable(fmt.Sprintf("%d of %d records came", len(all), count))
	}
	return all, nil
}

func (l *listing) unstable(why string) error {
	return fmt.Errorf("%s: the pages do not make a whole: %s; the next fetch tries again: %w", l.kind, why, core.ErrUnavailable)
}

// page reads one page.
func (l *listing) page(ctx context.Context) (p page, err error) {
	u := *l.at
	u.RawQuery = l.query.Encode()
	err = l.c.get(ctx, &u, func(r io.Reader) error {
		dec := json.NewDecoder(r)
		dec.UseNumber()
		if dec.Decode(&p) != nil { // its error may quote the answer
			return fmt.Errorf("the answer is not the JSON of a list, or it broke off: %w", core.ErrInvalid)
		}
		if p.Results == nil {
			return fmt.Errorf("the answer has no results: is this NetBox? %w", core.ErrInvalid)
		}
		return nil
	})
	return p, err
}

// follow takes over where the next page begins, by offset one record before that, and nothing else:
// behind a proxy the host of next is often wrong, and its query must not lose the filters.
func (l *listing) follow(next string, cursor bool) error {
	u, err := url.Parse(next)
	if err != nil {
		return fmt.Errorf("%s: next is no URL: %w", l.kind, core.ErrInvalid)
	}
	key := "offset"
	if cursor {
		key = "start"
	}
	was, _ := strconv.ParseInt(l.query.Get(key), 10, 64) // it is ours
	is, err := strconv.ParseInt(u.Query().Get(key), 10, 64)
	if !cursor {
		is--
	}
	if err != nil || is <= was {
		return l.unstable("next does not lead on by " + key)
	}
	l.query.Set(key, strconv.FormatInt(is, 10))
	return nil
}

// readSchema returns the names of query parameters by kind of record.
func readSchema(ctx context.Context, c *client, s Source) (map[string][]string, error) {
	known := map[string][]string{}
	at := s.URL.JoinPath("api/schema/")
	at.RawQuery = "format=json"
	err := c.get(ctx, at, func(r io.Reader) error {
		if err := schemaParameters(json.NewDecoder(r), known); err != nil {
			return fmt.Errorf("the answer is not an OpenAPI schema in JSON: %w", core.ErrInvalid)
		}
		return nil
	})
	if err == nil && len(known) == 0 {
		err = fmt.Errorf("the schema at %s describes no lists of NetBox: check url: of the source: %w", s.URL, core.ErrInvalid)
	}
	return known, err
}

// schemaParameters reads the parameters of the lists, one path at a time: the whole schema has
// megabytes.
func schemaParameters(dec *json.Decoder, into map[string][]string) error {
	return eachKey(dec, func(key string) error {
		if key != "paths" {
			return skip(dec)
		}
		return eachKey(dec, func(path string) error {
			for kind, suffix := range recordPaths {
				if strings.HasSuffix(path, "/"+suffix) {
					var operations struct {
						Get struct {
							Parameters []struct {
								Name string `json:"name"`
								In   string `json:"in"`
							} `json:"parameters"`
						} `json:"get"`
					}
					if err := dec.Decode(&operations); err != nil {
						return err
					}
					for _, p := range operations.Get.Parameters {
						if p.In == "query" {
							into[kind] = append(into[kind], p.Name)
						}
					}
					return nil
				}
			}
			return skip(dec)
		})
	})
}

func eachKey(dec *json.Decoder, read func(key string) error) error {
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return fmt.Errorf("expected an object: %w", core.ErrInvalid)
	}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		if err := read(fmt.Sprint(tok)); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

func skip(dec *json.Decoder) error {
	var ignored json.RawMessage
	return dec.Decode(&ignored)
}
