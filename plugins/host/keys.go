package host

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

// KeysType is the job type of a scan of host keys. The supervisor does it itself, in the place of a
// plugin: no plugin gets a connection to a host whose key is not known.
const KeysType = "hostkeys"

func keysType() Type {
	return Type{
		Name: KeysType, Summary: "Show the host keys of a host, and do not log in to it", Idempotent: true, OnLost: "retry",
		Params: json.RawMessage(`{"type":"object","additionalProperties":false}`),
	}
}

// scanKeys collects the keys of the call's host. It logs in to jump hosts only, as a run does.
func (s *Supervisor) scanKeys(ctx context.Context, c *Call) Outcome {
	if s.cfg.Reach == nil {
		return Outcome{Failed: true, Unreachable: true, Reason: nowhere{}.err(c.Host).Error(), Effects: EffectsNone}
	}
	if err := c.live(); err != nil {
		return Outcome{Cancelled: true, Reason: "cancelled before it began: " + err.Error(), Effects: EffectsNone}
	}
	as, err := s.cfg.Reach.Compare(c.Host, nil)
	var shown []ssh.PublicKey
	if err == nil {
		shown, err = s.cfg.Reach.ScanKeys(ctx, c.Host)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return ended(ctx.Err(), "", EffectsNone)
	case err != nil:
		return Outcome{Failed: true, Unreachable: errors.Is(err, core.ErrUnreachable), Reason: brief(err.Error()), Effects: EffectsNone}
	}
	keys := core.Map(shown, func(key ssh.PublicKey) any { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) })
	return Outcome{Outputs: map[string]any{"known_hosts_name": as.Name, "keys": keys}}
}
