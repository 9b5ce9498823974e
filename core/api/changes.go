package api

// Topic is a part of the service that changes.
type Topic string

// The topics.
const (
	TopicRuns      Topic = "runs"      // accepted, under way, paused, waiting, ended
	TopicFleet     Topic = "fleet"     // hosts and their last outcomes
	TopicQueue     Topic = "queue"     // what runs and waits, shares, workers
	TopicSchedules Topic = "schedules" // their definitions, next and last runs
	TopicProject   Topic = "project"   // hosts, playbooks, windows and their approvals, a rejected version
)

// Topics returns all topics.
func Topics() []Topic {
	return []Topic{TopicRuns, TopicFleet, TopicQueue, TopicSchedules, TopicProject}
}

// Changes lists the topics that are worth reading again.
type Changes struct {
	At     string  `json:"at" doc:"since of the next request, to this or to another server"`
	Topics []Topic `json:"topics" doc:"that changed since then; all of them without since"`
}
