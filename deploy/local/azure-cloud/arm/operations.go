package main

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"time"
)

// An operation is what a request has started and goes on after its answer.
type operation struct {
	id        string
	startedAt time.Time
	endedAt   time.Time
	err       *refusal
	// statusPath shows its state, resultPath whether it has ended.
	statusPath, resultPath string
}

// operationKinds are the places of operations below a subscription, by the resources that they change.
var operationKinds = map[string]struct{ status, result string }{
	"vm":      {"Microsoft.Compute/locations/" + location + "/operations", "Microsoft.Compute/locations/" + location + "/operations"},
	"disk":    {"Microsoft.Compute/locations/" + location + "/DiskOperations", "Microsoft.Compute/locations/" + location + "/DiskOperations"},
	"network": {"Microsoft.Network/locations/" + location + "/operations", "Microsoft.Network/locations/" + location + "/operationResults"},
}

// start starts the operation of the current request. done is called when its time is over, unless it fails.
func (c *cloud) start(kind string, takes time.Duration, done func(), failed func()) *operation {
	place := operationKinds[kind]
	id := newID()
	prefix := "/subscriptions/" + subscription + "/providers/"
	op := &operation{
		id: id, startedAt: time.Now(),
		statusPath: prefix + place.status + "/" + id, resultPath: prefix + place.result + "/" + id,
	}
	faults := c.now.faults
	if faults.SlowOperation != nil {
		takes = time.Duration(faults.SlowOperation.Ms) * time.Millisecond
	}
	var err *refusal
	if f := faults.FailedOperation; f != nil {
		err = &refusal{Code: f.Code, Message: f.Message}
	} else if f := faults.Capacity; f != nil && kind == "vm" && c.now.method == http.MethodPut && capacityMessages[f.Code] != "" {
		err = &refusal{Code: f.Code, Message: capacityMessages[f.Code]}
	}
	c.operations[id] = op
	c.now.operation = op
	time.AfterFunc(takes, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		op.err, op.endedAt = err, time.Now()
		if err == nil {
			done()
		} else {
			failed()
		}
	})
	return op
}

// serveOperation answers what a client polls.
func (c *cloud) serveOperation(w http.ResponseWriter, id string, isResult bool) {
	op := c.operations[id]
	if op == nil {
		refuse(404, "NotFound", "The entity was not found in this Azure location.").write(w)
		return
	}
	if op.endedAt.IsZero() {
		w.Header().Set("Retry-After", c.retryAfter)
	}
	if isResult {
		switch {
		case op.endedAt.IsZero():
			w.Header().Set("Location", c.now.base+op.resultPath+"?monitor=true&api-version="+c.now.apiVersion)
			w.WriteHeader(http.StatusAccepted)
		case op.err != nil:
			(&refusal{Status: 409, Code: op.err.Code, Message: op.err.Message}).write(w)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
		return
	}
	body := map[string]any{"name": op.id, "startTime": op.startedAt.UTC(), "status": "InProgress"}
	if !op.endedAt.IsZero() {
		body["endTime"] = op.endedAt.UTC()
		body["status"] = "Succeeded"
		if op.err != nil {
			body["status"] = "Failed"
			body["error"] = op.err
		}
	}
	writeJSON(w, 200, body)
}

func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	s := hex.EncodeToString(b)
	return s[:8] + "-" + s[8:12] + "-4" + s[13:16] + "-8" + s[17:20] + "-" + s[20:]
}
