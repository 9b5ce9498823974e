package sources

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/yamlread"
)

// Kind is the kind of system that a source asks.
type Kind string

// The kinds of sources.
const (
	NetBox Kind = "netbox"
	HTTP   Kind = "http"
	Exec   Kind = "exec"
)

// Bounds and defaults of settings.
const (
	maxSettings    = 1 << 20
	maxSources     = 50
	maxFilters     = 100
	maxTenant      = 200 // bytes
	minEvery       = 10 * time.Second
	maxAge         = 90 * 24 * time.Hour
	defaultEvery   = 10 * time.Minute
	defaultMaxAge  = 24 * time.Hour
	defaultRemoved = 5
)

// Source is one entry of the file of sources.
type Source struct {
	Name    string
	Kind    Kind
	URL     *url.URL // of netbox and http
	Program string   // of exec: an absolute path
	Tenant  string   // of its hosts; "": the customer that each host names
	Token   string   // name of the secret to authenticate with; "" is none
	CA      string   // file of certificate authorities, in addition to the system's
	Records []string // of netbox: devices, virtual-machines
	Filter  url.Values
	Map     map[string]string // of netbox: our field to the path in a record
	Every   time.Duration     // between fetches
	MaxAge  time.Duration     // of the last good fetch, before launches are refused
	Rules   Rules
	File    string // where it is defined
	Line    int
	Given   string // how the person who types names File: -i sources.yaml; "" for a source of a server
}

// Place is where the source is defined.
func (s Source) Place() string { return s.File + ":" + strconv.Itoa(s.Line) }

// Review returns the command that shows the last fetch and the generation that waits.
func (s Source) Review() string {
	return "turnus inventory diff " + s.Name + " " + cmp.Or(s.Given, "--context NAME")
}

// Document is the name of what the source gives, in places and messages.
func (s Source) Document() string { return documentName(s.Name) }

func documentName(source string) string { return "source " + source }

var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`) })

// ReadFile reads a file of sources. It names programs and secrets, so that another user who may
// write it is an error.
func ReadFile(path string) ([]Source, error) {
	data, err := securefile.Read(path, securefile.Rule{Most: maxSettings, Shut: 0o022, Owned: true})
	if err != nil {
		return nil, fmt.Errorf("read sources: %w: %w", err, core.ErrInvalid)
	}
	return Parse(path, data)
}

// IsFile reports whether data is a file of sources: a YAML mapping with the key sources.
func IsFile(data []byte) bool {
	root, err := yamlread.Root(data)
	if err != nil || root == nil || root.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "sources" {
			return true
		}
	}
	return false
}

// Parse reads a file of sources. Errors are yamlread.Problems with everything that is wrong.
func Parse(file string, data []byte) ([]Source, error) {
	var problems yamlread.Problems
	r, root := problems.OpenSecret(file, data) // a token may be written in the place of its name
	var all []Source
	if root != nil {
		r.Mapping(root, "the file of sources", yamlread.Field{Key: "sources", Required: true, Want: "a mapping of names to sources", Read: func(n *yaml.Node) {
			for _, p := range r.Pairs(n, "sources") {
				all = append(all, parseSource(r, file, p))
			}
		}})
	}
	if len(all) > maxSources {
		problems = append(problems, yamlread.Problem{File: file, Fault: yamlread.Fault{Message: fmt.Sprintf("%d sources, expected at most %d", len(all), maxSources)}})
	}
	return all, problems.Err()
}

func parseSource(r *yamlread.Reader, file string, p yamlread.Pair) Source {
	s := Source{
		Name: p.Name, File: file, Line: p.Key.Line, Records: []string{"devices"}, Filter: url.Values{}, Map: defaultMap(),
		Every: defaultEvery, MaxAge: defaultMaxAge, Rules: Rules{Removed: defaultRemoved},
	}
	if !nameForm().MatchString(s.Name) {
		r.Fail(p.Key, yamlread.Fault{Message: "source " + yamlread.Quote(s.Name), Expected: "a name of lower-case letters, digits and -"})
	}
	given := map[string]*yaml.Node{}
	fields := []yamlread.Field{
		yamlread.Choice(r, "type", &s.Kind, NetBox, HTTP, Exec).Needed(),
		yamlread.Value(r, "url", &s.URL, parseURL),
		yamlread.Value(r, "program", &s.Program, func(text string) (string, error) { return parsePath(file, text) }),
		yamlread.Value(r, "tenant", &s.Tenant, parseTenant),
		yamlread.Value(r, "token", &s.Token, parseSecretName),
		yamlread.Value(r, "ca_file", &s.CA, func(text string) (string, error) { return parsePath(file, text) }),
		{Key: "records", Want: "devices, virtual-machines, or a list of both", Read: func(n *yaml.Node) { s.Records = parseRecords(r, n) }},
		{Key: "filter", Want: "a mapping of names to values", Read: func(n *yaml.Node) { parseFilter(r, n, s.Filter) }},
		{Key: "map", Want: "a mapping of fields to paths in a record", Read: func(n *yaml.Node) { parseMap(r, n, s.Map) }},
		yamlread.Value(r, "every", &s.Every, durationWithin(minEvery, 24*time.Hour)),
		yamlread.Value(r, "max_age", &s.MaxAge, durationWithin(time.Minute, maxAge)),
		{Key: "review", Want: "{removed: 5%}", Read: func(n *yaml.Node) {
			r.Mapping(n, "review", yamlread.Value(r, "removed", &s.Rules.Removed, parsePercent))
		}},
	}
	for i, f := range fields {
		fields[i].Read = func(n *yaml.Node) { given[f.Key] = r.Key(); f.Read(n) }
	}
	if r.Mapping(p.Value, "source "+yamlread.Quote(s.Name), fields...) {
		s.check(r, p.Key, given)
	}
	return s
}

// commonKeys are the keys of every source.
func commonKeys() []string { return []string{"type", "tenant", "every", "max_age", "review"} }

// keysOf returns the other keys of a kind of source. The first is required.
func keysOf(kind Kind) []string {
	switch kind {
	case NetBox:
		return []string{"url", "token", "ca_file", "records", "filter", "map"}
	case HTTP:
		return []string{"url", "token", "ca_file"}
	}
	return []string{"program", "token"}
}

// check reports keys that are missing, or that the kind of the source does not have.
func (s Source) check(r *yamlread.Reader, at *yaml.Node, given map[string]*yaml.Node) {
	keys := slices.Concat(commonKeys(), keysOf(s.Kind))
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(keys, key) {
			r.Fail(given[key], yamlread.Fault{Message: fmt.Sprintf("%s: a source of type %s has no such key", key, s.Kind), Hint: "keys: " + strings.Join(keys, ", ")})
		}
	}
	if first := keysOf(s.Kind)[0]; given[first] == nil {
		r.Failf(at, "source %s: %s is missing", yamlread.Quote(s.Name), first)
	}
	if s.MaxAge < s.Every {
		r.Fail(at, yamlread.Fault{Message: fmt.Sprintf("source %s: max_age %v is shorter than every %v", yamlread.Quote(s.Name), s.MaxAge, s.Every), Hint: "launches would be refused between two fetches"})
	}
	if s.Token != "" && s.URL != nil && s.URL.Scheme == "http" && !core.ThisMachine(s.URL.Hostname()) {
		r.Fail(at, yamlread.Fault{Message: fmt.Sprintf("source %s: the token would cross the network in the clear", yamlread.Quote(s.Name)), Expected: "an https URL"})
	}
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
		return nil, yamlread.Fault{Expected: "a URL, such as https://netbox.example.net"}
	}
	if u.User != nil {
		return nil, yamlread.Fault{Expected: "a URL without a user or a password", Hint: "name a secret in token:"}
	}
	return u, nil
}

// parsePath reads a path that is relative to the file's folder.
func parsePath(file, text string) (string, error) {
	if !filepath.IsAbs(text) && !fs.ValidPath(filepath.ToSlash(filepath.Clean(text))) {
		return "", yamlread.Fault{Expected: "an absolute path, or one below the folder of the file"}
	}
	if filepath.IsAbs(text) {
		return filepath.Clean(text), nil
	}
	return filepath.Abs(filepath.Join(filepath.Dir(file), text))
}

func parseTenant(text string) (string, error) {
	if text == "" || len(text) > maxTenant || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", yamlread.Fault{Expected: "the name of a customer of the inventory, such as acme"}
	}
	return text, nil
}

// parseSecretName refuses what looks like the token itself.
func parseSecretName(text string) (string, error) {
	if !secrets.ValidName(text) || strings.HasPrefix(text, bearerPrefix) {
		return "", yamlread.Fault{Expected: "the name of a secret in the file of secrets (--secrets), such as netbox-token, not the secret itself"}
	}
	return text, nil
}

func parseRecords(r *yamlread.Reader, n *yaml.Node) (all []string) {
	for _, item := range r.OneOrMore(n, "devices, virtual-machines, or a list of both") {
		var word string
		yamlread.Parse(r, item, &word, yamlread.Words(slices.Sorted(maps.Keys(recordPaths))...))
		if word != "" && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return all
}

// ownFilters are set by the client itself.
var ownFilters = []string{"limit", "offset", "start", "ordering", "fields", "omit", "exclude", "brief", "format"}

func parseFilter(r *yamlread.Reader, n *yaml.Node, into url.Values) {
	for _, p := range r.Pairs(n, "filter") {
		if slices.Contains(ownFilters, p.Name) {
			r.Failf(p.Key, "filter %s is not a filter: Turnus sets it itself", yamlread.Quote(p.Name))
			continue
		}
		values := r.OneOrMore(p.Value, "a value or a list of values")
		if target := yamlread.Target(p.Value); target.Kind == yaml.SequenceNode && len(target.Content) == 0 {
			failEmpty(r, p.Value, p.Name)
		}
		for _, v := range values {
			if v.Value == "" {
				failEmpty(r, v, p.Name)
			}
			into.Add(p.Name, v.Value)
		}
	}
	if len(into) > maxFilters {
		r.Failf(n, "%d filters, expected at most %d", len(into), maxFilters)
	}
}

func failEmpty(r *yamlread.Reader, at *yaml.Node, name string) {
	r.Fail(at, yamlread.Fault{
		Message: fmt.Sprintf("filter %s has no value: NetBox would answer with all records", yamlread.Quote(name)),
		Hint:    "give it a value, or remove the filter",
	})
}

var (
	plainFields = []string{"address", "customer", "site", "window_set", "pool", "ha_group", "user", "port", "credential", "host_key", "groups"}
	pathForm    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_]+(\.[A-Za-z0-9_-]+)*$`) })
)

func parseMap(r *yamlread.Reader, n *yaml.Node, into map[string]string) {
	for _, p := range r.Pairs(n, "map") {
		known := slices.Contains(plainFields, p.Name)
		for _, prefix := range []string{"labels.", "vars."} {
			name, ok := strings.CutPrefix(p.Name, prefix)
			known = known || ok && name != ""
		}
		if !known {
			r.Fail(p.Key, yamlread.Fault{Message: "map " + yamlread.Quote(p.Name), Expected: strings.Join(plainFields, ", ") + ", labels.NAME or vars.NAME", Hint: yamlread.DidYouMean(p.Name, plainFields)})
			continue
		}
		if yamlread.IsNull(p.Value) {
			delete(into, p.Name)
			continue
		}
		if v, ok := r.Scalar(p.Value, "a path in a record, such as tenant.slug"); ok {
			if !pathForm().MatchString(v.Value) {
				r.Fail(p.Value, yamlread.Fault{Message: "map " + p.Name, Expected: "a path in a record, such as custom_fields.window_set"})
				continue
			}
			into[p.Name] = v.Value
		}
	}
}

func durationWithin(low, high time.Duration) func(string) (time.Duration, error) {
	return func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil || d < low || d > high {
			return 0, yamlread.Fault{Expected: fmt.Sprintf("a duration from %v to %v", low, high)}
		}
		return d, nil
	}
}

func parsePercent(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !strings.HasSuffix(text, "%") || !(n >= 0 && n <= 100) {
		return 0, yamlread.Fault{Expected: "a part of all hosts, such as 5%"}
	}
	return n, nil
}
