package firewall

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
)

// choose decides which table is wanted: in mode widen not the ruleset's own.
func (p *push) choose(ctx context.Context, facts sdk.Answer) error {
	switch p.params.Mode {
	case "widen":
		if p.old.hash == "" || p.old.hash == p.fresh.hash || p.isWidened(facts) {
			p.want = p.old
			return nil
		}
		return p.widen(ctx, facts)
	case "narrow":
		if p.old.hash == "" || p.old.hash == p.fresh.hash || p.isWidened(facts) {
			return nil
		}
		return sdk.Refuse("the live table %s was not widened to this ruleset, so what it lets through may be needed still: push the ruleset with mode: widen first, or with mode: replace", p.params.Table)
	}
	return nil
}

// isWidened reports whether the live table is one that was widened to this ruleset, here or by a
// push of this step that is under way.
func (p *push) isWidened(facts sdk.Answer) bool {
	record := p.old.hash + " " + p.fresh.hash
	return facts.Value("widened") == record || facts.Value("key") == p.key && facts.Value("widens") == record
}

// widen makes the table that lets through what the live one or the ruleset does, in a second round
// trip: the host's own nft writes it as text.
func (p *push) widen(ctx context.Context, facts sdk.Answer) error {
	raw, err := widen(p.params.Table, []byte(facts.Text("live")), []byte(facts.Text("want")), dynamicSets(facts.Text("livetext")), dynamicSets(facts.Text("wanttext")))
	if err != nil {
		return sdk.Refuse("the live table and the ruleset cannot be joined to one that lets through what either does: %w; change it in steps of your own with mode: replace", err)
	}
	a, err := p.ask(ctx, sdk.Command{Run: p.script(widenScript), Stdin: bytes.NewReader(raw), ReadOnly: true})
	if err != nil {
		return fmt.Errorf("widening: %w", err)
	}
	if bad := strings.TrimSpace(a.Text("bad")); bad != "" || !a.Has("want") {
		return sdk.Refuse("nft refuses the widened table: %s", clip(bad))
	}
	p.text = a.Text("wanttext")
	p.file = []byte(p.head() + p.text)
	if p.want, err = p.canonical(a, "want"); err != nil {
		return sdk.Refuse("the widened table: %w", err)
	}
	return nil
}

// inspectBlind does without an empty network namespace: nft has checked the ruleset against the
// live kernel, which lets a jump loop pass, and what it becomes is not known before it is live. The
// file that was pushed last, and what it became, show whether there is anything to do.
func (p *push) inspectBlind(facts sdk.Answer) (err error) {
	if p.old, err = p.canonical(facts, "live"); err != nil {
		return sdk.Refuse("the live table: %w", err)
	}
	if p.params.Mode != "replace" {
		return sdk.Refuse("mode %s needs an empty network namespace on the host, from unshare -n or ip netns; neither works there", p.params.Mode)
	}
	if len(p.params.MgmtSources) > 0 {
		p.r.Log().Warn("mgmt_sources are not checked: the host has no empty network namespace to load the ruleset in; the proof over a fresh connection decides alone")
	}
	if p.old.hash != "" && facts.Value("source") == p.source+" "+p.old.hash {
		p.want = p.old
	} else {
		p.want = table{hash: "of " + p.source}
	}
	p.fresh, p.text = p.want, string(p.file)
	return nil
}

// head returns the text before a table that is loaded in the place of another, on its first line,
// so that nft's line numbers stay those of the ruleset. nft 1.0.6 has no destroy: declare, then
// delete.
func (p *push) head() string {
	return fmt.Sprintf("add table %s; delete table %s; ", p.params.Table, p.params.Table)
}
