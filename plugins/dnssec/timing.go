package dnssec

import (
	"fmt"
	"time"
)

// timing holds the times of the signer's dnssec-policy, with BIND's defaults where it is silent.
// All of it is pure.
type timing struct {
	DNSKEYTTL         time.Duration `json:"dnskey_ttl"`
	MaxZoneTTL        time.Duration `json:"max_zone_ttl"`
	Propagation       time.Duration `json:"propagation"` // of the zone to all its servers
	PublishSafety     time.Duration `json:"publish_safety"`
	RetireSafety      time.Duration `json:"retire_safety"`
	Validity          time.Duration `json:"validity"` // of signatures
	Refresh           time.Duration `json:"refresh"`  // so long before its end a signature is made again
	DSTTL             time.Duration `json:"ds_ttl"`
	ParentPropagation time.Duration `json:"parent_propagation"`
}

// publication is Ipub = Dprp + TTLkey (RFC 7583, 3.2.1): how long a new key is published before
// everybody has it.
func (t timing) publication() time.Duration { return t.DNSKEYTTL + t.Propagation + t.PublishSafety }

// signing is Dsgn: until the last signature of an old key has been replaced.
func (t timing) signing() time.Duration { return max(t.Validity-t.Refresh, 0) }

// zoneRetire is Iret = Dsgn + Dprp + TTLsig (RFC 7583, 3.2.1): how long an old ZSK stays published
// after the new one signs.
func (t timing) zoneRetire() time.Duration {
	return t.signing() + t.Propagation + t.MaxZoneTTL + t.RetireSafety
}

// parentRetire is Iret = DprpP + TTLds (RFC 7583, 3.3.3) for the TTL that the parent really serves:
// how long a DS may be remembered after the last of the parent's servers has another.
func (t timing) parentRetire(served time.Duration) time.Duration {
	return max(served, t.DSTTL) + t.ParentPropagation
}

// keyRetire is how long BIND keeps an old KSK after the report that its DS is gone.
func (t timing) keyRetire() time.Duration { return t.DSTTL + t.ParentPropagation + t.RetireSafety }

// hiding is how long a removed DNSKEY may be remembered.
func (t timing) hiding() time.Duration { return t.DNSKEYTTL + t.Propagation }

// safely makes a wait longer by the factor of safety.
func safely(d time.Duration, factor float64) time.Duration {
	return time.Duration(float64(d) * factor)
}

// span is when something may be looked for, and when it is overdue.
type span struct{ From, Due time.Time }

// expect is the span of what takes d from start on. Overdue is only what is late by the factor and
// the grace.
func expect(start time.Time, d time.Duration, factor float64, grace time.Duration) span {
	return span{From: start.Add(d), Due: start.Add(safely(d, factor) + grace)}
}

// next is how long to wait before looking again.
func (s span) next(now time.Time, poll time.Duration) time.Duration {
	return max(s.From.Sub(now), poll)
}

func (s span) overdue(now time.Time) bool { return now.After(s.Due) }

// disagrees compares the policy with what is served: if the policy has less, the signer would act
// too early.
func (t timing) disagrees(dnskeyTTL, zoneTTL, dsTTL time.Duration) (bad []string) {
	for _, c := range []struct {
		what         string
		says, served time.Duration
	}{
		{"dnskey-ttl", t.DNSKEYTTL, dnskeyTTL}, {"max-zone-ttl", t.MaxZoneTTL, zoneTTL}, {"parent-ds-ttl", t.DSTTL, dsTTL},
	} {
		if c.served > c.says {
			bad = append(bad, fmt.Sprintf("the policy's %s is %s, but a TTL of %s is served: the signer would continue too early; raise it in the policy", c.what, c.says, c.served))
		}
	}
	return bad
}
