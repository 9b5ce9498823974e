// The plugin lab is as somebody else writes one: a module of its own that imports the sdk only. Its
// job types leave a trace of every execution, and misbehave when asked to.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// Trace sets where an execution is noted and how long it takes.
type Trace struct {
	File  string `json:"file" turnus:"required,pattern=^/" jsonschema:"a line is appended at the begin and at the end; /worker/NAME is in the worker's own folder"`
	Ms    int    `json:"ms,omitempty" jsonschema:"how long the work takes, in milliseconds"`
	Print int    `json:"print,omitempty" jsonschema:"bytes of output"`
	Await string `json:"await,omitempty" jsonschema:"a file: the work ends when it is there"`
}

func trace(ctx context.Context, r *sdk.Run[Trace, sdk.NoState]) error {
	if err := noted(ctx, r, r.Params); err != nil {
		return err
	}
	r.Changed()
	return nil
}

// noted notes begin and end of an execution.
func noted[P, S any](ctx context.Context, r *sdk.Run[P, S], t Trace) error {
	if name, ok := strings.CutPrefix(t.File, "/worker/"); ok {
		t.File = fmt.Sprintf("/proc/%d/cwd/%s", os.Getppid(), name)
	}
	f, err := os.OpenFile(t.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	line := func(what string) {
		fmt.Fprintf(f, "%s %s %s %d %d %d %s\n", what, r.Job, r.Host().Name, r.Fence, os.Getppid(), time.Now().UnixNano(), r.Key)
	}
	line("begin")
	_, _ = r.Stdout().Write(bytes.Repeat([]byte("0123456789abcde\n"), t.Print/16))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(t.Ms) * time.Millisecond):
	}
	for t.Await != "" {
		if _, err := os.Stat(t.Await); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	line("end")
	return nil
}

// Park sets where the two executions of a job are noted, and what it waits for between them.
type Park struct {
	File  string `json:"file" turnus:"required,pattern=^/" jsonschema:"as of lab.trace"`
	After int    `json:"after" turnus:"required" jsonschema:"seconds"`
	Event string `json:"event,omitempty" jsonschema:"continues with it, too"`
}

type parked struct {
	Parked bool `json:"parked"`
}

func park(ctx context.Context, r *sdk.Run[Park, parked]) error {
	if err := noted(ctx, r, Trace{File: r.Params.File}); err != nil {
		return err
	}
	if r.State.Parked {
		r.Changed()
		return nil
	}
	var options []sdk.SuspendOption
	if r.Params.Event != "" {
		options = append(options, sdk.UntilSignal(r.Params.Event))
	}
	return sdk.Suspend(parked{true}, time.Duration(r.Params.After)*time.Second, options...)
}

// How sets how the process misbehaves.
type How struct {
	How string `json:"how" turnus:"required,enum=kill|stop|stdout|stderr"`
}

func misbehave(ctx context.Context, r *sdk.Run[How, sdk.NoState]) error {
	flood := func(f *os.File) {
		long := append(bytes.Repeat([]byte("x"), 200<<10), '\n')
		for range 25 { // 5 MB in lines over every limit; beyond a burst of 4 MB the worker slows the plugin down
			_, _ = f.Write(long)
		}
		for range 5000 {
			fmt.Fprintln(f, `{"@level": 7, "@message": ["x"], "@timestamp": {}}`)
		}
	}
	switch r.Params.How {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		select {} // another thread may be stopped first
	case "stdout":
		flood(os.Stdout)
	case "stderr":
		flood(os.Stderr)
	}
	r.Changed()
	return nil
}

// Leak sets how a secret, or a value that is none, is given away.
type Leak struct {
	How   string `json:"how" turnus:"required,enum=tell|fail|state|panic|abort"`
	Value string `json:"value,omitempty" turnus:"secret" jsonschema:"given away beside the secrets"`
}

// leak gives all that it was given away, in every way that a plugin has.
func leak(ctx context.Context, r *sdk.Run[Leak, sdk.NoState]) error {
	values := []string{r.Params.Value}
	for _, name := range r.Secrets {
		value, err := r.Secret(ctx, name)
		if err != nil {
			return err
		}
		values = append(values, value)
	}
	for i, value := range values {
		if value == "" {
			continue
		}
		for name, form := range map[string]string{
			"plain": value, "base64": base64.StdEncoding.EncodeToString([]byte("user:" + value)), "hex": hex.EncodeToString([]byte(value)), "url": url.QueryEscape(value),
		} {
			size := 5
			if i < 3 {
				size = 1 // a byte at a time
			}
			for part := range slices.Chunk([]byte(form+"\n"), size) {
				_, _ = r.Stdout().Write(part)
				_, _ = r.Stderr().Write(part)
			}
			fmt.Fprintln(os.Stderr, "stderr of the plugin:", form)
			fmt.Println("stdout of the plugin:", form)
			r.Log().Info("log "+form, "attribute", form)
			r.Progress(0.5, "phase "+form)
			r.ShowDiff("/etc/"+form, []byte("before\n"), []byte(form+"\n"))
			r.Output(fmt.Sprintf("%s_%d", name, i), map[string]any{"in": []string{form}, form: true})
			r.Evidence(fmt.Sprintf("%s_%d", name, i), form)
		}
	}
	all := strings.Join(values, " ")
	switch r.Params.How {
	case "fail":
		return sdk.Fail("it failed with " + all)
	case "panic":
		go panic("panic with " + all)
		select {}
	case "abort":
		_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
		select {}
	}
	r.Explain("done with " + all)
	r.Changed()
	return nil
}

// keep tries to leave its secrets in a state.
func keep(ctx context.Context, r *sdk.Run[Leak, map[string]string]) error {
	state := map[string]string{"value": r.Params.Value}
	for _, name := range r.Secrets {
		value, err := r.Secret(ctx, name)
		if err != nil {
			return err
		}
		state[name] = value
	}
	return r.Checkpoint(ctx, "kept", state)
}

func main() {
	sdk.Serve(sdk.Plugin("lab", "1.0.0"),
		sdk.Job("lab.trace", trace, sdk.Idempotent(true), sdk.OnLost("retry"), sdk.Concurrency(256)),
		sdk.Job("lab.hold", trace, sdk.Idempotent(false), sdk.OnLost("hold")),
		sdk.Job("lab.park", park, sdk.Idempotent(true), sdk.OnLost("retry")),
		sdk.Job("lab.leak", leak, sdk.Idempotent(true)),
		sdk.Job("lab.crash", leak, sdk.Idempotent(false), sdk.OnLost("hold")),
		sdk.Job("lab.keep", keep, sdk.Idempotent(true)),
		sdk.Job("lab.misbehave", misbehave, sdk.Idempotent(false), sdk.OnLost("hold")),
	)
}
