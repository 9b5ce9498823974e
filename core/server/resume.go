package server

import (
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/controller"
)

// refuseFrom refuses from and else where they mean nothing.
func refuseFrom(asked api.Retry, isCommand bool) error {
	switch {
	case asked.Else != "" && asked.From == "":
		return fmt.Errorf("else sets what becomes of hosts that cannot continue at the failed step, and needs from: %w", core.ErrInvalid)
	case asked.From != "" && isCommand:
		return fmt.Errorf("the run is of a command, which has one step: retry it without from: %w", core.ErrInvalid)
	}
	return nil
}

// resume makes the hosts of a retry continue where they can, and lists those that do.
func (r *retry) resume(at *controller.Resumption, restart bool) error {
	resumed, restarted, err := at.Apply(r.launch, restart)
	if err != nil {
		return err
	}
	r.differs.Resumed = resumed
	for _, h := range restarted {
		r.differs.Restarted = append(r.differs.Restarted, api.Restarted(h))
	}
	return nil
}
