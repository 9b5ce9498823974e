package dnssec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// signerKey is a key as BIND's state file and key file describe it.
type signerKey struct {
	tag, alg               int
	ksk, zsk               bool
	successor, predecessor int
	goal                   string
	dnskey, zrrsig, krrsig string // hidden, rumoured, omnipresent, unretentive; empty for what the key has not
	ds                     string
	published              time.Time
	dsPublished, dsRemoved time.Time // when BIND learned that the parent has the DS, and has it no more
	key                    dnskey    // of the key file
}

// States of BIND's key machine.
const (
	omnipresent = "omnipresent"
	hidden      = "hidden"
)

// parseKeys reads lines of a file's name and one of its lines.
func parseKeys(states, keyFiles string) ([]signerKey, error) {
	byName := map[string]*signerKey{}
	var names []string
	for line := range strings.Lines(states) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name = strings.TrimSuffix(name, ".state")
		k := byName[name]
		if k == nil {
			k = &signerKey{}
			parts := strings.Split(name, "+")
			if len(parts) < 3 {
				return nil, fmt.Errorf("state file %s: expected a name such as Kexample.org.+013+12345", name)
			}
			var err, err2 error
			k.alg, err = strconv.Atoi(parts[len(parts)-2])
			k.tag, err2 = strconv.Atoi(parts[len(parts)-1])
			if err != nil || err2 != nil {
				return nil, fmt.Errorf("state file %s: expected a name such as Kexample.org.+013+12345", name)
			}
			byName[name] = k
			names = append(names, name)
		}
		word, value, ok := strings.Cut(rest, ": ")
		if ok && !strings.HasPrefix(rest, ";") {
			k.set(word, value)
		}
	}
	for line := range strings.Lines(keyFiles) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		k := byName[strings.TrimSuffix(name, ".key")]
		f := strings.Fields(rest)
		i := slices.Index(f, "DNSKEY")
		if k == nil || i < 0 || strings.HasPrefix(rest, ";") {
			continue
		}
		var err error
		if k.key, err = parseKey(f[i+1:]); err != nil {
			return nil, fmt.Errorf("key file %s: %w", name, err)
		}
		if k.key.tag != k.tag {
			return nil, fmt.Errorf("key file %s: it holds key %d", name, k.key.tag)
		}
	}
	slices.Sort(names)
	list := make([]signerKey, len(names))
	for i, name := range names {
		list[i] = *byName[name]
	}
	return list, nil
}

func (k *signerKey) set(word, value string) {
	number := func() int { n, _ := strconv.Atoi(value); return n }
	stamp := func() time.Time { // 20261121010631 (Sat Nov 21 01:06:31 2026)
		digits, _, _ := strings.Cut(value, " ")
		t, _ := time.Parse("20060102150405", digits)
		return t
	}
	switch word {
	case "KSK":
		k.ksk = value == "yes"
	case "ZSK":
		k.zsk = value == "yes"
	case "Successor":
		k.successor = number()
	case "Predecessor":
		k.predecessor = number()
	case "GoalState":
		k.goal = value
	case "DNSKEYState":
		k.dnskey = value
	case "ZRRSIGState":
		k.zrrsig = value
	case "KRRSIGState":
		k.krrsig = value
	case "DSState":
		k.ds = value
	case "Published":
		k.published = stamp()
	case "DSPublish":
		k.dsPublished = stamp()
	case "DSRemoved":
		k.dsRemoved = stamp()
	}
}

// states are those that the key has.
func (k *signerKey) states() []string {
	return slices.DeleteFunc([]string{k.dnskey, k.zrrsig, k.krrsig, k.ds}, func(s string) bool { return s == "" })
}

// gone: BIND has nothing of it in the zone any more.
func (k *signerKey) gone() bool {
	return k.goal == hidden && !slices.ContainsFunc(k.states(), func(s string) bool { return s != hidden })
}

// stable: in use, and nothing about it moves.
func (k *signerKey) stable() bool {
	return k.goal == omnipresent && !slices.ContainsFunc(k.states(), func(s string) bool { return s != omnipresent })
}

func (k *signerKey) String() string {
	role := "ZSK"
	switch {
	case k.ksk && k.zsk:
		role = "CSK"
	case k.ksk:
		role = "KSK"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s %d (algorithm %d): goal %s, dnskey %s", role, k.tag, k.alg, k.goal, k.dnskey)
	for _, s := range []struct{ name, state string }{{"zone rrsig", k.zrrsig}, {"key rrsig", k.krrsig}, {"ds", k.ds}} {
		if s.state != "" {
			fmt.Fprintf(&text, ", %s %s", s.name, s.state)
		}
	}
	return text.String()
}

func keyOf(keys []signerKey, tag int) *signerKey {
	i := slices.IndexFunc(keys, func(k signerKey) bool { return k.tag == tag })
	if i < 0 {
		return nil
	}
	return &keys[i]
}

// successorOf is the key that follows tag, by either's word. It is how a roll that has begun is
// recognised.
func successorOf(keys []signerKey, tag int) *signerKey {
	for i := range keys {
		if keys[i].predecessor == tag {
			return &keys[i]
		}
	}
	if old := keyOf(keys, tag); old != nil && old.successor != 0 {
		return keyOf(keys, old.successor)
	}
	return nil
}

// candidates are the keys of a role that may be rolled, and what stands against a roll. own is the
// key that this roll is of already (0: none yet): it and its successor may be under way.
func candidates(keys []signerKey, role string, own int) (list []signerKey, problems []string) {
	follower := 0
	if s := successorOf(keys, own); own != 0 && s != nil {
		follower = s.tag
	}
	seen := map[int]bool{}
	for _, k := range keys {
		if seen[k.tag] {
			problems = append(problems, fmt.Sprintf("two keys of the signer have the tag %d: commands by tag would be ambiguous", k.tag))
		}
		seen[k.tag] = true
		switch {
		case k.gone():
		case k.ksk && k.zsk:
			problems = append(problems, fmt.Sprintf("key %d is for both roles (CSK); only separate ksk and zsk can be rolled", k.tag))
		case k.tag == own || k.tag == follower:
		case !k.stable():
			problems = append(problems, "a roll, or something else, is in progress: "+k.String())
		case k.ksk && role == "ksk" || k.zsk && role == "zsk":
			list = append(list, k)
		}
	}
	return list, problems
}
