package firewall

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// margin is how much the host's clock of whole seconds may shorten its time.
const margin = time.Second

// prove confirms over a fresh connection, or has the host take the push back. An established
// connection proves nothing: it survives rules that let no new one in.
func (p *push) prove(ctx context.Context) error {
	end := p.armed.Add(time.Duration(p.params.ConfirmTimeout) - margin)
	proving, cancel := context.WithDeadlineCause(ctx, end, errors.New("confirm_timeout has passed"))
	defer cancel()
	p.r.Progress(0.6, "prove")
	connect := time.Duration(p.params.ConnectTimeout)
	err := patiently(proving, func(ctx context.Context) error {
		took, err := p.r.Host().Probe(ctx, connect)
		p.r.Output("proven_seconds", took.Round(time.Millisecond).Seconds())
		return err
	})
	if err != nil {
		return p.takeBack(ctx, fmt.Errorf("no fresh connection works: %w", err))
	}
	if err := p.probe(proving); err != nil {
		return p.takeBack(ctx, err)
	}
	var status sdk.Answer
	err = patiently(proving, func(ctx context.Context) (err error) {
		status, err = p.ask(ctx, sdk.Command{Run: p.script(statusScript), ReadOnly: true, Fresh: true, Timeout: connect})
		return err
	})
	if err != nil {
		return p.takeBack(ctx, fmt.Errorf("reading the live table: %w", err))
	}
	live, err := p.canonical(status, "live")
	if p.blind && err == nil {
		p.want = live // by the apply's word: the kernel took the whole file, or nothing of it
		p.r.Output("new_hash", live.hash)
	}
	if err == nil && live.hash != p.want.hash {
		err = errors.New("the live table is not the wanted one")
	}
	if err != nil {
		return p.takeBack(ctx, err)
	}
	return p.confirm(ctx, proving)
}

// patiently tries until it works, as long as the fault is one of the connection. The error is the
// last of these, if there was any.
func patiently(ctx context.Context, try func(ctx context.Context) error) error {
	var last error
	err := sdk.Poll(ctx, 200*time.Millisecond, 2*time.Second, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		if err == nil {
			return true, nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		return false, hopeless(err)
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// hopeless is the error itself where another try is no help.
func hopeless(err error) error {
	if errors.Is(err, sdk.ErrUnreachable) || errors.Is(err, sdk.ErrTimeout) {
		return nil
	}
	return err
}

// confirm disarms the timer. Asking twice is the same as once, so a connection that broke is tried
// again.
func (p *push) confirm(ctx, proving context.Context) error {
	p.r.Progress(0.9, "confirm")
	var a sdk.Answer
	err := patiently(proving, func(ctx context.Context) (err error) {
		a, err = p.ask(ctx, sdk.Command{Run: p.script(confirmScript(p.dead())), Fresh: true, Timeout: time.Duration(p.params.ConnectTimeout)})
		return err
	})
	p.r.Output("seconds", time.Since(p.armed).Round(time.Millisecond).Seconds())
	if a.Value("state") == "confirmed" {
		return p.persisted(a)
	}
	if err == nil {
		err = errors.New("the host's timer was first")
	}
	return p.takeBack(ctx, fmt.Errorf("confirming: %w", err))
}

// takeBack rolls back a push that was not proven: immediately where the host can be reached, and by
// its own timer where not. It proves that the old table is live again, over fresh connections.
// cause is why.
func (p *push) takeBack(ctx context.Context, cause error) error {
	if ctx.Err() != nil { // cancelled, or the worker goes: the host's timer needs nobody
		return ctx.Err()
	}
	p.r.Progress(0.9, "roll back")
	connect := time.Duration(p.params.ConnectTimeout)
	end := p.armed.Add(time.Duration(p.params.ConfirmTimeout) + 3*connect + 30*time.Second)
	waiting, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	// The pooled connection may still stand where no new one gets through.
	_, asked := p.ask(waiting, sdk.Command{Run: p.script(revertScript(p.dead())), Timeout: connect})
	if asked != nil {
		p.r.Log().Warn("the host cannot be asked: its timer brings the old table back", "error", asked)
	}
	var last error
	var state string
	err := sdk.Poll(waiting, 200*time.Millisecond, time.Second, func(ctx context.Context) (bool, error) {
		status, err := p.ask(ctx, sdk.Command{Run: p.script(statusScript), ReadOnly: true, Fresh: true, Timeout: connect})
		if err != nil {
			if ctx.Err() == nil || last == nil {
				last = err
			}
			return false, hopeless(err)
		}
		live, err := p.canonical(status, "live")
		if err != nil {
			return false, err
		}
		state = status.Value("state")
		switch {
		case state == "confirmed":
			return true, nil
		case state == "armed" || state == "reverting":
			last = fmt.Errorf("its push is still %s", state)
			return false, nil
		case p.seen && live.hash != p.old.hash:
			return false, errors.New("the live table is neither the old nor proven to be the new one")
		}
		return true, nil
	})
	p.r.Output("seconds", time.Since(p.armed).Round(time.Millisecond).Seconds())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return sdk.Failf("%w; and it is not proven that the host went back to its old table: %v", cause, errors.Join(err, last)).Lost()
	case state == "confirmed": // the answer to the confirmation was lost, not the confirmation
		return sdk.Failf("the table is live and confirmed, but its confirmation was not heard (%w): run it again", cause).Retryable().Effects(sdk.EffectsPartial)
	case !p.seen:
		return sdk.Refuse("%w", cause).Retryable()
	}
	return sdk.Failf("%w; the host is back at its old table", cause).RolledBack()
}

// errInner does not name the address: a name of the worker's network may be none of the reader's.
var errInner = errors.New("its address is in the worker's own network, which playbooks may not reach from the worker\n" +
	"hint: set from: host in the probe, or start the worker with --plugin-allow http=NETWORK, as 10.1.2.0/24")

// outside refuses probes of the worker's own network before the host is contacted. The address of a
// name is known when the probe connects to it.
func (p *push) outside() error {
	for _, probe := range p.params.Probes {
		address := net.JoinHostPort(probe.To, strconv.Itoa(probe.Port))
		if _, err := netip.ParseAddrPort(address); err != nil || probe.From == "host" {
			continue
		}
		if err := p.guard.Check(address); err != nil {
			return sdk.Refuse("probe from the worker to %s: %w", address, err)
		}
	}
	return nil
}

// probe makes all connections of probes at the same time.
func (p *push) probe(ctx context.Context) error {
	errs := make([]error, len(p.params.Probes))
	var all sync.WaitGroup
	for i, probe := range p.params.Probes {
		all.Go(func() { errs[i] = p.try(ctx, probe) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (p *push) try(ctx context.Context, probe Probe) error {
	limited, cancel := context.WithTimeout(ctx, time.Duration(p.params.ConnectTimeout))
	defer cancel()
	address := net.JoinHostPort(probe.To, strconv.Itoa(probe.Port))
	var conn net.Conn
	var err error
	if probe.From == "host" {
		conn, err = p.r.Host().Dial(limited, address)
	} else {
		conn, err = p.guard.Dialer().DialContext(limited, "tcp", address)
	}
	if err == nil {
		_ = conn.Close()
	}
	what := fmt.Sprintf("probe from the %s to %s", probe.From, address)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	case errors.Is(err, errInner): // whatever is expected, and without the address that the dialer names
		return fmt.Errorf("%s: %w", what, errInner)
	case probe.From == "host" && errors.Is(err, sdk.ErrUnreachable):
		return fmt.Errorf("%s: %w", what, err)
	case err == nil && probe.Expect == "closed":
		return fmt.Errorf("%s: it is open, expected closed", what)
	case err != nil && probe.Expect != "closed":
		return fmt.Errorf("%s: expected open: %w", what, err)
	}
	return nil
}
