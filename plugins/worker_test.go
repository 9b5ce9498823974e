package plugins_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
)

// labOrder is the order to a worker in a process of its own, so that a test may kill it.
type labOrder struct {
	Type   string
	Key    string
	Host   core.Host
	Params json.RawMessage
	Files  string
	State  string // file; empty: none is kept
	Fence  uint64 // of the queue lab; 0: hosts compare no fences

	KillAt    string        // the worker kills itself when a checkpoint's state holds this text
	KillAfter time.Duration // so long afterwards
	// KillCall kills it before this call of the job type or of the host, from 1. One more than there
	// are calls kills it after the last one.
	KillCall int
}

func killSelf() error { return syscall.Kill(os.Getpid(), syscall.SIGKILL) }

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
		Job: core.JobID{Run: "run"}, Step: "push", Attempt: 1, Type: order.Type, Params: order.Params, Host: order.Host, Key: "worker", Fence: 1, Files: order.Files,
	}
	if order.Fence > 0 {
		call.Queue, call.Fence = "lab", order.Fence
	}
	if order.KillCall > 0 {
		call.Live = func() error {
			if order.KillCall--; order.KillCall == 0 {
				return killSelf()
			}
			return nil
		}
	}
	if order.State != "" { // a file: what the queue would keep
		if err := follow(&call, order); err != nil {
			return err
		}
	}
	got, err := supervisor.Run(ctx, call)
	if order.KillCall == 1 { // after its last call, before anybody has its outcome
		return killSelf()
	}
	for err == nil && got.Suspended {
		if err = call.Checkpoint(ctx, *got.State); err != nil {
			break
		}
		fmt.Println(got.Reason)
		select {
		case <-ctx.Done():
		case <-time.After(got.ResumeAfter):
		}
		call.State = got.State
		got, err = supervisor.Run(ctx, call)
	}
	fmt.Printf("%+v %v\n", got, err)
	if order.State != "" && err == nil {
		raw, _ := json.Marshal(got)
		err = os.WriteFile(order.State+".end", raw, 0o600)
	}
	return errors.Join(err, stop())
}

// follow reads the state that an earlier worker left, and keeps each later one.
func follow(call *host.Call, order labOrder) error {
	file := order.State
	raw, err := os.ReadFile(file)
	if err == nil {
		call.State = &host.State{}
		err = json.Unmarshal(raw, call.State)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	call.Checkpoint = func(_ context.Context, s host.State) error {
		raw, err := json.Marshal(s)
		if err == nil {
			err = os.WriteFile(file+".part", raw, 0o600)
		}
		if err == nil {
			err = os.Rename(file+".part", file)
		}
		if err == nil && order.KillAt != "" && strings.Contains(string(s.JSON), order.KillAt) {
			time.AfterFunc(order.KillAfter, func() { _ = killSelf() })
		}
		return err
	}
	return nil
}

// labWorker is a worker in a process of its own, to be killed.
type labWorker struct {
	cmd *exec.Cmd
	out strings.Builder
}

// startWorker starts a process of this test binary.
func startWorker(t *testing.T, o labOrder) *labWorker {
	t.Helper()
	order, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "order.json")
	if err := os.WriteFile(file, order, 0o600); err != nil {
		t.Fatal(err)
	}
	w := &labWorker{cmd: exec.Command(self, "worker", file)}
	w.cmd.Stdout, w.cmd.Stderr = &w.out, &w.out
	w.cmd.WaitDelay = 10 * time.Second
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.kill)
	return w
}

// kill ends the worker and its plugin immediately, as a power cut does. Safe to call twice.
func (w *labWorker) kill() {
	if w.cmd.ProcessState == nil {
		w.end()
		_ = w.cmd.Wait()
	}
}

// end is kill for a caller that waits for the worker itself.
func (w *labWorker) end() {
	pid := w.cmd.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	_ = w.cmd.Process.Kill()
	for word := range strings.FieldsSeq(string(children)) {
		var child int
		if _, err := fmt.Sscan(word, &child); err == nil {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
	}
}

// waitFor polls a condition; false when ctx ends before it is true.
func waitFor(ctx context.Context, ok func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}
