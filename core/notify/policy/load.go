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

// Problem is something wrong at a place of a file.
type Problem struct {
	File          string
	Line, Col     int
	Message, Hint string
}

// Parse reads the files of one tree together. Problems are all that were found; the policy is nil then.
func Parse(docs ...Document) (*Policy, []Problem) {
	p := &parser{policy: &Policy{Service: Section{Channels: map[string]*Channel{}}, Tenants: map[string]Section{}}}
	for _, d := range docs {
		p.file = d.File
		p.document(d.Data)
	}
	p.names()
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	return p.policy, nil
}

type parser struct {
	policy   *Policy
	file     string
	problems []Problem
	named    []named // names in routes, looked up when all channels are known
}

// named is a channel that a route names.
type named struct {
	file, tenant string
	service      bool
	at           *yaml.Node
}

func (p *parser) fail(n *yaml.Node, hint, format string, args ...any) {
	p.problems = append(p.problems, Problem{p.file, n.Line, n.Column, fmt.Sprintf(format, args...), hint})
}

func (p *parser) document(data []byte) {
	root, err := yamlread.Root(data)
	if err != nil {
		p.problems = append(p.problems, Problem{File: p.file, Message: "not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")})
		return
	}
	if root == nil {
		return
	}
	var tenants *yaml.Node
	top := map[string]func(*yaml.Node){"tenants": func(n *yaml.Node) { tenants = n }}
	section := p.section(Place{Service: true}, p.policy.Service, top)
	p.keys(root, "the file", section.readers)
	p.policy.Service = section.Section
	if tenants == nil {
		return
	}
	readers := map[string]func(*yaml.Node){}
	for i := 0; tenants.Kind == yaml.MappingNode && i+1 < len(tenants.Content); i += 2 {
		name := tenants.Content[i].Value
		readers[name] = func(n *yaml.Node) {
			if name == "" || len(name) > 100 {
				p.fail(tenants, "", "a tenant's name has 1 to 100 bytes")
				return
			}
			had, ok := p.policy.Tenants[name]
			if !ok {
				had = Section{Channels: map[string]*Channel{}}
			}
			s := p.section(Place{Tenant: name}, had, nil)
			p.keys(n, "tenant "+name, s.readers)
			p.policy.Tenants[name] = s.Section
		}
	}
	if len(readers) > MaxTenants {
		p.fail(tenants, "", "%d tenants: expected %d at most", len(readers), MaxTenants)
		return
	}
	p.keys(tenants, "tenants", readers)
}

type section struct {
	Section
	readers map[string]func(*yaml.Node)
}

// section reads channels and routes of one owner, besides more.
func (p *parser) section(of Place, had Section, more map[string]func(*yaml.Node)) *section {
	s := &section{Section: had}
	s.readers = map[string]func(*yaml.Node){
		"channels": func(n *yaml.Node) { p.channels(n, s.Channels) },
		"routes": func(n *yaml.Node) {
			for _, item := range p.list(n, "routes", MaxRoutes) {
				s.Routes = append(s.Routes, p.route(item, of))
			}
		},
	}
	maps.Copy(s.readers, more)
	return s
}

func (p *parser) channels(n *yaml.Node, into map[string]*Channel) {
	readers := map[string]func(*yaml.Node){}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		readers[key.Value] = func(v *yaml.Node) {
			switch {
			case !namePattern.MatchString(key.Value):
				p.fail(key, "", "%q is not a name: expected letters, digits, dots, dashes and underscores, 64 at most", clip(key.Value))
			case key.Value == Own:
				p.fail(key, "", "%q is the name of the channel that the server's own flags define: choose another", Own)
			case into[key.Value] != nil:
				p.fail(key, "", "channel %q is there twice", key.Value)
			case len(into) >= MaxChannels:
				p.fail(key, "", "more than %d channels", MaxChannels)
			default:
				into[key.Value] = p.channel(key.Value, v)
			}
		}
	}
	p.keys(n, "channels", readers)
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (p *parser) channel(name string, n *yaml.Node) *Channel {
	c, found := &Channel{Name: name}, 0
	p.keys(n, "channel "+name, map[string]func(*yaml.Node){
		MediumWebhook: func(n *yaml.Node) { found++; c.Webhook = p.webhook(n) },
		MediumEmail:   func(n *yaml.Node) { found++; c.Email = p.email(n) },
		MediumSlack: func(n *yaml.Node) {
			found++
			c.Slack = &Slack{}
			p.keys(n, MediumSlack, map[string]func(*yaml.Node){"url": func(n *yaml.Node) { c.Slack.URL = p.url(n) }})
			p.needs(n, c.Slack.URL.Given(), MediumSlack, "url: https://…, or {secret: NAME}")
		},
	})
	if found != 1 && n.Kind == yaml.MappingNode {
		p.fail(n, "", "channel %s: expected one of %s", name, strings.Join(Media(), ", "))
	}
	return c
}

func (p *parser) webhook(n *yaml.Node) *Webhook {
	w := &Webhook{}
	p.keys(n, MediumWebhook, map[string]func(*yaml.Node){
		"url":  func(n *yaml.Node) { w.URL = p.url(n) },
		"sign": func(n *yaml.Node) { w.Sign = p.secret(n, "sign") },
	})
	p.needs(n, w.URL.Given(), MediumWebhook, "url: https://…, or {secret: NAME}")
	return w
}

func (p *parser) email(n *yaml.Node) *Email {
	e := &Email{TLS: StartTLS}
	p.keys(n, MediumEmail, map[string]func(*yaml.Node){
		"to": func(n *yaml.Node) {
			for _, item := range p.list(n, "to", maxTo) {
				if a := p.address(item); a != "" {
					e.To = append(e.To, a)
				}
			}
		},
		"from": func(n *yaml.Node) { e.From = p.address(n) },
		"server": func(n *yaml.Node) {
			text := p.text(n, "server")
			if host, port, err := net.SplitHostPort(text); err != nil || host == "" || port == "" {
				p.fail(n, "", "server %q: expected HOST:PORT, as smtp.example.net:587", clip(text))
			}
			e.Server = text
		},
		"tls":      func(n *yaml.Node) { e.TLS = p.oneOf(n, "tls", []string{StartTLS, TLS, None}) },
		"username": func(n *yaml.Node) { e.Username = p.text(n, "username") },
		"password": func(n *yaml.Node) { e.Password = p.secret(n, "password") },
	})
	p.needs(n, len(e.To) > 0, MediumEmail, "to: [noc@example.net]")
	switch {
	case e.Server == "" && (e.Username != "" || e.Password != "" || e.TLS != StartTLS):
		p.fail(n, "", "email: username, password and tls are of a server of its own: expected server: HOST:PORT beside them")
	case e.Server != "" && e.From == "":
		p.fail(n, "", "email: a server of its own needs from: ADDRESS")
	case (e.Username == "") != (e.Password == ""):
		p.fail(n, "", "email: username and password go together")
	case e.Password != "" && e.TLS == None:
		p.fail(n, "", "email: a password would cross the network in the clear: expected tls: starttls or tls")
	}
	return e
}

// schedulesLost is a kind that earlier versions had. Routes of the service may still name it, and get nothing by it.
const schedulesLost = "schedules_lost"

func (p *parser) route(n *yaml.Node, of Place) Route {
	var r Route
	p.keys(n, "a route", map[string]func(*yaml.Node){
		"kinds": func(n *yaml.Node) {
			for _, item := range p.list(n, "kinds", len(Kinds())) {
				if item.Value == schedulesLost && of.Service {
					r.Kinds = append(r.Kinds, schedulesLost)
					continue
				}
				kind := p.oneOf(item, "kind", Names())
				if k, _ := Find(kind); kind != "" && !of.Service && !k.Tenant {
					p.fail(item, "", "%s is not about one tenant: routes of the service, beside tenants:, may name it", kind)
				}
				r.Kinds = append(r.Kinds, kind)
			}
		},
		"playbooks": func(n *yaml.Node) {
			for _, item := range p.list(n, "playbooks", MaxRoutes) {
				pattern := p.text(item, "playbook")
				if _, err := path.Match(pattern, ""); err != nil {
					p.fail(item, "", "%q is no pattern: expected a name, with * or ? in it", clip(pattern))
				}
				r.Playbooks = append(r.Playbooks, pattern)
			}
		},
		"severity": func(n *yaml.Node) {
			var all []string
			for _, s := range Severities() {
				all = append(all, string(s))
			}
			r.Severity = Severity(p.oneOf(n, "severity", all))
		},
		"to": func(n *yaml.Node) {
			for _, item := range p.list(n, "to", maxTo) {
				r.To = append(r.To, p.text(item, "channel"))
				p.named = append(p.named, named{p.file, of.Tenant, of.Service, item})
			}
		},
	})
	p.needs(n, len(r.To) > 0, "a route", "to: [CHANNEL]")
	return r
}

// names looks the channels of routes up.
func (p *parser) names() {
	for _, n := range p.named {
		if n.service && n.at.Value == Own || p.policy.Channel(Place{n.service, n.tenant, n.at.Value}) != nil || n.at.Kind != yaml.ScalarNode {
			continue
		}
		p.file = n.file
		known := p.policy.Service.Channels
		whose := "the service"
		if !n.service {
			known, whose = p.policy.Tenants[n.tenant].Channels, "tenant "+n.tenant
		}
		var names []string
		for name := range known {
			names = append(names, name)
		}
		slices.Sort(names)
		p.fail(n.at, yamlread.DidYouMean(n.at.Value, names), "%s has no channel %q: expected one of %s", whose, clip(n.at.Value), cmp.Or(strings.Join(names, ", "), "its channels, of which there are none"))
	}
	slices.SortStableFunc(p.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
}

// keys reads a mapping; each key has its reader.
func (p *parser) keys(n *yaml.Node, what string, readers map[string]func(*yaml.Node)) {
	var known []string
	for key := range readers {
		known = append(known, key)
	}
	slices.Sort(known)
	if n.Kind != yaml.MappingNode {
		p.fail(n, "", "%s: expected a mapping", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := readers[key.Value]
		switch {
		case read == nil:
			p.fail(key, yamlread.DidYouMean(key.Value, known), "%s has an unknown key %q: expected one of %s", what, clip(key.Value), strings.Join(known, ", "))
		case seen[key.Value]:
			p.fail(key, "", "%s has the key %q twice", what, clip(key.Value))
		case value.Kind == yaml.AliasNode || value.Tag == "!!null":
			p.fail(value, "", "%s: %s has no value", what, key.Value)
		default:
			read(value)
		}
		seen[key.Value] = true
	}
}

func (p *parser) needs(n *yaml.Node, given bool, what, want string) {
	within := func(had Problem) bool { return had.File == p.file && had.Line >= n.Line && had.Line <= last(n) }
	if !given && n.Kind == yaml.MappingNode && !slices.ContainsFunc(p.problems, within) { // what is wrong there may be why
		p.fail(n, "", "%s: expected %s", what, want)
	}
}

// last is the last line of a value.
func last(n *yaml.Node) int {
	line := n.Line
	for _, c := range n.Content {
		line = max(line, last(c))
	}
	return line
}

func (p *parser) list(n *yaml.Node, what string, most int) []*yaml.Node {
	if n.Kind == yaml.ScalarNode {
		p.fail(n, "", "%s: expected a list, as [%s]", what, clip(n.Value))
		return nil
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) > most {
		p.fail(n, "", "%s: expected a list of %d at most", what, most)
		return nil
	}
	return n.Content
}

func (p *parser) text(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || n.Value == "" || len(n.Value) > maxText || strings.ContainsFunc(n.Value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		p.fail(n, "", "%s: expected text of one line, %d bytes at most", what, maxText)
		return ""
	}
	return n.Value
}

func (p *parser) oneOf(n *yaml.Node, what string, all []string) string {
	if n.Kind == yaml.ScalarNode && slices.Contains(all, n.Value) {
		return n.Value
	}
	p.fail(n, yamlread.DidYouMean(n.Value, all), "%s %q: expected one of %s", what, clip(n.Value), strings.Join(all, ", "))
	return ""
}

// secret reads {secret: NAME}. What else stands there is not repeated: it may be the secret itself.
func (p *parser) secret(n *yaml.Node, what string) (name string) {
	if n.Kind != yaml.MappingNode {
		p.fail(n, "the server's own file of secrets (--secrets) says where the value of NAME is", "%s: a secret does not stand in the definitions: expected {secret: NAME}", what)
		return ""
	}
	p.keys(n, what, map[string]func(*yaml.Node){"secret": func(n *yaml.Node) {
		if name = n.Value; n.Kind != yaml.ScalarNode || !namePattern.MatchString(name) {
			p.fail(n, "", "%s: expected the name of a secret", what)
			name = ""
		}
	}})
	return name
}

// url reads an address, or the name of the secret that is one.
func (p *parser) url(n *yaml.Node) Text {
	if n.Kind == yaml.MappingNode {
		return Text{Secret: p.secret(n, "url")}
	}
	text := p.text(n, "url")
	if text == "" {
		return Text{}
	}
	if err := CheckURL(text); err != nil {
		p.fail(n, "", "url: %v", err)
	}
	return Text{Plain: text}
}

// CheckURL tells what is wrong with the address of a webhook, without repeating it: it may hold a password.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("expected http://… or https://…")
	}
	return nil
}

func (p *parser) address(n *yaml.Node) string {
	text := p.text(n, "address")
	if text == "" {
		return ""
	}
	a, err := mail.ParseAddress(text)
	if err != nil || strings.ContainsAny(a.Address, "\r\n") {
		p.fail(n, "", "%q is no mail address: expected NAME@DOMAIN", clip(text))
		return ""
	}
	return text
}

func clip(text string) string {
	if r := []rune(text); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return text
}
