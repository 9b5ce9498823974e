// The plugin lab is what somebody else writes: a module of its own that imports the
// sdk only. Its job types leave a trace of every execution, and misbehave when told to.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// Trace says where an execution is noted and how long it takes.
type Trace struct {
	File string `json:"file" turnus:"required,pattern=^/" jsonschema:"a line is appended at the begin and at the end"`
	Ms   int    `json:"ms,omitempty" jsonschema:"how long the work takes, in milliseconds"`
}

func trace(ctx context.Context, r *sdk.Run[Trace, sdk.NoState]) error {
	f, err := os.OpenFile(r.Params.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	line := func(what string) {
		fmt.Fprintf(f, "%s %s %s %d %d %d %s\n", what, r.Job, r.Host().Name, r.Fence, os.Getppid(), time.Now().UnixNano(), r.Key)
	}
	line("begin")
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(r.Params.Ms) * time.Millisecond):
	}
	line("end")
	r.Changed()
	return nil
}

// How says how the process misbehaves.
type How struct {
	How string `json:"how" turnus:"required,enum=kill|stop|stdout|stderr"`
}

func misbehave(ctx context.Context, r *sdk.Run[How, sdk.NoState]) error {
	flood := func(f *os.File) {
		long := append(bytes.Repeat([]byte("x"), 200<<10), '\n')
		for range 25 { // 5 MB in lines over every limit; beyond 4 MB at once the worker slows the plugin down
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

func main() {
	sdk.Serve(sdk.Plugin("lab", "1.0.0"),
		sdk.Job("lab.trace", trace, sdk.Idempotent(true), sdk.OnLost("retry"), sdk.Concurrency(256)),
		sdk.Job("lab.hold", trace, sdk.Idempotent(false), sdk.OnLost("hold")),
		sdk.Job("lab.misbehave", misbehave, sdk.Idempotent(false), sdk.OnLost("hold")),
	)
}
