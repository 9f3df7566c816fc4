package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// millwright answers where a clone of Millwright is, with the conformance suite and the simulated cloud.
func millwright() string { return fromEnvironment("MILLWRIGHT", "../../..") }

// What the suite cannot run, and why that is no mistake.
var notRun = map[string]string{
	"change tags": "the provider has no updateVm",
}

// TestConformance runs each case of the suite as a test of its own.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	program := filepath.Join(t.TempDir(), "provider")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	counterpart := startCounterpart(t)

	args := []string{"run", "--silent", "conformance", "--", "--json", "--provider", "go", "--counterpart", counterpart, "--worker", program}
	args = append(args, strings.Fields(os.Getenv("CONFORMANCE_FLAGS"))...)
	command := exec.Command("npm", args...)
	command.Dir, command.Stderr = millwright(), os.Stderr
	out, err := command.Output()
	var runs []struct {
		Results []struct {
			Title, State, Why, Promise string
			Calls                      []string
		}
	}
	if json.Unmarshal(out, &runs) != nil || len(runs) != 1 || len(runs[0].Results) == 0 {
		t.Fatalf("the suite has no results: %v\n%s", err, out)
	}
	for _, result := range runs[0].Results {
		t.Run(result.Title, func(t *testing.T) {
			switch {
			case result.State == "ok":
			case result.State == "not run" && notRun[result.Title] != "":
				t.Skip(result.Why)
			default:
				t.Errorf("%s: %s\n%s\n%s", result.State, result.Why, result.Promise, strings.Join(result.Calls, "\n"))
			}
		})
	}
}

// counterpart answers the questions of docs/reference/conformance.md for the simulated cloud, by its admin API.
type counterpart struct {
	url   string
	token string
	class map[string]any
}

// startCounterpart starts the cloud, and answers the URL that the suite asks.
func startCounterpart(t *testing.T) string {
	t.Helper()
	token := "canary-" + rand.Text()
	flags := []string{"--data", t.TempDir(), "--token", token, "--boot-ms", "200", "--delete-ms", "500"}
	command := exec.Command("node", append([]string{"deploy/local/bootstrap.js", "deploy/local/simulated-cloud/main.ts"}, flags...)...)
	command.Dir, command.Stderr = millwright(), os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("the simulated cloud: %v", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	var started struct{ URL string }
	if err := json.Unmarshal([]byte(line), &started); err != nil {
		t.Fatalf("the simulated cloud has not started: %q", line)
	}

	c := &counterpart{url: started.URL, token: token, class: map[string]any{
		"endpoint": started.URL, "region": "here", "machineType": "small", "tags": tagsOf("class"),
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", answer(c.facts))
	mux.HandleFunc("PUT /fault", answer(c.setFault))
	mux.HandleFunc("GET /things", answer(c.things))
	mux.HandleFunc("GET /calls", answer(c.calls))
	mux.HandleFunc("POST /vms", answer(c.makeVMs))
	mux.HandleFunc("POST /reset", answer(c.reset))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func answer(act func(body []byte) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var value any
		if err == nil {
			value, err = act(body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(value)
	}
}

func (c *counterpart) facts([]byte) (any, error) {
	return map[string]any{
		"providerSpec": c.class,
		"credentials":  map[string]string{"token": c.token},
		"manyVms":      150,                                                // a page of the cloud has 100
		"listedLateMs": (settleTime - 500*time.Millisecond).Milliseconds(), // less than what the provider waits
	}, nil
}

// setFault turns a fault of the suite into faults of the cloud.
func (c *counterpart) setFault(body []byte) (any, error) {
	var request struct {
		Fault struct {
			Kind              string
			Ms                int
			Times             int
			RetryAfterSeconds int
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	type fault map[string]any
	f := request.Fault
	late, noTokens := fault{"kind": "invisible", "ms": f.Ms}, fault{"kind": "ignoreTokens"}
	faults := map[string][]fault{
		"":                  {},
		"lostAnswer":        {{"kind": "lostAnswer", "effect": "done", "operation": "create", "times": 1}, late, noTokens},
		"slowAnswer":        {{"kind": "hang", "effect": "done", "operation": "create", "ms": f.Ms}, noTokens},
		"listedLate":        {late, noTokens},
		"noCapacity":        {{"kind": "capacity"}},
		"halfWay":           {{"kind": "leak", "operation": "create"}},
		"missingPermission": {{"kind": "forbidden"}},
		"throttled":         {{"kind": "throttle", "retryAfterSeconds": 1, "times": f.Times}},
		"askedToWait":       {{"kind": "throttle", "retryAfterSeconds": f.RetryAfterSeconds}},
	}
	shown, isKnown := faults[f.Kind]
	if !isKnown {
		return nil, fmt.Errorf("the fault %s is not known", f.Kind)
	}
	return nil, c.ask(http.MethodPut, "/faults", map[string]any{"faults": shown}, nil)
}

func (c *counterpart) things([]byte) (any, error) {
	var resources []Resource
	if err := c.ask(http.MethodGet, "/resources", nil, &resources); err != nil {
		return nil, err
	}
	things := []map[string]string{}
	for _, each := range resources {
		thing := map[string]string{"id": each.ID, "kind": each.Kind}
		if uid, isTagged := each.Tags[uidTag]; isTagged {
			thing["uid"] = uid
		}
		if each.VM != "" {
			thing["attachedTo"] = each.VM
		}
		things = append(things, thing)
	}
	return things, nil
}

func (c *counterpart) calls([]byte) (any, error) {
	var stats struct {
		Calls int `json:"calls"`
	}
	err := c.ask(http.MethodGet, "/stats", nil, &stats)
	return stats, err
}

func (c *counterpart) makeVMs(body []byte) (any, error) {
	var wanted struct {
		Owner     string
		Count     int
		UID, Name *string
	}
	if err := json.Unmarshal(body, &wanted); err != nil {
		return nil, err
	}
	ids := []string{}
	for range wanted.Count {
		token, tags := rand.Text(), tagsOf(wanted.Owner)
		name := "made-" + strings.ToLower(token)
		if wanted.Name != nil {
			name = *wanted.Name
		}
		if wanted.UID != nil {
			tags[uidTag] = *wanted.UID
		}
		vm := map[string]any{
			"token": token, "name": name, "region": "here", "machineType": "small", "tags": tags, "partTags": tags,
			"userData": "none", "node": nil,
		}
		var made Resource
		if err := c.ask(http.MethodPost, "/v1/vms", vm, &made); err != nil {
			return nil, err
		}
		ids = append(ids, made.providerID())
	}
	return map[string]any{"providerIDs": ids}, nil
}

func tagsOf(owner string) map[string]string {
	switch owner {
	case "class":
		return map[string]string{"kubernetes.io/cluster/conformance": "1"}
	case "another":
		return map[string]string{"kubernetes.io/cluster/another": "1"}
	}
	return map[string]string{}
}

func (c *counterpart) reset([]byte) (any, error) {
	if _, err := c.setFault([]byte("{}")); err != nil {
		return nil, err
	}
	return nil, c.ask(http.MethodPost, "/reset", nil, nil)
}

func (c *counterpart) ask(method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, c.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token) // the admin API needs none
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s of the cloud: %d %s", method, path, response.StatusCode, read)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(read, into)
}
