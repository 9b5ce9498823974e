package firewall

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/outward"
)

// push is one call of the job type.
type push struct {
	r      *runOf
	params *Params
	file   []byte // what is loaded: the old table goes, the new one comes, in one transaction
	links  string // not empty: the ruleset names interfaces that must be there when it loads
	id     string // folder on the host
	key    string // the same in each attempt of this step of this job
	job    string
	guard  *outward.Guard // of probes from the worker

	source string // hash of the file
	blind  bool   // the host has no place to load a table in but its own: what a ruleset becomes is known when it is live

	fresh     table // of the ruleset; want is the same but when widening
	want, old table
	text      string    // of the wanted table, as nft writes it; of the file where that is not known
	armed     time.Time // a little before the host's timer began
	seen      bool      // the new table was applied, or may have been
}

func run(ctx context.Context, r *runOf, guard *outward.Guard) error {
	p := &push{r: r, params: &r.Params, job: r.Job, guard: guard}
	if err := p.outside(); err != nil {
		return err
	}
	p.key = short(r.Key + "\n" + r.Step)
	p.id = "push-" + p.key + "-" + strings.ToLower(rand.Text()[:8])
	if err := p.load(ctx); err != nil {
		return err
	}
	for range 3 { // once, except what an earlier attempt left behind
		again, err := p.attempt(ctx)
		if !again || err != nil {
			return err
		}
	}
	return sdk.Refuse("an earlier push stays in the way").Retryable()
}

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:12]
}

// load gets the ruleset and makes the file of it.
func (p *push) load(ctx context.Context) error {
	text := p.params.Ruleset
	if p.params.Artifact != "" {
		var b bytes.Buffer
		info, err := p.r.Artifact(ctx, p.params.Artifact, maxRuleset, &b)
		if err != nil {
			return fmt.Errorf("artifact %s: %w", p.params.Artifact, err)
		}
		if p.params.SHA256 != "" && info.SHA256 != p.params.SHA256 {
			return sdk.Refuse("artifact %s: its sha256 is %s, expected %s", p.params.Artifact, info.SHA256, p.params.SHA256)
		}
		text = b.String()
		if err := lint(text, p.params.Table); err != nil {
			return sdk.Refuse("artifact %s: %w", p.params.Artifact, err)
		}
	}
	p.file = []byte(p.head() + strings.TrimRight(text, "\n") + "\n")
	sum := sha256.Sum256(p.file)
	p.source = hex.EncodeToString(sum[:])
	p.linked(text)
	return nil
}

// linked notes whether rules look interfaces up when they load: the old table's do in its snapshot.
func (p *push) linked(text string) {
	for _, s := range statements(text) {
		for w := range strings.FieldsSeq(s.text) {
			if w == "iif" || w == "oif" || w == "devices" || w == "device" {
				p.links = "yes"
			}
		}
	}
}

// attempt is the whole push; again reports that something of an earlier one was cleared away first.
func (p *push) attempt(ctx context.Context) (again bool, err error) {
	facts, err := p.inspect(ctx)
	if err != nil {
		return false, err
	}
	p.linked(facts.Text("livetext"))
	if err := p.choose(ctx, facts); err != nil {
		return false, err
	}
	if facts.Has("lock") && !facts.Has("stale") {
		again, done, err := p.earlier(ctx, facts)
		if again || done || err != nil {
			return again, err
		}
	}
	p.output(facts)
	if p.old.hash == p.want.hash {
		return false, p.equal(ctx, facts)
	}
	p.r.ShowDiff("table "+p.params.Table, []byte(facts.Text("livetext")), []byte(p.text))
	if p.params.Mode != "narrow" && p.drifted(facts) { // what is narrowed is known to be what was widened
		p.r.Output("drift", true)
		what := fmt.Sprintf("the live table %s is not the one that was pushed last", p.params.Table)
		switch p.params.OnDrift {
		case "report":
			p.r.Explain("drift, left alone: " + what)
			return false, nil
		case "fail":
			return false, sdk.Refuse("drift: %s; compare with --check --diff, then push with on_drift: overwrite", what)
		}
	}
	if p.r.Check {
		p.r.Changed()
		p.r.Explain("would replace the table " + p.params.Table)
		return false, nil
	}
	return false, p.replace(ctx)
}

// inspect is the first round trip: it changes nothing, and finds all that can be found before.
func (p *push) inspect(ctx context.Context) (sdk.Answer, error) {
	p.r.Progress(0.1, "look")
	facts, err := p.ask(ctx, sdk.Command{Run: p.script(inspectScript(p.dead())), Stdin: bytes.NewReader(p.file), ReadOnly: true})
	if err != nil {
		return facts, fmt.Errorf("inspect the firewall: %w", err)
	}
	if facts.Has("folder") { // a file would be moved into it, where nothing loads it
		return facts, sdk.Refuse("persist: %s is a folder of the host; expected the file that it loads at boot, such as %s/turnus.nft", p.params.Persist, p.params.Persist)
	}
	p.blind = facts.Value("scratch") == "none"
	if bad := strings.TrimSpace(facts.Text("bad")); bad != "" || !p.blind && !facts.Has("want") {
		return facts, sdk.Refuse("nft refuses the ruleset: %s", clip(bad))
	}
	if p.blind {
		return facts, p.inspectBlind(facts)
	}
	if p.want, err = p.canonical(facts, "want"); err != nil {
		return facts, sdk.Refuse("the ruleset: %w", err)
	}
	p.fresh, p.text = p.want, facts.Text("wanttext")
	if p.old, err = p.canonical(facts, "live"); err != nil {
		return facts, sdk.Refuse("the live table: %w", err)
	}
	return facts, p.reachable()
}

func (p *push) canonical(a sdk.Answer, word string) (table, error) {
	if word == "live" && a.Has("absent") {
		return table{}, nil
	}
	family, name, _ := strings.Cut(p.params.Table, " ")
	return canonical([]byte(a.Text(word)), family, name, dynamicSets(a.Text(word+"text")))
}

// maxAnswer bounds the answer of a host: four listings of the largest table.
const maxAnswer = 64 << 20

// ask runs a script in one round trip.
func (p *push) ask(ctx context.Context, c sdk.Command) (sdk.Answer, error) {
	out := sdk.Head{Limit: maxAnswer}
	c.Stdout = &out
	exit, err := p.r.Host().Exec(ctx, c)
	if err == nil {
		err = exit.Err()
	}
	if err == nil && out.Truncated() {
		err = fmt.Errorf("its answer: %w", sdk.ErrTooLarge)
	}
	return sdk.ReadAnswer(out.String()), err
}

func clip(text string) string {
	if short := sdk.OutputText(text, 800); len(short) < len(text) {
		text = short + "…"
	}
	return strings.ReplaceAll(text, "\n", " ")
}

func (p *push) output(facts sdk.Answer) {
	p.r.Output("old_hash", p.old.hash)
	p.r.Output("new_hash", p.want.hash)
	p.r.Output("drift", false)
	p.r.Output("chains", p.want.chains)
	p.r.Output("rules", p.want.rules)
	p.r.Output("elements", p.want.elements)
	p.r.Log().Debug("firewall", "nft", facts.Value("version"))
}

// drifted: a table that is there, and is not what was pushed last. One that is not there is
// nobody's.
func (p *push) drifted(facts sdk.Answer) bool {
	return p.old.hash != "" && facts.Value("applied") != p.old.hash
}

// earlier meets a push that is under way on the host. done reports that it was ours, and has now
// been confirmed.
func (p *push) earlier(ctx context.Context, facts sdk.Answer) (again, done bool, err error) {
	state := facts.Value("state")
	left := facts.Number("deadline") - facts.Number("uptime")
	ours := facts.Value("key") == p.key
	switch {
	case state == "confirmed" && !ours, state == "reverted": // its lock was left behind; arming takes it over
		return false, false, nil
	case state == "" && left < -5: // it died before its timer was armed
		return false, false, nil
	case !ours && left >= -10:
		return false, false, sdk.Refuse("another push is under way on this host: job %s, for at most %d s more (%s/%s)",
			facts.Value("job"), max(left, 0), p.params.folder(), facts.Value("lock")).Retryable()
	case p.r.Check:
		return false, false, nil
	case state == "": // ours, and what stages it may still run on the host
		return false, false, sdk.Refuse("an earlier attempt of this step ended before its timer was armed; its lock ends in %d s (%s/%s)",
			left+6, p.params.folder(), facts.Value("lock")).Retryable()
	}
	mine := p.id
	p.id = facts.Value("lock")
	enough := state == "confirmed" || state == "armed" && time.Duration(left)*time.Second > 2*time.Duration(p.params.ConnectTimeout)
	if ours && enough && p.old.hash == p.want.hash { // applied by an attempt whose worker died: continue from there
		p.old = table{hash: p.r.State.Old}
		p.armed = time.Now().Add(time.Duration(left-1)*time.Second - time.Duration(p.params.ConfirmTimeout))
		p.output(facts)
		p.r.Changed()
		p.seen = true
		return false, true, p.prove(ctx)
	}
	p.r.Progress(0.2, "taking an earlier push back")
	status, err := p.ask(ctx, sdk.Command{Run: p.script(revertScript(p.dead())), Timeout: time.Minute})
	if err == nil && status.Value("state") == sdk.StateReverting { // the timer was first, and is not done yet
		status, err = p.settled(ctx)
	}
	if err == nil && status.Value("state") != sdk.StateReverted {
		err = sdk.Failf("an earlier push (%s/%s) does not revert: see the file failed there", p.params.folder(), p.id).Lost()
	}
	p.id = mine
	return true, false, err
}

// settled waits until the host is done with taking a push back, for a minute at most.
func (p *push) settled(ctx context.Context) (status sdk.Answer, err error) {
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = sdk.Poll(waiting, 200*time.Millisecond, time.Second, func(ctx context.Context) (bool, error) {
		var err error
		status, err = p.ask(ctx, sdk.Command{Run: p.script(statusScript), ReadOnly: true})
		return status.Value("state") != sdk.StateReverting, err
	})
	if waiting.Err() != nil && ctx.Err() == nil {
		err = nil // it still reverts: the caller reports that
	}
	return status, err
}

// equal: the live table is the wanted one. The file for the next boot may not be.
func (p *push) equal(ctx context.Context, facts sdk.Answer) error {
	if p.r.Resumed && p.r.State.New == p.want.hash {
		p.r.Changed() // by an attempt whose worker died after it confirmed
	}
	if p.params.Mode == "widen" {
		p.r.Explain("what the ruleset lets through is let through already")
		return nil // what was widened was persisted with its confirmation
	}
	if p.params.Persist == "" || facts.Has("persisted") {
		return nil
	}
	p.r.Changed()
	if p.r.Check {
		p.r.Explain("would write " + p.params.Persist)
		return nil
	}
	a, err := p.ask(ctx, sdk.Command{Run: p.script(persistScript), Stdin: bytes.NewReader(p.file)})
	if err != nil {
		return fmt.Errorf("writing %s: %w", p.params.Persist, err)
	}
	return p.persisted(a)
}

func (p *push) persisted(a sdk.Answer) error {
	if p.params.Persist == "" {
		return nil
	}
	if !a.Has("persisted") {
		return sdk.Failf("the table is live and confirmed, but a reboot would not keep it: %s: %s", p.params.Persist, clip(a.Value("refused"))).Retryable().Effects(sdk.EffectsPartial)
	}
	p.r.Output("persisted", p.params.Persist)
	return nil
}

// replace arms the host's timer, applies, and proves. Once armed, it ends as confirmed, rolled back
// or lost.
func (p *push) replace(ctx context.Context) error {
	state := State{Push: p.id, Old: p.old.hash, New: p.want.hash}
	if err := p.r.Checkpoint(ctx, "staged", state); err != nil {
		return err
	}
	if err := p.r.MayStart(ctx, 2*time.Duration(p.params.ConfirmTimeout)); err != nil {
		return err
	}
	if err := p.arm(ctx); err != nil {
		return err
	}
	if err := p.r.Save(ctx, "armed", state); err != nil {
		return p.takeBack(ctx, fmt.Errorf("nothing was applied: %w", err))
	}
	p.r.Progress(0.5, "apply")
	a, err := p.ask(ctx, sdk.Command{Run: p.script(applyScript(p.dead())), Timeout: time.Duration(p.params.ConnectTimeout)})
	p.seen = true
	if a.Has("refused") {
		return p.takeBack(ctx, fmt.Errorf("the new table was not applied: %s", clip(a.Value("refused"))))
	}
	p.r.Changed()
	if err != nil && ctx.Err() == nil { // a table that cuts the connection gives no answer; only a new connection proves it
		p.r.Log().Warn("applying gave no answer", "error", err)
	}
	return p.prove(ctx)
}

func (p *push) arm(ctx context.Context) error {
	p.r.Progress(0.3, "arm")
	p.armed = time.Now()
	a, err := p.ask(ctx, sdk.Command{Run: p.script(armScript(p.dead())), Stdin: bytes.NewReader(p.file)})
	p.r.Output("push", p.params.folder()+"/"+p.id)
	switch {
	case err != nil:
		return fmt.Errorf("arming the timer: nothing was applied: %w", err)
	case a.Has("refused"):
		return sdk.Refuse("nothing was applied: %s", clip(a.Value("refused"))).Retryable()
	case a.Has("busy"):
		return sdk.Refuse("another push is under way on this host: job %s, for at most %d s more (%s/%s)", a.Value("job"),
			max(a.Number("deadline")-a.Number("uptime"), 0), p.params.folder(), a.Value("busy")).Retryable()
	case !a.Has("armed"):
		return sdk.Refuse("arming the timer: the host did not report that it runs; nothing was applied").Retryable()
	}
	snapshot, err := p.canonical(a, "live")
	if err == nil && snapshot.hash != p.old.hash {
		err = errors.New("the snapshot does not load as the table that was seen: it was changed meanwhile, or nft cannot read what it lists")
	}
	if err != nil {
		return p.takeBack(ctx, fmt.Errorf("nothing was applied: %w", err))
	}
	return nil
}
