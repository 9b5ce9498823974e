package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify/policy"
)

// stillFor is how old the last word of something that lasts may be: older, it has ended, and nobody
// is reminded of it.
const stillFor = 10 * time.Minute

// routeAll hands what happened on to channels. Servers do so side by side; the ledger takes the
// first.
func (s *Service) routeAll(ctx context.Context) {
	for ctx.Err() == nil && !s.cfg.View().Wait {
		all, err := s.cfg.Ledger.Happenings(ctx, routeMax)
		if err != nil {
			s.trouble(ctx, "cannot read the next notifications", err)
			return
		}
		var untold []ledger.Happening
		round := s.newRound(ctx, all)
		for _, h := range all {
			reported, err := s.route(ctx, h, round)
			if err == nil && !reported {
				untold = append(untold, h)
			}
			if err == nil {
				continue
			}
			if ctx.Err() != nil || errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrUnknown) {
				s.trouble(ctx, "cannot make a notification", err, "what", h.What, "about", h.Subject)
				return
			}
			s.cfg.Log.Error("cannot make the notification: nobody receives it", "what", h.What, "about", h.Subject, "error", err) // else all behind it would wait
			untold = append(untold, h)
		}
		if err := s.cfg.Ledger.Dismiss(ctx, untold...); err != nil {
			s.trouble(ctx, "cannot remove notifications that nobody receives", err)
			return
		}
		if len(all) < routeMax {
			return
		}
	}
}

func (s *Service) trouble(ctx context.Context, what string, err error, args ...any) {
	if ctx.Err() == nil {
		s.cfg.Log.Warn(what, append(args, "error", err)...)
	}
}

// round holds the data by which the happenings of one read are routed.
type round struct {
	View
	runs map[string]ledger.Run // that they are about, as far as they were read together
}

// newRound reads the runs of happenings together. It is best effort: missing ones are read singly.
func (s *Service) newRound(ctx context.Context, all []ledger.Happening) round {
	r := round{View: s.cfg.View(), runs: map[string]ledger.Run{}}
	var ids []string
	for i := range all {
		if id, ok := strings.CutPrefix(all[i].Subject, runSubject); ok && !s.notifiesNobody(r.View) {
			ids = append(ids, id)
		}
	}
	if len(ids) < 2 {
		return r
	}
	runs, err := s.cfg.Ledger.RunsOf(ctx, ids)
	if err == nil {
		for i := range runs {
			r.runs[runs[i].ID] = runs[i]
		}
	}
	return r
}

const runSubject = "run:"

func (s *Service) notifiesNobody(view View) bool {
	return view.Policy == nil && view.Playbook == nil && s.cfg.Own == nil
}

// route makes the notifications of one happening. If there are none, reported is false, and the
// happening is dismissed.
func (s *Service) route(ctx context.Context, h ledger.Happening, view round) (reported bool, err error) {
	if h.Unreadable != nil {
		return false, fmt.Errorf("what happened cannot be read from the ledger: %w", h.Unreadable)
	}
	if s.notifiesNobody(view.View) {
		return false, nil
	}
	notices, err := s.notices(ctx, h, view)
	if err != nil && !errors.Is(err, core.ErrNotFound) { // nobody needs a notification of a deleted run
		return false, err
	}
	var to []ledger.Notification
	for _, made := range notices {
		for _, at := range made.places {
			n := made.Notice
			n.ID = fmt.Sprintf("%s-%d", h.ID, len(to)+1)
			data, err := json.Marshal(n)
			if err != nil {
				return false, fmt.Errorf("write a notice of %s: %w", n.Kind, err)
			}
			to = append(to, ledger.Notification{
				ID: n.ID, Owner: ledger.Owner{Service: at.Service, Tenant: at.Tenant}, Channel: at.Channel, Medium: s.medium(view.View, at),
				Kind: n.Kind, Subject: h.Subject, Run: n.Run, Data: data,
			})
		}
	}
	if len(to) == 0 {
		return false, nil
	}
	_, err = s.cfg.Ledger.Route(ctx, h, to)
	return true, err
}

// medium is that of a channel. One that is not there any more gets its word at the first try.
func (s *Service) medium(view View, at policy.Place) string {
	if c := view.Policy.Channel(at); c != nil {
		return c.Medium()
	}
	return policy.MediumWebhook
}

// made is a notice and where it goes.
type made struct {
	Notice
	places []policy.Place
}

// places are the channels of a kind.
func (s *Service) places(view View, kind, tenant, playbook string) []policy.Place {
	k, ok := policy.Find(kind)
	if !ok {
		return nil
	}
	var own []policy.Route
	if view.Playbook != nil && playbook != "" {
		own = view.Playbook(playbook)
	}
	all := view.Policy.Places(policy.Subject{Kind: k, Tenant: tenant, Playbook: playbook}, own)
	at := policy.Place{Service: true, Channel: policy.Own}
	switch here := slices.Contains(all, at); {
	case s.cfg.Own == nil && here: // this server was started without it
		return slices.DeleteFunc(all, func(p policy.Place) bool { return p == at })
	case s.cfg.Own != nil && !here && !k.Asked:
		return append(all, at)
	}
	return all
}

// notices are the messages of a happening; none if nobody must be notified.
func (s *Service) notices(ctx context.Context, h ledger.Happening, view round) ([]made, error) {
	switch h.What {
	case ledger.HappenedEnded:
		return s.ended(ctx, h, view)
	case ledger.HappenedStopped:
		return s.ofRun(ctx, h, view, policy.RunStopped, func(r *ledger.Run) (string, string) {
			return "is stopped: no further host task starts", string(h.Data)
		})
	case ledger.HappenedPaused:
		return s.ofRun(ctx, h, view, policy.RunPaused, func(r *ledger.Run) (string, string) {
			return "is paused by the service", string(h.Data)
		})
	case ledger.HappenedAwaiting:
		return s.ofRun(ctx, h, view, policy.ApprovalNeeded, func(r *ledger.Run) (string, string) {
			return awaits(r, string(h.Data))
		})
	}
	return s.news(ctx, h, view)
}

// awaits returns whose approval a run waits for. If others may have approved it before a change,
// changedBy is the person who made the change; else it is "".
func awaits(r *ledger.Run, changedBy string) (title, detail string) {
	if r.Phase != ledger.PhaseAwaiting {
		return "", ""
	}
	people, waits := line(r.LaunchedBy, maxHost), "waits for an approval"
	if changedBy = line(changedBy, maxHost); changedBy != "" {
		waits = "waits for an approval, because it was changed"
		detail = changedBy + " changed it: approvals from before count no more. "
		if !core.SamePerson(r.LaunchedBy, changedBy) {
			people += " and " + changedBy
		}
	}
	if r.Approvals > 1 {
		people = fmt.Sprintf("%d others than %s", r.Approvals, people)
	} else {
		people = "somebody else than " + people
	}
	return waits, fmt.Sprintf("%sIt would run on %s. It needs %s: turnus runs approve %s", detail, hosts(r.Total), people, r.ID)
}

// ofRun makes the notice of a run. report gives the end of its title, and what follows; no title:
// it is not so any more.
func (s *Service) ofRun(ctx context.Context, h ledger.Happening, view round, kind string, report func(*ledger.Run) (title, detail string)) ([]made, error) {
	run, err := s.run(ctx, h, view)
	if err != nil {
		return nil, err
	}
	title, detail := report(&run)
	if title == "" {
		return nil, nil
	}
	n := s.runNotice(kind, &run, h)
	n.Title = fmt.Sprintf("%s: run %s %s", run.Playbook, run.ID, title)
	n.compose(detail)
	return s.only(view.View, n), nil
}

func (s *Service) run(ctx context.Context, h ledger.Happening, view round) (ledger.Run, error) {
	id := strings.TrimPrefix(h.Subject, runSubject)
	if run, ok := view.runs[id]; ok {
		return run, nil
	}
	return s.cfg.Ledger.Run(ctx, ledger.AllTenants(), id)
}

func (s *Service) runNotice(kind string, run *ledger.Run, h ledger.Happening) Notice {
	n := s.notice(kind, h)
	n.Tenant, n.Run, n.Playbook, n.Poll = run.Tenant, run.ID, run.Playbook, "turnus runs show "+run.ID
	return n
}

func (s *Service) notice(kind string, h ledger.Happening) Notice {
	k, _ := policy.Find(kind)
	return Notice{Kind: kind, Severity: k.Severity, At: h.At, Server: s.cfg.Server, Tenant: h.Tenant}
}

// only is a notice with its channels; nothing where there are none.
func (s *Service) only(view View, n Notice) []made {
	places := s.places(view, n.Kind, n.Tenant, n.Playbook)
	if len(places) == 0 {
		return nil
	}
	return []made{{n, places}}
}

// ended is how a run ended. Its hosts are read only if somebody is notified of them.
func (s *Service) ended(ctx context.Context, h ledger.Happening, view round) ([]made, error) {
	run, err := s.run(ctx, h, view)
	if err != nil || !run.Complete() {
		return nil, err
	}
	if !endedBadly(&run) {
		return s.endedWell(ctx, h, &run, view)
	}
	if missed, err := s.missedWindowsOnly(ctx, &run); missed || err != nil {
		return nil, err // window_missed reported them
	}
	kind := policy.RunFailed
	if run.Outcomes[core.Lost] > 0 {
		kind = policy.RunLost
	}
	n := s.runNotice(kind, &run, h)
	all := s.only(view.View, n)
	if len(all) == 0 {
		return nil, nil
	}
	var more string
	if n.Groups, more, err = s.summary(ctx, &run); err != nil {
		return nil, err
	}
	n.Outcomes = map[string]int{}
	counts := []string{}
	for _, o := range core.Outcomes() {
		if c := run.Outcomes[o]; c > 0 {
			n.Outcomes[string(o)] = c
			if !o.Good() {
				counts = append(counts, fmt.Sprintf("%d %s", c, strings.ReplaceAll(string(o), "_", " ")))
			}
		}
	}
	n.Title = fmt.Sprintf("%s: %s of %s; run %s is %s", run.Playbook, strings.Join(counts, ", "), hosts(run.Total), run.ID, run.Phase)
	n.compose(strings.TrimSpace(firstLine(run.Reason.Text()) + "\n" + more))
	all[0].Notice = n
	return all, nil
}

// endedWell notifies those who asked for it, and of a recovery those who asked for that.
func (s *Service) endedWell(ctx context.Context, h ledger.Happening, run *ledger.Run, view round) ([]made, error) {
	if run.Phase == ledger.PhaseCancelled {
		return nil, nil
	}
	well := s.only(view.View, s.runNotice(policy.RunSucceeded, run, h))
	back := s.only(view.View, s.runNotice(policy.RunRecovered, run, h))
	if len(back) > 0 {
		was, err := s.before(ctx, run)
		switch {
		case err != nil:
			return nil, err
		case was == "":
			back = nil
		default:
			n := &back[0].Notice
			n.Title = fmt.Sprintf("%s: run %s succeeded on %s", run.Playbook, run.ID, hosts(run.Total))
			n.compose("The run before, " + was + ", did not succeed.")
		}
	}
	if len(well) > 0 {
		n := &well[0].Notice
		n.Title = fmt.Sprintf("%s: run %s succeeded on %s", run.Playbook, run.ID, hosts(run.Total))
		n.compose("")
		if len(back) > 0 { // each channel gets it once
			well[0].places = slices.DeleteFunc(well[0].places, func(p policy.Place) bool { return slices.Contains(back[0].places, p) })
		}
	}
	return append(back, well...), nil
}

// before is the run of the same playbook before this one, where that did not end well.
func (s *Service) before(ctx context.Context, run *ledger.Run) (string, error) {
	list, err := ledger.First(ctx, 10, func(ctx context.Context, p ledger.Page) ([]ledger.Run, string, error) {
		return s.cfg.Ledger.Runs(ctx, ledger.Tenants(run.Tenant), ledger.RunFilter{Playbook: run.Playbook, Until: run.Created}, p)
	})
	if err != nil {
		return "", err
	}
	for i := range list {
		if list[i].ID != run.ID && list[i].Complete() {
			if endedBadly(&list[i]) {
				return list[i].ID, nil
			}
			return "", nil
		}
	}
	return "", nil
}

// news are those that somebody reported, see Report.
func (s *Service) news(ctx context.Context, h ledger.Happening, view round) ([]made, error) {
	kind, ok := policy.Find(h.What)
	var f fact
	if err := json.Unmarshal(h.Data, &f); err != nil || !ok {
		s.cfg.Log.Error("a notification of an unknown kind is not sent", "what", h.What)
		return nil, nil //nolint:nilerr // of another version: it is told nowhere
	}
	n := s.notice(kind.Name, h)
	n.Run, n.Playbook, n.Schedule, n.Window = f.Run, f.Playbook, f.Schedule, f.Window
	if f.Run != "" {
		run, err := s.cfg.Ledger.Run(ctx, ledger.AllTenants(), f.Run)
		if err != nil {
			return nil, err
		}
		n.Tenant, n.Playbook, n.Poll = run.Tenant, run.Playbook, "turnus runs show "+run.ID
		if run.Complete() && (kind.Name == policy.ApprovalNeeded || kind.Name == policy.StepStalled) {
			return nil, nil // it waits for nobody any more
		}
	}
	switch kind.Name {
	case policy.StepStalled:
		if time.Since(h.Latest) > stillFor {
			return nil, nil
		}
	case policy.TriggerSkipped:
		n.Poll = "turnus schedules ls"
		n.Count = h.Count
	case policy.ProjectRejected, policy.QueueAway, policy.QueueLost, policy.QueueBack:
		n.Poll = "turnus admin doctor"
	case policy.ApprovalNeeded:
		if f.Window != "" {
			n.Poll = "turnus windows approvals"
		}
	}
	all := s.only(view.View, n)
	if f.Own != "" && len(all) > 0 {
		own := made{Notice: n}
		for _, at := range all[0].places {
			if !at.Service {
				own.places = append(own.places, at)
			}
		}
		all[0].places = slices.DeleteFunc(all[0].places, func(at policy.Place) bool { return !at.Service })
		own.reports(f.Own, h.Count)
		all = append(all, own)
	}
	if len(all) > 0 {
		all[0].reports(f.Text, h.Count)
	}
	return slices.DeleteFunc(all, func(m made) bool { return len(m.places) == 0 }), nil
}

// reports writes the text of news, count of which happened.
func (n *Notice) reports(text string, count int) {
	title, detail, _ := strings.Cut(text, "\n")
	if n.Kind == policy.WindowMissed || n.Kind == policy.RunRepeated {
		title += " " + jobs(count)
	}
	if n.Run != "" {
		title = fmt.Sprintf("%s: run %s: %s", n.Playbook, n.Run, title)
	}
	n.Title = title
	n.compose(detail)
}
