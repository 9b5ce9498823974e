// Package retention owns how long runs and their outputs are kept, by tenant, and removing expired
// ones: oldest first, in small pieces beside a service at work, and never of a run that is not
// complete.
//
// It must not know how the ledger keeps them, nor where its rules come from.
package retention
