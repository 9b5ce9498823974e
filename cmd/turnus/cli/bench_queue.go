package cli

import "github.com/spf13/cobra"

func (a *app) benchQueueCmd() *cobra.Command { return &cobra.Command{Use: "queue"} }
func (a *app) benchFairCmd() *cobra.Command  { return &cobra.Command{Use: "fair"} }
