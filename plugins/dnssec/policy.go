package dnssec

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// statement is one of BIND's configuration: its words, and what is in its braces.
type statement struct {
	words []string
	block []statement
}

// parseConfig reads what named-checkconf -p prints: words, texts in quotes, braces and semicolons;
// no comments.
func parseConfig(text string) ([]statement, error) {
	p := configParser{rest: text}
	list, err := p.block(0)
	if err == nil && p.closed {
		err = fmt.Errorf("named.conf: a brace too many")
	}
	return list, err
}

type configParser struct {
	rest   string
	closed bool // the last block ended with a brace
}

// maxDepth of blocks; BIND itself needs four.
const maxDepth = 16

func (p *configParser) block(depth int) (list []statement, err error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("named.conf: more than %d blocks within each other", maxDepth)
	}
	p.closed = false
	var now statement
	for {
		word, kind := p.token()
		switch kind {
		case 0:
			return list, nil
		case '{':
			inner, err := p.block(depth + 1)
			if err != nil {
				return nil, err
			}
			if !p.closed {
				return nil, fmt.Errorf("named.conf: a brace is not closed")
			}
			p.closed = false
			now.block = append(now.block, inner...)
		case '}':
			p.closed = true
			return list, nil
		case ';':
			if len(now.words) > 0 || now.block != nil {
				list = append(list, now)
			}
			now = statement{}
		default:
			now.words = append(now.words, word)
		}
	}
}

// token is the next word (kind 'w'), or one of { } ;. Kind 0 is the end.
func (p *configParser) token() (word string, kind byte) {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	if p.rest == "" {
		return "", 0
	}
	switch c := p.rest[0]; c {
	case '{', '}', ';':
		p.rest = p.rest[1:]
		return "", c
	case '"':
		end := strings.IndexByte(p.rest[1:], '"')
		if end < 0 {
			end = len(p.rest) - 1
		}
		word, p.rest = p.rest[1:1+end], p.rest[min(end+2, len(p.rest)):]
		return word, 'w'
	}
	end := strings.IndexAny(p.rest, " \t\r\n{};\"")
	if end < 0 {
		end = len(p.rest)
	}
	word, p.rest = p.rest[:end], p.rest[end:]
	return word, 'w'
}

// find is the first statement of that name; nil when there is none.
func find(list []statement, name string) *statement {
	i := slices.IndexFunc(list, func(s statement) bool { return s.words != nil && s.words[0] == name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// value is the first value of a statement within a block; empty when there is none.
func value(list []statement, name string) string {
	if s := find(list, name); s != nil && len(s.words) > 1 {
		return s.words[1]
	}
	return ""
}

// policy is the signer's configuration of a zone.
type policy struct {
	Name   string `json:"name"`
	KeyDir string `json:"key_dir"`
	Times  timing `json:"times"`

	algs     map[string]int // of ksk, zsk, csk
	parental bool           // BIND itself asks the parent
}

var algorithms = map[string]int{
	"rsasha1": 5, "nsec3rsasha1": 7, "rsasha256": 8, "rsasha512": 10, "ecdsap256sha256": 13, "ecdsap384sha384": 14, "ed25519": 15, "ed448": 16,
}

// readPolicy finds the zone and its dnssec-policy. view is empty where the server has none, or the
// zone is in one only.
func readPolicy(text, zone, view string) (policy, error) {
	conf, err := parseConfig(text)
	if err != nil {
		return policy{}, err
	}
	var options []statement
	if s := find(conf, "options"); s != nil {
		options = s.block
	}
	scopes := [][]statement{conf}
	if view != "" {
		scopes = nil
	}
	for _, s := range conf {
		if s.words != nil && s.words[0] == "view" && len(s.words) > 1 && (view == "" || s.words[1] == view) {
			scopes = append(scopes, s.block)
		}
	}
	var found []policy
	for _, scope := range scopes {
		for _, s := range scope {
			if len(s.words) < 2 || s.words[0] != "zone" || plain(s.words[1]) != zone {
				continue
			}
			p, err := zonePolicy(conf, [][]statement{s.block, scope, options})
			if err != nil {
				return policy{}, fmt.Errorf("zone %s: %w", zone, err)
			}
			found = append(found, p)
		}
	}
	switch len(found) {
	case 0:
		return policy{}, fmt.Errorf("named.conf has no zone %q here; is this its signer? See signer.config and signer.view", zone)
	case 1:
		return found[0], nil
	}
	return policy{}, fmt.Errorf("named.conf has zone %q in several views: name one by signer.view", zone)
}

// zonePolicy reads from the innermost scope outwards.
func zonePolicy(conf []statement, scopes [][]statement) (policy, error) {
	inherited := func(name string) string {
		for _, scope := range scopes {
			if v := value(scope, name); v != "" {
				return v
			}
		}
		return ""
	}
	p := policy{Name: inherited("dnssec-policy"), KeyDir: inherited("key-directory"), parental: find(scopes[0], "parental-agents") != nil}
	directory := cmp.Or(inherited("directory"), "/var/cache/bind")
	p.KeyDir = cmp.Or(p.KeyDir, directory)
	if !strings.HasPrefix(p.KeyDir, "/") {
		p.KeyDir = strings.TrimSuffix(directory, "/") + "/" + p.KeyDir
	}
	switch p.Name {
	case "", "none", "insecure":
		return p, fmt.Errorf("it has no dnssec-policy that signs; only zones with one can be rolled")
	case "default":
		return p, fmt.Errorf("it has the policy default, with one key for both roles; only separate ksk and zsk can be rolled")
	}
	for _, s := range conf {
		if len(s.words) > 1 && s.words[0] == "dnssec-policy" && s.words[1] == p.Name {
			return p, p.read(s.block)
		}
	}
	return p, fmt.Errorf("its dnssec-policy %q is not in named.conf", p.Name)
}

func (p *policy) read(block []statement) error {
	for _, f := range []struct {
		name string
		to   *time.Duration
		def  time.Duration // BIND 9.18's
	}{
		{"dnskey-ttl", &p.Times.DNSKEYTTL, time.Hour},
		{"max-zone-ttl", &p.Times.MaxZoneTTL, 24 * time.Hour},
		{"zone-propagation-delay", &p.Times.Propagation, 5 * time.Minute},
		{"publish-safety", &p.Times.PublishSafety, time.Hour},
		{"retire-safety", &p.Times.RetireSafety, time.Hour},
		{"signatures-validity", &p.Times.Validity, 14 * 24 * time.Hour},
		{"signatures-refresh", &p.Times.Refresh, 5 * 24 * time.Hour},
		{"parent-ds-ttl", &p.Times.DSTTL, 24 * time.Hour},
		{"parent-propagation-delay", &p.Times.ParentPropagation, time.Hour},
	} {
		*f.to = f.def
		if text := value(block, f.name); text != "" {
			d, err := parseSpan(text)
			if err != nil {
				return fmt.Errorf("dnssec-policy %q: %s: %w", p.Name, f.name, err)
			}
			*f.to = d
		}
	}
	p.algs = map[string]int{}
	keys := find(block, "keys")
	if keys == nil {
		return fmt.Errorf("dnssec-policy %q names no keys, so it has one key for both roles; only separate ksk and zsk can be rolled", p.Name)
	}
	for _, k := range keys.block {
		alg, ok := 0, false
		if i := slices.Index(k.words, "algorithm"); i >= 0 && i+1 < len(k.words) {
			name := strings.ToLower(k.words[i+1])
			if alg, ok = algorithms[name]; !ok {
				n, err := strconv.Atoi(name)
				alg, ok = n, err == nil
			}
		}
		if !ok {
			return fmt.Errorf("dnssec-policy %q: key %q: no algorithm that is known", p.Name, strings.Join(k.words, " "))
		}
		if other := p.algs[k.words[0]]; other != 0 && other != alg {
			return fmt.Errorf("dnssec-policy %q has keys of two algorithms for %s: an algorithm roll is not what this job type does", p.Name, k.words[0])
		}
		p.algs[k.words[0]] = alg
	}
	return nil
}

var (
	isoSpan = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$`)
	})
	ttlSpan = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$`)
	})
)

// parseSpan reads the durations of named.conf: seconds, a TTL such as 1h30m, or ISO 8601, whose
// years and months BIND takes for 365 and 31 days.
func parseSpan(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	fields, units := isoSpan().FindStringSubmatch(strings.ToUpper(text)), []time.Duration{365 * day, 31 * day, 7 * day, day, time.Hour, time.Minute, time.Second}
	if fields == nil {
		fields, units = ttlSpan().FindStringSubmatch(strings.ToLower(text)), []time.Duration{7 * day, day, time.Hour, time.Minute, time.Second}
	}
	var total time.Duration
	any := false
	for i, unit := range units {
		if fields == nil || fields[i+1] == "" {
			continue
		}
		n, err := strconv.ParseUint(fields[i+1], 10, 32)
		if err != nil || time.Duration(n) > 200*365*day/unit {
			return 0, fmt.Errorf("duration %q is out of range", text)
		}
		total += time.Duration(n) * unit
		any = true
	}
	if !any {
		return 0, fmt.Errorf("expected a duration such as 3600, 1h30m or PT1H; found %q", text)
	}
	return total, nil
}
