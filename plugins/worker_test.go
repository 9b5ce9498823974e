package plugins_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
)

// labOrder is what a worker in a process of its own does, so that a test may kill it.
type labOrder struct {
	Key    string
	Host   core.Host
	Type   string // firewall.push when empty
	Params json.RawMessage
	Files  string

	StateFile string        // checkpoints are kept there, and the call begins with what is; "" keeps none
	KillAt    string        // the worker kills itself when a checkpoint's state holds this text
	KillAfter time.Duration // so long afterwards
}

func workerMain(file string) {
	raw, err := os.ReadFile(file)
	var order labOrder
	if err == nil {
		err = json.Unmarshal(raw, &order)
	}
	if err == nil {
		err = work(order)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func work(order labOrder) error {
	supervisor, stop, err := supervise(order.Key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	call := host.Call{
		Job: core.JobID{Run: "run"}, Step: "push", Attempt: 1, Type: cmp.Or(order.Type, "firewall.push"), Params: order.Params, Host: order.Host,
		Key: "worker", Fence: 1, Files: order.Files,
	}
	if order.StateFile != "" {
		if call.State, err = order.state(); err != nil {
			return err
		}
		call.Checkpoint = order.checkpoint
	}
	got, err := supervisor.Run(ctx, call)
	fmt.Printf("%+v %v\n", got, err)
	return stop()
}

// state is what an earlier worker saved.
func (o *labOrder) state() (*host.State, error) {
	raw, err := os.ReadFile(o.StateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var s host.State
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	return &s, err
}

func (o *labOrder) checkpoint(_ context.Context, s host.State) error {
	raw, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(o.StateFile+".new", raw, 0o600)
	}
	if err == nil {
		err = os.Rename(o.StateFile+".new", o.StateFile)
	}
	if err == nil && o.KillAt != "" && strings.Contains(string(s.JSON), o.KillAt) {
		time.AfterFunc(o.KillAfter, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	return err
}
