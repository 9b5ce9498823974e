package windows

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// maxGiven bounds the words of one file.
const maxGiven = 5000

// Given is an approval of a set, or of one rule of it, that is separate from the set: under
// approvals: in a file, or given at a server. It adds to the approval in the set: a time is
// approved if any approval covers it. A Given in the state revoked revokes all approvals up to At,
// from At on, and approvals without a time; later approvals count again.
type Given struct {
	// An empty Rule is the set: an approval is of all its allows without an approval of their own, a
	// revocation of all its allows.
	Set, Rule string
	From      time.Time // first instant that it covers; zero: from At on
	Approval
}

// revoked reports whether it is a revocation.
func (g *Given) revoked() bool { return g.State == Revoked }

// fileGiven is a Given as YAML has it.
type fileGiven struct {
	Set     string   `yaml:"set"`
	Rule    string   `yaml:"rule,omitempty"`
	ID      string   `yaml:"id,omitempty"`
	By      string   `yaml:"by"`
	State   State    `yaml:"state,omitempty"`
	At      string   `yaml:"at"`
	From    string   `yaml:"from,omitempty"`
	Until   string   `yaml:"until,omitempty"`
	Freezes []string `yaml:"freezes,omitempty,flow"`
	Window  string   `yaml:"window,omitempty"`
	Change  string   `yaml:"change,omitempty"`
	Targets string   `yaml:"targets,omitempty"`
}

// present returns those of sets, rules and freezes that the definitions have.
func (d *Definitions) present(given []Given) (out []*Given) {
	for _, g := range given {
		if d.Place(g.Set, g.Rule) == nil {
			g.Freezes = slices.DeleteFunc(slices.Clone(g.Freezes), func(name string) bool { return d.Freezes[name] == nil })
			out = append(out, &g)
		}
	}
	return out
}

// WithGiven returns the definitions with approvals given elsewhere. It leaves out what
// GivenDocument leaves out.
func (d *Definitions) WithGiven(given []Given) *Definitions {
	with := *d
	with.Given = append(slices.Clip(d.Given), d.present(given)...)
	return &with
}

// Voids lists the given approvals of a set that hold after from and that an edit voids: they are
// bound to the hash of the set in d, and the set has another hash in after.
func (d *Definitions) Voids(after *Definitions, name string, from time.Time) (void []*Given) {
	was, is := d.Sets[name], after.Sets[name]
	if was == nil || is == nil {
		return nil
	}
	old, now := d.HashOf(was), after.HashOf(is)
	if old == now {
		return nil
	}
	for _, g := range d.Given {
		ended := func(by *Given) bool {
			return by.revoked() && by.Set == name && (by.Rule == "" || by.Rule == g.Rule) && !by.At.Before(g.At)
		}
		again := func(by *Given) bool {
			return by.Set == name && by.Rule == g.Rule && by.name() == g.name() && by.Window == now
		}
		if g.Set == name && g.Window == old && !g.revoked() && (g.Until.IsZero() || g.Until.After(from)) &&
			!slices.ContainsFunc(d.Given, ended) && !slices.ContainsFunc(after.Given, again) {
			void = append(void, g)
		}
	}
	return void
}

// GivenDocument writes approvals as a file that Parse reads beside those of the definitions. It
// leaves out sets, rules and freezes that the definitions no longer have. ok is false if no
// approval remains.
func (d *Definitions) GivenDocument(name string, given []Given) (doc Document, ok bool) {
	var list []fileGiven
	text := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	for _, g := range d.present(given) {
		f := fileGiven{
			Set: g.Set, Rule: g.Rule, ID: g.ID, By: g.By, At: text(g.At), From: text(g.From), Until: text(g.Until),
			Window: g.Window, Change: g.Change, Targets: g.Targets, Freezes: g.Freezes,
		}
		if g.revoked() {
			f.State = Revoked
		}
		list = append(list, f)
	}
	if len(list) == 0 {
		return Document{}, false
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	if err := e.Encode(map[string][]fileGiven{"approvals": list}); err != nil {
		return Document{}, false // plain values: it cannot fail
	}
	return Document{name, out.Bytes()}, true
}

// Place reports whether a set, and the rule of it that is named, is there: ErrInvalid otherwise.
func (d *Definitions) Place(set, rule string) error {
	s := d.Sets[set]
	switch {
	case s == nil:
		return fmt.Errorf("%w: no window set has the name %s", ErrInvalid, quote(set))
	case rule != "" && !slices.ContainsFunc(s.Allow, func(r Rule) bool { return r.ID == rule }):
		ids := make([]string, len(s.Allow))
		for i, r := range s.Allow {
			ids[i] = r.ID
		}
		return fmt.Errorf("%w: window set %s has no rule %s%s", ErrInvalid, quote(set), quote(rule), hinted(didYouMean(rule, ids)))
	}
	return nil
}

// given reads one of approvals:. Times without an offset are UTC: its set may be in another file.
func (d *decoder) given(n *yaml.Node) {
	zone := "UTC"
	g := &Given{Approval: Approval{State: Approved}}
	before := len(d.problems)
	// Without max_occurrences (which rules would it count?) and revoked, which state: revoked and at
	// replace.
	if !d.Mapping(n, "the approval", append(d.approvalFields(&g.Approval, &zone),
		value(d, "by", &g.By, personText).Needed(),
		value(d, "set", &g.Set, nameText).Needed(),
		value(d, "rule", &g.Rule, nameText),
		yamlread.Choice(d.Reader, "state", &g.State, Approved, Revoked),
		value(d, "at", &g.At, instant(&zone, false)).Needed(),
		value(d, "from", &g.From, instant(&zone, false)))...) || len(d.problems) > before {
		return
	}
	if !g.Until.IsZero() && (!g.Until.After(g.From) || !g.Until.After(g.At)) {
		d.fail(n, "", "the approval ends before it begins")
	}
	d.defs.Given = append(d.defs.Given, g)
	d.later = append(d.later, func() {
		if err := d.defs.Place(g.Set, g.Rule); err != nil {
			d.fail(n, "", "%s", strings.TrimPrefix(err.Error(), "invalid: "))
		}
	})
}

// personText names the person who approved it, as a server's audit log does: a name there may have
// blanks.
func personText(text string) (string, error) {
	if text == "" || len(text) > 300 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || printable(r) != r }) {
		return "", fmt.Errorf("expected a name of 1 to 300 characters")
	}
	return text, nil
}

// words are those on a set, the oldest first.
func (c *compiler) words(set string) []*Given {
	if c.given == nil {
		c.given = map[string][]*Given{}
		for _, g := range c.defs.Given {
			c.given[g.Set] = append(c.given[g.Set], g)
		}
		for _, list := range c.given {
			slices.SortStableFunc(list, func(a, b *Given) int { return a.At.Compare(b.At) })
		}
	}
	return c.given[set]
}

// consents works out what may approve a rule of a set; of what the set inherits where r is nil. A
// piece is approved where any of them covers it; otherwise the reason is that of the last one.
func (c *compiler) consents(s *Set, r *Rule, zone *time.Location) ([]consent, error) {
	beside, whole := s.Approval, true
	if r != nil && r.Approval != nil {
		beside, whole = r.Approval, false
	}
	var given []*Given
	var taken *Given // the last one that revokes
	for _, g := range c.words(s.Name) {
		switch {
		case g.Rule == "" && !whole && !g.revoked(), g.Rule != "" && (r == nil || g.Rule != r.ID):
		case g.revoked():
			taken = g
		default:
			given = append(given, g)
		}
	}
	first, err := c.consent(beside, s, zone)
	if err != nil {
		return nil, err
	}
	if taken != nil && (beside == nil || !beside.At.After(taken.At)) {
		first.revoke(taken, zone)
	}
	all := []consent{first}
	if beside == nil && taken == nil {
		return all, nil // none is needed
	}
	for _, g := range given {
		a := &g.Approval
		ok, err := c.consent(a, s, zone)
		if err != nil {
			return nil, err
		}
		if from := g.From.UnixNano(); !g.From.IsZero() && from > ok.open {
			ok.open, ok.before = from, fmt.Sprintf("unapproved: %s covers nothing before %s", a.name(), g.From.In(zone).Format("2006-01-02 15:04"))
		}
		if taken != nil && !g.At.After(taken.At) {
			ok.revoke(taken, zone)
		}
		all = append(all, ok)
	}
	return all, nil
}

// revoke ends a consent that a later word revoked.
func (ok *consent) revoke(by *Given, zone *time.Location) {
	why := fmt.Sprintf("unapproved: %s revoked it %s", by.By, by.At.In(zone).Format("2006-01-02 15:04"))
	if ok.why != "" {
		ok.why = why
		return
	}
	if end := by.At.UnixNano(); end < ok.close {
		ok.close, ok.after = end, why
	}
}

// splitAny is split by several consents: a part is approved that one of them approves. Those that
// lift freezes come first, so that what they cover is lifted.
func splitAny(all []consent, out []piece, p piece) []piece {
	if len(all) == 1 {
		p.lifts = append(slices.Clip(p.lifts), all[0].lifts...)
		return all[0].split(out, p)
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b consent) int { return min(len(b.lifts), 1) - min(len(a.lifts), 1) })
	had, left := p.lifts, []piece{p}
	for _, ok := range order {
		var rest []piece
		for _, part := range left {
			part.why, part.lifts = "", append(slices.Clip(had), ok.lifts...)
			for _, q := range ok.split(nil, part) {
				if q.why == "" {
					out = append(out, q)
					continue
				}
				q.lifts = had
				rest = append(rest, q)
			}
		}
		left = rest
	}
	for _, q := range left {
		q.why = all[len(all)-1].whyNot(q.span)
		out = append(out, q)
	}
	return out
}

// whyNot returns why a consent does not cover a span that it does not cover.
func (ok consent) whyNot(s span) string {
	switch {
	case ok.why != "":
		return ok.why
	case s.open < ok.open && !ok.empty():
		return ok.before
	}
	return ok.after
}

// Standing is how a set, or a rule of it, that needs an approval stands.
type Standing struct {
	Set, Rule string    // Rule is "" for all allows of the set without an approval of their own
	Hash      string    // what an approval is bound to
	Holds     bool      // an approval holds now or will; it may be bound to certain work, or end before the next window
	Reason    string    // why none does
	Beside    *Approval // what is in the file beside it; nil where it was revoked without
	Given     []*Given  // separate approvals, and revocations also of the whole set, the oldest first
}

// Standings lists what of a set needs an approval, as it is at t. The error is ErrInvalid for what
// is not there.
func (d *Definitions) Standings(name string, t time.Time) ([]Standing, error) {
	s := d.Sets[name]
	if s == nil {
		return nil, d.Place(name, "")
	}
	c := newCompiler(d, Ahead(t, DefaultDays), nil)
	c.lo, c.hi = c.h.From, c.h.To
	zone, err := c.zone(s.Timezone)
	if err != nil {
		return nil, fmt.Errorf("%w: window set %s: %w", ErrInvalid, name, err)
	}
	var out []Standing
	add := func(r *Rule, beside *Approval) error {
		one := Standing{Set: name, Hash: d.HashOf(s), Beside: beside}
		if r != nil {
			one.Rule = r.ID
		}
		for _, g := range c.words(name) {
			if g.Rule == one.Rule || g.Rule == "" && g.revoked() {
				one.Given = append(one.Given, g)
			}
		}
		if beside == nil && !slices.ContainsFunc(one.Given, (*Given).revoked) {
			return nil
		}
		all, err := c.consents(s, r, zone)
		if err != nil {
			return err
		}
		for _, ok := range all {
			if ok.why == "" && ok.close > t.UnixNano() {
				one.Holds = true
			}
			one.Reason = strings.TrimPrefix(ok.whyNot(span{t.UnixNano(), t.UnixNano()}), "unapproved: ")
		}
		if one.Holds {
			one.Reason = ""
		}
		out = append(out, one)
		return nil
	}
	if err := add(nil, s.Approval); err != nil {
		return nil, err
	}
	for i := range s.Allow {
		r := &s.Allow[i]
		if r.Approval == nil && !slices.ContainsFunc(c.words(name), func(g *Given) bool { return g.Rule == r.ID }) {
			continue
		}
		if err := add(r, cmp.Or(r.Approval, s.Approval)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Consents names the approvals by which rules of a set are open at t for certain work, by id or
// giver: those in the file and separate ones. Where wider sets also decide, it names theirs.
func (d *Definitions) Consents(set string, rules []string, work Work, t time.Time) []string {
	c := newCompiler(d, Ahead(t, 1), &work)
	c.lo, c.hi = c.h.From, c.h.To
	return c.names(nil, d.Sets[set], rules)
}

func (c *compiler) names(out []string, s *Set, rules []string) []string {
	if s == nil {
		return out
	}
	zone, err := c.zone(s.Timezone)
	if err != nil {
		return out
	}
	add := func(r *Rule) {
		all, err := c.consents(s, r, zone)
		if err != nil {
			return
		}
		for _, ok := range all {
			if ok.name != "" && ok.why == "" && ok.has(c.h.From.UnixNano()) {
				out = appendNew(out, ok.name)
			}
		}
	}
	for i := range s.Allow {
		if slices.Contains(rules, s.Allow[i].ID) {
			add(&s.Allow[i])
		}
	}
	if s.Allow == nil {
		add(nil)
	}
	if s.Inherit == Replace {
		return out
	}
	for _, parent := range c.defs.nearest(s) {
		theirs := rules
		if s.Allow != nil && s.Inherit != Extend { // both allow it, each by its own rules
			theirs = c.openRules(parent)
		}
		out = c.names(out, parent, theirs)
	}
	return out
}

// openRules returns the rules by which a set allows work now.
func (c *compiler) openRules(s *Set) (rules []string) {
	pieces, _, _, err := c.allows(s)
	if err != nil {
		return nil
	}
	for _, p := range pieces {
		if p.why == "" && p.has(c.h.From.UnixNano()) {
			rules = append(rules, p.rules...)
		}
	}
	return rules
}

// Lifts reports why an approval may not lift the freezes that it names: ErrInvalid.
func (d *Definitions) Lifts(a *Approval) error {
	for _, name := range a.Freezes {
		f := d.Freezes[name]
		if f == nil {
			return fmt.Errorf("%w: unknown freeze %s%s", ErrInvalid, quote(name), hinted(didYouMean(name, sortedNames(d.Freezes))))
		}
		if why := a.cannotLift(f); why != "" {
			return fmt.Errorf("%w: freeze %s is not lifted: %s", ErrInvalid, name, why)
		}
	}
	return nil
}

// Serves lists the sets that what a set opens depends on: itself, those it inherits from or
// requires, and so on.
func (d *Definitions) Serves(name string) []string {
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		s := d.Sets[name]
		if s == nil || seen[name] {
			return
		}
		seen[name] = true
		for _, wider := range d.wider(s) {
			visit(wider.Name)
		}
		for _, required := range s.Requires {
			visit(required)
		}
	}
	visit(name)
	out := make([]string, 0, len(seen))
	for name := range seen {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
