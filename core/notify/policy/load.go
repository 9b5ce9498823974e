package policy

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/mail"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// Bounds of what is read.
const (
	MaxChannels = 200 // of one owner
	MaxRoutes   = 500 // of one owner
	MaxTenants  = 10_000
	maxTo       = 50
	maxText     = 2000 // bytes of an address
)

// Document is one file.
type Document struct {
	File string
	Data []byte
}

// Parse reads the files of one tree together. Problems are all that were found; the policy is nil
// then.
func Parse(docs ...Document) (*Policy, yamlread.Problems) {
	p := &parser{policy: &Policy{Service: newSection(), Tenants: map[string]Section{}}}
	for _, d := range docs {
		p.file = d.File
		var root *yaml.Node
		if p.Reader, root = p.problems.OpenSecret(d.File, d.Data); root != nil { // an address may hold a password
			p.document(root)
		}
	}
	p.names()
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	return p.policy, nil
}

func newSection() Section { return Section{Channels: map[string]*Channel{}} }

type parser struct {
	*yamlread.Reader
	policy   *Policy
	file     string
	problems yamlread.Problems
	named    []named // names in routes, looked up when all channels are known
}

// named is a channel that a route names.
type named struct {
	file string
	Place
	at *yaml.Node
}

func (p *parser) document(root *yaml.Node) {
	tenants := yamlread.Field{Key: "tenants", Read: p.tenants}
	p.Mapping(root, "the file", append(p.section(Place{Service: true}, &p.policy.Service), tenants)...)
}

func (p *parser) tenants(n *yaml.Node) {
	all := p.Pairs(n, "tenants")
	if len(all) > MaxTenants {
		p.Failf(n, "%d tenants: expected %d at most", len(all), MaxTenants)
		return
	}
	for _, t := range all {
		if t.Name == "" || len(t.Name) > 100 {
			p.Failf(t.Key, "a tenant's name has 1 to 100 bytes")
			continue
		}
		s, ok := p.policy.Tenants[t.Name]
		if !ok {
			s = newSection()
		}
		p.Mapping(t.Value, "tenant "+t.Name, p.section(Place{Tenant: t.Name}, &s)...)
		p.policy.Tenants[t.Name] = s
	}
}

// section is the fields of channels and routes of one owner.
func (p *parser) section(of Place, s *Section) []yamlread.Field {
	return []yamlread.Field{
		{Key: "channels", Read: func(n *yaml.Node) {
			for _, c := range p.Pairs(n, "channels") {
				p.channel(c, s.Channels)
			}
		}},
		p.Each("routes", MaxRoutes, func(n *yaml.Node) { s.Routes = append(s.Routes, p.route(n, of)) }),
	}
}

var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`) })

func (p *parser) channel(pair yamlread.Pair, into map[string]*Channel) {
	name, n := pair.Name, pair.Value
	switch {
	case !namePattern().MatchString(name):
		p.Failf(pair.Key, "%s is not a name: expected letters, digits, dots, dashes and underscores, 64 at most", yamlread.Quote(name))
		return
	case name == Own:
		p.Failf(pair.Key, "%q is the name of the channel that the server's own flags define: choose another", Own)
		return
	case into[name] != nil:
		p.Failf(pair.Key, "channel %q is there twice", name)
		return
	case len(into) >= MaxChannels:
		p.Failf(pair.Key, "more than %d channels", MaxChannels)
		return
	}
	c, found := &Channel{Name: name}, 0
	into[name] = c
	before := len(p.problems)
	p.Mapping(n, "channel "+name,
		yamlread.Field{Key: MediumWebhook, Read: func(n *yaml.Node) {
			found, c.Webhook = found+1, &Webhook{}
			p.Mapping(n, MediumWebhook, p.url(&c.Webhook.URL), p.secret("sign", &c.Webhook.Sign))
		}},
		yamlread.Field{Key: MediumEmail, Read: func(n *yaml.Node) { found, c.Email = found+1, p.email(n) }},
		yamlread.Field{Key: MediumSlack, Read: func(n *yaml.Node) {
			found, c.Slack = found+1, &Slack{}
			p.Mapping(n, MediumSlack, p.url(&c.Slack.URL))
		}})
	if found != 1 && len(p.problems) == before {
		p.Failf(n, "channel %s: expected one of %s", name, strings.Join(Media(), ", "))
	}
}

func (p *parser) email(n *yaml.Node) *Email {
	e := &Email{TLS: StartTLS}
	before := len(p.problems)
	p.Mapping(n, MediumEmail,
		p.texts("to", maxTo, &e.To, address, nil).Needed(),
		yamlread.Value(p.Reader, "from", &e.From, address),
		yamlread.Value(p.Reader, "server", &e.Server, func(text string) (string, error) {
			if host, port, err := net.SplitHostPort(text); err != nil || host == "" || port == "" {
				return "", yamlread.Fault{Expected: "HOST:PORT, as smtp.example.net:587"}
			}
			return oneLine(text)
		}),
		yamlread.Choice(p.Reader, "tls", &e.TLS, StartTLS, TLS, None),
		yamlread.Value(p.Reader, "username", &e.Username, oneLine),
		p.secret("password", &e.Password))
	switch {
	case len(p.problems) > before:
	case len(e.To) == 0:
		p.Failf(n, "email: expected to: [noc@example.net]")
	case e.Server == "" && (e.Username != "" || e.Password != "" || e.TLS != StartTLS):
		p.Failf(n, "email: username, password and tls are of a server of its own: expected server: HOST:PORT beside them")
	case e.Server != "" && e.From == "":
		p.Failf(n, "email: a server of its own needs from: ADDRESS")
	case (e.Username == "") != (e.Password == ""):
		p.Failf(n, "email: username and password go together")
	case e.Password != "" && e.TLS == None:
		p.Failf(n, "email: a password would cross the network in the clear: expected tls: starttls or tls")
	}
	return e
}

// schedulesLost is a kind that earlier versions had. Routes of the service may still name it, and
// get nothing by it.
const schedulesLost = "schedules_lost"

func (p *parser) route(n *yaml.Node, of Place) Route {
	var r Route
	before := len(p.problems)
	p.Mapping(n, "a route",
		p.texts("kinds", len(Kinds()), &r.Kinds, of.kind, nil),
		p.texts("playbooks", MaxRoutes, &r.Playbooks, pattern, nil),
		yamlread.Choice(p.Reader, "severity", &r.Severity, Severities()...),
		p.texts("to", maxTo, &r.To, oneLine, func(name string, n *yaml.Node) {
			p.named = append(p.named, named{p.file, Place{of.Service, of.Tenant, name}, n})
		}).Needed())
	if len(r.To) == 0 && len(p.problems) == before {
		p.Failf(n, "a route: expected to: [CHANNEL]")
	}
	return r
}

// kind reads a kind that a route of the owner may name. A former name is read as the present one.
func (of Place) kind(text string) (string, error) {
	if text == schedulesLost && of.Service {
		return text, nil
	}
	k, ok := Find(text)
	if ok && !of.Service && !k.Tenant {
		return "", yamlread.Fault{Expected: "a kind that is about one tenant; routes of the service, beside tenants:, may name this one"}
	}
	return yamlread.Words(Names()...)(cmp.Or(k.Name, text))
}

func pattern(text string) (string, error) {
	if _, err := path.Match(text, ""); err != nil {
		return "", yamlread.Fault{Expected: "a pattern: a name, with * or ? in it"}
	}
	return oneLine(text)
}

// names looks the channels of routes up.
func (p *parser) names() {
	for _, n := range p.named {
		if n.Service && n.Channel == Own || p.policy.Channel(n.Place) != nil {
			continue
		}
		known, whose := p.policy.Service.Channels, "the service"
		if !n.Service {
			known, whose = p.policy.Tenants[n.Tenant].Channels, "tenant "+n.Tenant
		}
		names := slices.Sorted(maps.Keys(known))
		p.problems.Reader(n.file).Fail(n.at, yamlread.Fault{Message: fmt.Sprintf("%s has no channel %s", whose, yamlread.Quote(n.Channel)),
			Expected: cmp.Or(yamlread.OneOf(names), "one of its channels, of which there are none"), Hint: yamlread.DidYouMean(n.Channel, names)})
	}
	slices.SortStableFunc(p.problems, func(a, b yamlread.Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
}

// texts is a field of a list of texts; noted, where given, gets each with its place.
func (p *parser) texts(key string, most int, into *[]string, parse func(string) (string, error), noted func(text string, at *yaml.Node)) yamlread.Field {
	return p.Each(key, most, func(item *yaml.Node) {
		var text string
		yamlread.Parse(p.Reader, item, &text, parse)
		if text == "" {
			return
		}
		if *into = append(*into, text); noted != nil {
			noted(text, item)
		}
	})
}

func oneLine(text string) (string, error) {
	if text == "" || len(text) > maxText || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", yamlread.Fault{Expected: fmt.Sprintf("text of one line, %d bytes at most", maxText)}
	}
	return text, nil
}

// secret is a field of {secret: NAME}. Another value there is not repeated: it may be the secret
// itself.
func (p *parser) secret(key string, name *string) yamlread.Field {
	return yamlread.Field{Key: key, Read: func(n *yaml.Node) {
		if target, ok := p.Follow(n); ok && target.Kind != yaml.MappingNode {
			p.Fail(n, yamlread.Fault{Message: key + ": a secret must not be in the project", Expected: "{secret: NAME}",
				Hint: "the server's own file of secrets (--secrets) has where the value of NAME is"})
			return
		}
		p.Mapping(n, key, yamlread.Field{Key: "secret", Want: "NAME", Required: true, Read: func(n *yaml.Node) {
			if v, ok := p.Follow(n); !ok || v.Kind != yaml.ScalarNode || !namePattern().MatchString(v.Value) {
				p.Failf(n, "%s: expected the name of a secret", key)
			} else {
				*name = v.Value
			}
		}})
	}}
}

// url is a field of an address, or of the name of the secret that is one.
func (p *parser) url(into *Text) yamlread.Field {
	secret := p.secret("url", &into.Secret)
	return yamlread.Field{Key: "url", Want: "https://…, or {secret: NAME}", Required: true, Read: func(n *yaml.Node) {
		target, ok := p.Follow(n)
		switch {
		case !ok:
		case target.Kind == yaml.MappingNode:
			secret.Read(n)
		case target.Kind != yaml.ScalarNode || len(target.Value) > maxText:
			p.Failf(n, "url: expected https://…, or {secret: NAME}, %d bytes at most", maxText)
		default:
			if err := CheckURL(target.Value); err != nil {
				p.Failf(n, "url: %v", err)
			}
			into.Plain = target.Value
		}
	}}
}

// CheckURL reports what is wrong with the address of a webhook, without repeating it: it may hold a
// password.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("expected http://… or https://…")
	}
	return nil
}

func address(text string) (string, error) {
	if text, err := oneLine(text); err != nil {
		return text, err
	}
	if a, err := mail.ParseAddress(text); err != nil || strings.ContainsAny(a.Address, "\r\n") {
		return "", yamlread.Fault{Expected: "a mail address, as NAME@DOMAIN"}
	}
	return text, nil
}
