package plugins_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
)

// labOrder is what a worker in a process of its own does, so that a test may kill it.
type labOrder struct {
	Key    string
	Host   core.Host
	Params json.RawMessage
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
	got, err := supervisor.Run(ctx, host.Call{
		Job: core.JobID{Run: "run"}, Step: "push", Attempt: 1, Type: "firewall.push", Params: order.Params, Host: order.Host, Key: "worker", Fence: 1,
	})
	fmt.Printf("%+v %v\n", got, err)
	return stop()
}
