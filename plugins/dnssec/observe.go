package dnssec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// place is one address of one server.
type place struct {
	Name    string `json:"name"`
	Address string `json:"address"` // IP#PORT
}

func (p place) String() string {
	if p.Name == "" {
		return strings.TrimSuffix(p.Address, "#53")
	}
	return p.Name + " (" + strings.TrimSuffix(p.Address, "#53") + ")"
}

// places are the servers of the zone and its parent.
type places struct {
	Parent  string  `json:"parent,omitempty"` // the parent zone; empty is the root
	Servers []place `json:"servers,omitempty"`
	Parents []place `json:"parents,omitempty"`
}

// question is one query.
type question struct {
	at         place
	name, kind string
	recursive  bool
}

// maxQuestions of one poll; all are asked at the same time.
const maxQuestions = 256

// ask puts all questions at the same time, over TCP, and reads the answers and whatever else script
// prints, in one round trip.
func (b *bind) ask(ctx context.Context, qs []question, script string, vars map[string]string) ([]reply, sdk.Answer, error) {
	if len(qs) > maxQuestions {
		return nil, sdk.Answer{}, fmt.Errorf("%d questions: more than %d servers are too many", len(qs), maxQuestions)
	}
	var text strings.Builder
	text.WriteString("need dig\nt=$(mktemp -d) || exit 65\ntrap 'rm -rf \"$t\"' EXIT\ntrap 'exit 65' HUP INT TERM\necho \"now $(date +%s)\"\n")
	for i, q := range qs {
		flags := "+norecurse"
		if q.recursive {
			flags = "+recurse +adflag"
		}
		ip, port, _ := strings.Cut(address(q.at.Address), "#")
		fmt.Fprintf(&text, "dig +nocmd +noall +comments +answer +nosplit +tcp +dnssec +time=3 +tries=2 %s %s -p %s -q %s -t %s >\"$t/%d\" 2>&1 &\n",
			flags, sdk.Quote("@"+ip), sdk.Quote(port), sdk.Quote(q.name+"."), q.kind, i)
		if i%16 == 15 {
			text.WriteString("wait\n")
		}
	}
	text.WriteString("wait\n")
	fmt.Fprintf(&text, "i=0; while [ $i -lt %d ]; do sed \"s/^/q$i /\" \"$t/$i\"; i=$((i + 1)); done\n", len(qs))
	a, err := b.script(ctx, text.String()+script, vars, true, "")
	if err != nil {
		return nil, a, fmt.Errorf("looking from the signer: %w", err)
	}
	replies := make([]reply, len(qs))
	for i, q := range qs {
		replies[i] = parseReply(a.Text(fmt.Sprintf("q%d", i)))
		replies[i].serverAt, replies[i].of = q.at.String(), strings.ToUpper(q.kind)+" of "+q.name
	}
	return replies, a, nil
}

// first is the first reply of many that can be used, or why there is none.
func first(replies []reply) (reply, error) {
	var why []error
	for _, r := range replies {
		if p := r.problem(); p != "" {
			why = append(why, errors.New(p))
			continue
		}
		return r, nil
	}
	return reply{}, errors.Join(why...)
}

// find looks up the servers of the zone and its parent, through the validators. The parent is the
// zone that signs the DS.
func (x *roll) find(ctx context.Context) (places, error) {
	p := x.p
	found := places{}
	r, err := x.lookUp(ctx, "DS", p.Zone)
	if err != nil {
		return found, err
	}
	signed := false
	for _, rec := range r[0].ofKind("RRSIG") {
		if s, ok := parseSignature(rec.data); ok && s.covers == "DS" {
			found.Parent, signed = s.signer, true
		}
	}
	if !signed {
		return found, fmt.Errorf("the validators see no signed DS of %s: the zone is not secure, and there is nothing to roll", p.Zone)
	}
	if found.Servers, err = x.locate(ctx, p.Zone, p.Servers); err != nil {
		return found, err
	}
	found.Parents, err = x.locate(ctx, found.Parent, p.Parent.NS)
	return found, err
}

// lookUp asks all validators for records of the names; of each name the first reply that can be
// used counts.
func (x *roll) lookUp(ctx context.Context, kind string, names ...string) (list []reply, err error) {
	validators := addresses(x.p.Validators)
	var qs []question
	for _, name := range names {
		for _, v := range validators {
			qs = append(qs, question{at: v, name: name, kind: kind, recursive: true})
		}
	}
	replies, _, err := x.signer.ask(ctx, qs, "", x.signer.vars())
	if err != nil {
		return nil, err
	}
	for i := range names {
		r, err := first(replies[i*len(validators) : (i+1)*len(validators)])
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", kind, names[i], err)
		}
		list = append(list, r)
	}
	return list, nil
}

// locate finds the addresses of a zone's servers: those that are given, or else those of its NS
// records.
func (x *roll) locate(ctx context.Context, zone string, given []string) ([]place, error) {
	if len(given) > 0 {
		return addresses(given), nil
	}
	r, err := x.lookUp(ctx, "NS", zone)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, rec := range r[0].ofKind("NS") {
		names = append(names, plain(rec.data[0]))
	}
	slices.Sort(names)
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no NS records", zone)
	}
	var list []place
	for _, kind := range []string{"A", "AAAA"} {
		r, err := x.lookUp(ctx, kind, names...)
		if err != nil {
			return nil, err
		}
		for i, name := range names {
			for _, rec := range r[i].ofKind(kind) {
				list = append(list, place{Name: name, Address: address(rec.data[0])})
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the servers of %s have no addresses", zone)
	}
	return list, nil
}

func addresses(texts []string) []place {
	list := make([]place, len(texts))
	for i, t := range texts {
		list[i] = place{Address: address(t)}
	}
	return list
}

// view is all that one look showed.
type view struct {
	now     time.Time
	keys    []signerKey
	places  places
	dnskeys []reply // of each server
	soas    []reply
	cds     []reply
	parents []reply // DS, of each of the parent's addresses
	valid   []reply // SOA, by each validator
	validDS []reply
	open    map[string]note // by zone
	last    note            // of the zone: the roll that ended last
	stopped note            // and the one that was stopped last
}

// observe sees everything, now. The servers are found again each time; when that fails, those that
// were found last hold.
func (x *roll) observe(ctx context.Context) (*view, error) {
	st := &x.r.State
	found, err := x.find(ctx)
	if err != nil {
		if len(st.Places.Servers) == 0 {
			return nil, err
		}
		x.r.Log().Warn("cannot list the name servers of the zone; the last list is used", "error", err)
		found = st.Places
	}
	st.Places = found
	var qs []question
	for _, kind := range []string{"DNSKEY", "SOA", "CDS"} {
		for _, s := range found.Servers {
			qs = append(qs, question{at: s, name: x.p.Zone, kind: kind})
		}
	}
	for _, s := range found.Parents {
		qs = append(qs, question{at: s, name: x.p.Zone, kind: "DS"})
	}
	for _, kind := range []string{"SOA", "DS"} {
		for _, v := range addresses(x.p.Validators) {
			qs = append(qs, question{at: v, name: x.p.Zone, kind: kind, recursive: true})
		}
	}
	replies, a, err := x.signer.ask(ctx, qs, keysScript+notesScript, x.signer.vars("K", st.Policy.KeyDir))
	if err != nil {
		return nil, err
	}
	v := &view{now: time.Unix(int64(a.Number("now")), 0).UTC(), places: found, open: readNotes(a.Text("open"))}
	v.last, v.stopped = readNotes(a.Text("last"))[x.p.Zone], readNotes(a.Text("stopped"))[x.p.Zone]
	if v.keys, err = parseKeys(a.Text("state"), a.Text("key")); err != nil {
		return nil, err
	}
	take := func(n int) []reply { list := replies[:n]; replies = replies[n:]; return list }
	n := len(found.Servers)
	v.dnskeys, v.soas, v.cds = reached(take(n)), reached(take(n)), reached(take(n))
	v.parents = reached(take(len(found.Parents)))
	v.valid, v.validDS = take(len(x.p.Validators)), take(len(x.p.Validators))
	return v, nil
}

// reached leaves out addresses of a kind that the signer has no way to, as IPv6 where there is
// none, as long as another answers.
func reached(list []reply) []reply {
	if !slices.ContainsFunc(list, func(r reply) bool { return r.status != "" }) {
		return list
	}
	return slices.DeleteFunc(list, func(r reply) bool { return r.status == "" && r.noRoute })
}

// published is the set of keys that a server has, and a problem if it shows none.
func published(r *reply) (keys []dnskey, ttl time.Duration, problem string) {
	if p := r.problem(); p != "" {
		return nil, 0, p
	}
	for _, rec := range r.ofKind("DNSKEY") {
		k, err := parseKey(rec.data)
		if err != nil {
			return nil, 0, r.serverAt + ": " + err.Error()
		}
		keys = append(keys, k)
		ttl = max(ttl, rec.ttl)
	}
	slices.SortFunc(keys, func(a, b dnskey) int { return a.tag - b.tag })
	return keys, ttl, ""
}

// signedBy are the keys that signed the answer's records of a kind.
func signedBy(r *reply, kind string) (tags []int) {
	for _, rec := range r.ofKind("RRSIG") {
		if s, ok := parseSignature(rec.data); ok && s.covers == kind {
			tags = append(tags, s.tag)
		}
	}
	return tags
}

// everyServer checks the keys on each server of the zone; test returns what is wrong with one.
func (v *view) everyServer(test func(keys []dnskey, signers []int) string) (missing []string) {
	for i := range v.dnskeys {
		r := &v.dnskeys[i]
		keys, _, problem := published(r)
		if problem == "" {
			if problem = test(keys, signedBy(r, "DNSKEY")); problem != "" {
				problem = r.serverAt + ": " + problem
			}
		}
		if problem != "" {
			missing = append(missing, problem)
		}
	}
	return missing
}

// agree checks that all servers of the zone have the same serial and the same keys.
func (v *view) agree() (missing []string) {
	serials, sets := map[string]string{}, map[string]string{}
	for i := range v.soas {
		r := &v.soas[i]
		if p := r.problem(); p != "" {
			missing = append(missing, p)
			continue
		}
		if soa := r.ofKind("SOA"); len(soa) > 0 && len(soa[0].data) > 2 {
			serials[soa[0].data[2]] = r.serverAt
		}
	}
	missing = append(missing, v.everyServer(func(keys []dnskey, _ []int) string {
		sets[fmt.Sprint(tagsOf(keys))] = ""
		return ""
	})...)
	if len(serials) > 1 {
		missing = append(missing, fmt.Sprintf("the zone's servers have different serials: %v", serials))
	}
	if len(sets) > 1 {
		missing = append(missing, fmt.Sprintf("the zone's servers have different keys: %v", sortedKeys(sets)))
	}
	return missing
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func tagsOf(keys []dnskey) (tags []int) {
	for _, k := range keys {
		tags = append(tags, k.tag)
	}
	return tags
}

// secure checks that each validator calls the zone secure. bogus reports that one calls it bogus:
// it answers SERVFAIL.
func (v *view) secure() (missing []string, bogus bool) {
	for i := range v.valid {
		r := &v.valid[i]
		switch p := r.problem(); {
		case r.status == "SERVFAIL":
			bogus = true
			missing = append(missing, "validator "+p+": the zone may be bogus")
		case p != "":
			missing = append(missing, "validator "+p)
		case !r.ad:
			missing = append(missing, "validator "+r.serverAt+" does not call the zone secure (no AD): it does not validate, or the zone is insecure")
		}
	}
	return missing, bogus
}

// delegated is the content of an answer to DS about two keys: of the old one (by its tag), and of
// the new one (by its digests).
type delegated struct {
	all        []ds
	old, fresh bool
	wrong      string // a DS of the new key's tag that is not the new key's
	ttl        time.Duration
}

func delegation(r *reply, zone string, oldTag int, fresh dnskey) (delegated, string) {
	if p := r.problem(); p != "" {
		return delegated{}, p
	}
	var d delegated
	for _, rec := range r.ofKind("DS") {
		one, err := parseDS(rec.data)
		if err != nil {
			return d, r.serverAt + ": " + err.Error()
		}
		d.all = append(d.all, one)
		d.ttl = max(d.ttl, rec.ttl)
		switch {
		case one.Tag == oldTag:
			d.old = true
		case fresh.rdata == nil || one.Tag != fresh.tag:
		case one == fresh.ds(zone, one.Type):
			d.fresh = true
		default:
			d.wrong = fmt.Sprintf("%s has the DS %q, which is not that of key %d; expected %q", r.serverAt, one, fresh.tag, fresh.ds(zone, sha256Type))
		}
	}
	slices.SortFunc(d.all, func(a, b ds) int { return strings.Compare(a.String(), b.String()) })
	return d, ""
}
