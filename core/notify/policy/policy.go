package policy

import (
	"path"
	"slices"
)

// Own is the name of the channel that a server's own flags define. Playbooks and routes may name
// it.
const Own = "server"

// The media of channels.
const (
	MediumWebhook = "webhook"
	MediumEmail   = "email"
	MediumSlack   = "slack"
)

// Media are all.
func Media() []string { return []string{MediumWebhook, MediumEmail, MediumSlack} }

// Text is a text that may be secret: the text itself, or the name of a secret that the server has.
type Text struct {
	Plain  string
	Secret string
}

// Given reports whether the text is set.
func (t Text) Given() bool { return t != Text{} }

// Channel is one place where notices go. One of its media is set.
type Channel struct {
	Name    string
	Webhook *Webhook
	Email   *Email
	Slack   *Slack
}

// Webhook gets each notice as one POST of JSON.
type Webhook struct {
	URL  Text
	Sign string // name of the secret that signs; "" for none
}

// Email gets each notice as one mail.
type Email struct {
	To       []string
	From     string // the server's own when ""
	Server   string // HOST:PORT; the server's own relay when ""
	TLS      string // StartTLS, TLS or None
	Username string
	Password string // name of the secret
}

// How a mail server is talked to.
const (
	StartTLS = "starttls"
	TLS      = "tls"
	None     = "none"
)

// Slack gets each notice as one message of an incoming webhook.
type Slack struct{ URL Text }

// Medium names the one that is set.
func (c *Channel) Medium() string {
	switch {
	case c.Email != nil:
		return MediumEmail
	case c.Slack != nil:
		return MediumSlack
	}
	return MediumWebhook
}

// Route sends notices to channels. Empty fields let everything through, except kinds
// that have to be asked for.
type Route struct {
	Kinds     []string
	Playbooks []string // names, with * and ? as in file names
	Severity  Severity // at least
	To        []string // names of channels
}

// Section is the channels and routes of one owner.
type Section struct {
	Channels map[string]*Channel
	Routes   []Route
}

// Policy is the notifications of the definitions: channels of the service itself, which may get
// those of all tenants, and channels of tenants. It is not changed after it was loaded.
type Policy struct {
	Service Section
	Tenants map[string]Section
}

// Subject is the properties of a notification that routes match.
type Subject struct {
	Kind     Kind
	Tenant   string
	Playbook string
}

// Takes reports whether the route is for it.
func (r *Route) Takes(s Subject) bool {
	switch {
	case len(r.Kinds) > 0 && !slices.Contains(r.Kinds, s.Kind.Name), len(r.Kinds) == 0 && s.Kind.Asked:
		return false
	case r.Severity != "" && !s.Kind.Severity.AtLeast(r.Severity):
		return false
	}
	return len(r.Playbooks) == 0 || slices.ContainsFunc(r.Playbooks, func(pattern string) bool {
		ok, _ := path.Match(pattern, s.Playbook) // it was checked when it was read
		return ok
	})
}

// Place is a channel of somebody.
type Place struct {
	Service bool
	Tenant  string
	Channel string
}

// Places are the channels that a subject goes to, each once: by the routes of the service and of
// the subject's tenant, and by those of its playbook.
func (p *Policy) Places(s Subject, playbook []Route) []Place {
	var all []Place
	add := func(place Place) {
		if !slices.Contains(all, place) {
			all = append(all, place)
		}
	}
	if p == nil {
		p = &Policy{}
	}
	for i := range p.Service.Routes {
		if r := &p.Service.Routes[i]; r.Takes(s) {
			for _, name := range r.To {
				add(Place{Service: true, Channel: name})
			}
		}
	}
	if !s.Kind.Tenant {
		return all
	}
	own, has := p.Tenants[s.Tenant]
	has = has && s.Tenant != ""
	for i := range own.Routes {
		if r := &own.Routes[i]; has && r.Takes(s) {
			for _, name := range r.To {
				add(Place{Tenant: s.Tenant, Channel: name})
			}
		}
	}
	for i := range playbook {
		if !playbook[i].Takes(s) {
			continue
		}
		for _, name := range playbook[i].To {
			if has && own.Channels[name] != nil {
				add(Place{Tenant: s.Tenant, Channel: name})
			} else {
				add(Place{Service: true, Channel: name})
			}
		}
	}
	return all
}

// Channel finds the channel of a place; nil where it is not there any more, or is Own.
func (p *Policy) Channel(at Place) *Channel {
	if p == nil {
		return nil
	}
	if at.Service {
		return p.Service.Channels[at.Channel]
	}
	return p.Tenants[at.Tenant].Channels[at.Channel]
}

// Knows reports whether a playbook of a tenant may name a channel.
func (p *Policy) Knows(tenant, channel string) bool {
	return channel == Own || p.Channel(Place{Service: true, Channel: channel}) != nil || tenant != "" && p.Channel(Place{Tenant: tenant, Channel: channel}) != nil
}

// Visible are the names of the channels that a playbook of a tenant may name.
func (p *Policy) Visible(tenant string) []string {
	names := []string{Own}
	if p == nil {
		return names
	}
	for name := range p.Service.Channels {
		names = append(names, name)
	}
	if tenant != "" {
		for name := range p.Tenants[tenant].Channels {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
