package dnssec

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// milestone is one line of a plan: a phase, how long after the start at the earliest, and when it
// would be overdue.
type milestone struct {
	name, what string
	after, due time.Duration
}

// forecast is when each phase would end, for a roll that begins now. served is the TTL of the DS at
// the parent. It is pure.
func forecast(role string, t timing, served time.Duration, factor float64, grace, within time.Duration) (list []milestone) {
	var after, due time.Duration
	add := func(name, what string, takes, most time.Duration) {
		after += takes
		due += most
		list = append(list, milestone{name, what, after, due})
	}
	late := func(d time.Duration) time.Duration { return safely(d, factor) + grace }
	if role == "zsk" {
		add("Z1 start", "the signer makes a new key", 0, grace)
		add("Z2 publish", "it is published for longer than the old set is remembered", t.publication(), late(t.publication()))
		add("Z3 sign", "it has signed everything again", t.signing(), late(t.signing()+t.Propagation))
		rest := t.zoneRetire() - t.signing()
		add("Z4 finish", "the old key is removed", rest, late(rest+t.hiding()+t.RetireSafety))
		return list
	}
	remember := safely(t.parentRetire(served), factor)
	add("K1 start", "the signer makes a new key, and both sign", 0, grace)
	add("K2 publish", "it is published for longer than the old set is remembered", t.publication(), late(t.publication()))
	add("K3 submit", "its DS goes to the parent, beside the old one", 0, within)
	add("K4 prove", "the DS is on every address of the parent, and validates", 0, within)
	add("K5 withdraw", "the old DS goes; both waits are the TTL of the DS and the parent's delay", 2*remember, 2*remember+within+2*grace)
	add("K6 finish", "the old key is removed", t.keyRetire(), late(t.keyRetire()+t.hiding()+t.RetireSafety))
	return list
}

// plan is check mode: the preflight, and what would come.
func (x *roll) plan(ctx context.Context) error {
	if x.p.Action == "abort" {
		x.r.Explain("would take the parent back to the old key, where that is still safe, and stop the roll")
		x.r.Changed()
		return nil
	}
	v, _, err := x.inspect(ctx)
	if err != nil {
		return err
	}
	st := &x.r.State
	var text strings.Builder
	fmt.Fprintf(&text, "%s of %s: key %d goes. Policy %s.\n", strings.ToUpper(x.p.Key), x.p.Zone, st.Old, st.Policy.Name)
	for _, s := range forecast(x.p.Key, st.Policy.Times, st.ServedDS, x.p.SafetyFactor, x.grace(), time.Duration(x.p.Parent.Within)) {
		fmt.Fprintf(&text, "  %-12s not before %s, overdue after %s: %s\n", s.name, v.now.Add(s.after).Format("2006-01-02 15:04:05"), v.now.Add(s.due).Format("2006-01-02 15:04:05 UTC"), s.what)
	}
	x.r.Print([]byte(text.String()))
	before, after := keysText(v.keys, 0, ""), keysText(v.keys, st.Old, x.p.Key)
	if x.p.Key == "ksk" {
		for _, place := range v.places.Parents {
			before += fmt.Sprintf("%s: DS of key %d\n", place, st.Old)
			after += fmt.Sprintf("%s: DS of the new key\n", place)
		}
	}
	x.r.ShowDiff("keys of "+x.p.Zone, []byte(before), []byte(after))
	x.r.Changed()
	x.r.Explain(fmt.Sprintf("would roll the %s %d; done not before %s", x.p.Key, st.Old, v.now.Add(last(forecast(x.p.Key, st.Policy.Times, st.ServedDS, x.p.SafetyFactor, 0, 0)).after).Format("2006-01-02 15:04 UTC")))
	return nil
}

func last(list []milestone) milestone { return list[len(list)-1] }

// keysText is the keys in use, one a line; the one that goes is replaced.
func keysText(keys []signerKey, goes int, role string) string {
	var text strings.Builder
	for _, k := range keys {
		switch {
		case k.gone():
		case k.tag == goes:
			fmt.Fprintf(&text, "%s, new, of algorithm %d\n", strings.ToUpper(role), k.alg)
		default:
			fmt.Fprintf(&text, "%s\n", k.String())
		}
	}
	return text.String()
}
